"""What the pages know: channels that hold runs that hold points. The one seam between the pages and where results lie.

In: shelves (a folder of runs, imported files, one channel of a store). Out: runs, charts, points and the files of a
point, each under an address that is safe in a link and is looked up, never joined to a path. What a shelf gives at one
`version` never changes; the version changes when what it holds does, and every ETag is made from it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from ridgeline.core.deployment import Deployment
from ridgeline.core.point import Point
from ridgeline.publish.charts import slots
from ridgeline.publish.staging.moves import Receipt
from ridgeline.results.frontier import Exclusion
from ridgeline.results.runfolder import Failure, RunHeader

if TYPE_CHECKING:
    import pyarrow as pa

Channel = Literal["published", "staging", "local"]
CHANNELS: tuple[Channel, ...] = ("published", "staging", "local")
TableName = Literal["points", "measures"]
_T = TypeVar("_T")
Subject = tuple[str, str]  # model and workload: what one chart is about


@dataclass(frozen=True, kw_only=True)
class Now:
    """What a run that goes on is doing. `cells`: short run keys of the cells under way."""

    cells: tuple[str, ...] = ()
    text: str = ""
    index: int | None = None
    total: int | None = None
    since: str | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One execution as pages list it. `when`: last worked on; `live`: somebody writes to it now."""

    id: str
    name: str
    header: RunHeader
    n: int
    failed: int
    sources: tuple[str, ...]
    when: str
    live: Now | None = None
    url: str | None = None
    format: str = ""  # where it is not our own


class Chart(NamedTuple):
    """The latest points of one subject. `colours`: colour keys of its series (see charts.slots)."""

    subject: Subject
    said: str
    n: int
    colours: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Files:
    """What is stored beside a point. `documents`: plain data by name; `logs`: name to file."""

    deployment: Deployment | None = None
    records: Path | None = None
    samples: Path | None = None
    documents: Mapping[str, Any] = field(default_factory=dict)
    logs: Mapping[str, Path] = field(default_factory=dict)


class Hit(NamedTuple):
    """A point that was searched for: the run it belongs to, and its address."""

    run: str
    address: str


def search_text(run: str, point_name: str, series: str, validity: str, model: object) -> str:
    """What search looks for words in."""
    return f"{point_name} {series} {validity} {run} {model or ''}".lower()


class Shelf(Protocol):
    """Where results lie. Points come with their addresses as ids."""

    @property
    def channel(self) -> Channel: ...

    def version(self) -> str:
        """Changes exactly when what the shelf holds changes. Cheap: asked on every request."""

    def runs(self) -> Sequence[Run]:
        """Every run, newest first."""

    def charts(self) -> Sequence[Chart]:
        """What there is to draw, most points first."""

    def latest(self, subject: Subject) -> tuple[Point, ...]:
        """The newest run that measured a line gives all of that line. May hold only the measures that charts use."""

    def points(self, run: str) -> tuple[Point, ...]:
        """Every point of a run, whole."""

    def cells(self, run: str) -> frozenset[tuple[str, int, str]]:
        """Line, concurrency and source of every point of a run: what two runs may have in common."""

    def failures(self, run: str) -> tuple[Failure | Exclusion, ...]:
        """What gave no point, and why."""

    def find(self, address: str) -> tuple[Run, Point] | None:
        """A whole point and its run."""

    def files(self, address: str) -> Files:
        """What is stored beside a point; nothing for an unknown address."""

    def search(self, words: Sequence[str], run: str | None = None) -> Sequence[Hit]:
        """Points of one run or of all whose words (see `search_text`) hold each of `words`, in lower case."""

    def some(self, addresses: Sequence[str]) -> Sequence[Point]:
        """The points of these addresses in their order; they may hold only the measures that charts use."""

    def table(self, name: TableName) -> pa.Table:
        """Every point, or every measure of every point, as a table of the form that tabled.py gives."""

    def request_files(self, most: int) -> Sequence[tuple[str, Path]]:
        """Address and file of requests, of the first `most` points that have them."""

    def receipts(self, run: str | None = None) -> Sequence[Receipt]:
        """Moves of a run between channels, or what came into this channel and what left it; oldest first, and nothing
        where runs are not moved."""

    def changelog(self) -> Sequence[Mapping[str, Any]]:
        """Why runs were made, newest first: run, date, description, config_keys, link."""

    def evaluations(self) -> Sequence[Mapping[str, Any]]:
        """What was scored: run, run_name, task, metric, score, stderr, n, line, concurrency, measured_at, source."""


@dataclass(frozen=True)
class Holding:
    """One channel at one version."""

    channel: Channel
    version: str
    shelves: tuple[Shelf, ...] = field(repr=False)
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # what pages worked out from it

    def keep(self, name: str, make: Callable[[], _T]) -> _T:
        """What was worked out from this version, once. Two threads may work it out twice; both are right."""
        if name not in self.kept:
            self.kept[name] = make()
        found: _T = self.kept[name]
        return found

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        found = [run for shelf in self.shelves for run in shelf.runs()]
        return tuple(sorted(found, key=lambda run: (run.when, run.id), reverse=True))

    @cached_property
    def by_id(self) -> Mapping[str, Run]:
        return {run.id: run for run in self.runs}

    @cached_property
    def charts(self) -> Mapping[Subject, Chart]:
        """What there is to draw, most points first."""
        found: dict[Subject, Chart] = {}
        for shelf in self.shelves:
            for chart in shelf.charts():
                other = found.get(chart.subject)
                both = (
                    Chart(chart.subject, chart.said, chart.n + other.n, other.colours + chart.colours)
                    if other
                    else chart
                )
                found[chart.subject] = both
        return {key: found[key] for key in sorted(found, key=lambda key: (-found[key].n, key))}

    @cached_property
    def slots(self) -> Mapping[str, int]:
        """Colour key to slot over all charts of the channel, so that a series looks the same everywhere."""
        return slots.assign(chart.colours for chart in self.charts.values())

    def latest(self, subject: Subject) -> tuple[Point, ...]:
        return tuple(point for shelf in self.shelves for point in shelf.latest(subject))

    def points(self, run: str) -> tuple[Point, ...]:
        """Every point of a run; none of an unknown one."""
        shelf = self._shelf(run)
        return shelf.points(run) if shelf else ()

    def cells(self, run: str) -> frozenset[tuple[str, int, str]]:
        shelf = self._shelf(run)
        return shelf.cells(run) if shelf else frozenset()

    def failures(self, run: str) -> tuple[Failure | Exclusion, ...]:
        shelf = self._shelf(run)
        return shelf.failures(run) if shelf else ()

    def search(self, words: str, start: int, count: int, run: str | None = None) -> tuple[int, list[tuple[Run, Point]]]:
        """How many points hold all words in their name, series, source, validity, model or run, and `count` of them
        from `start` on, newest run first; the points may hold only the measures that charts use."""
        wanted = words.lower().split()
        found = [(hit, shelf) for shelf in self.shelves for hit in shelf.search(wanted, run)]
        if len(self.shelves) > 1:
            rank = {one.id: at for at, one in enumerate(self.runs)}
            found.sort(key=lambda one: rank[one[0].run])
        here = found[start : start + count]
        points: dict[str, Point] = {}
        for shelf in self.shelves:
            mine = [hit.address for hit, of in here if of is shelf]
            points |= zip(mine, shelf.some(mine), strict=True)
        return len(found), [(self.by_id[hit.run], points[hit.address]) for hit, _ in here]

    def receipts(self, run: str | None = None) -> list[Receipt]:
        """Moves of a run between channels, or what came into this channel and what left it; newest first."""
        shelves = self.shelves if run is None else [shelf] if (shelf := self._shelf(run)) else []
        found = [one for shelf in shelves for one in reversed(shelf.receipts(run))]
        return sorted(found, key=lambda one: one.at, reverse=True)

    @cached_property
    def changelog(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(entry for shelf in self.shelves for entry in shelf.changelog())

    @cached_property
    def evaluations(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(one for shelf in self.shelves for one in shelf.evaluations())

    def _shelf(self, run: str) -> Shelf | None:
        return next((shelf for shelf in self.shelves if any(one.id == run for one in shelf.runs())), None)


class Found(NamedTuple):
    """A point, where it was found, and the shelf that has its files."""

    holding: Holding
    run: Run
    point: Point
    shelf: Shelf

    @property
    def files(self) -> Files:
        return self.shelf.files(self.point.id)


class Library:
    """All channels, and what was given to be laid over only. Threads may share it."""

    def __init__(self, shelves: Sequence[Shelf], overlays: Sequence[Shelf] = ()) -> None:
        self._shelves = tuple(shelves)
        self._overlays = tuple(overlays)
        self._held: dict[str, Holding] = {}
        self._lock = threading.Lock()

    def channels(self) -> tuple[Channel, ...]:
        """Channels that have a shelf, the most trusted first."""
        have = {shelf.channel for shelf in self._shelves}
        return tuple(channel for channel in CHANNELS if channel in have)

    def usual(self) -> Channel:
        """The most trusted channel that holds a run."""
        channels = self.channels()
        return next((one for one in channels if self.holding(one).runs), channels[0] if channels else "local")

    def holding(self, channel: Channel) -> Holding:
        """What a channel holds now."""
        return self._hold(channel, channel, tuple(shelf for shelf in self._shelves if shelf.channel == channel))

    def overlays(self) -> Holding:
        """Runs that were given to be laid over only."""
        return self._hold("overlay", "local", self._overlays)

    def everything(self) -> tuple[Holding, ...]:
        return (*(self.holding(channel) for channel in self.channels()), self.overlays())

    def version(self) -> str:
        """Of everything together."""
        return _hash(*(holding.version for holding in self.everything()))

    def find(self, address: str) -> Found | None:
        """A point by its address, in any channel."""
        for holding in self.everything():
            for shelf in holding.shelves:
                found = shelf.find(address)
                if found is not None:
                    return Found(holding, *found, shelf)
        return None

    def find_run(self, id: str) -> tuple[Holding, Run] | None:
        """A run by its id, in any channel."""
        return next(((held, held.by_id[id]) for held in self.everything() if id in held.by_id), None)

    def _hold(self, name: str, channel: Channel, shelves: tuple[Shelf, ...]) -> Holding:
        version = _hash(name, *(shelf.version() for shelf in shelves))
        with self._lock:
            kept = self._held.get(name)
            if kept is None or kept.version != version:
                kept = self._held[name] = Holding(channel, version, shelves)
            return kept


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
