"""Shelves whose runs fit in memory: read once, kept until the version changes.

In: runs with their points. Out: a shelf. Two runs may hold points of one id (the same cell run twice in two folders),
so a point's address names the run as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.core.point import Point
from ridgeline.publish.charts import slots
from ridgeline.publish.charts.data import said, subject_of
from ridgeline.publish.staging.moves import Receipt
from ridgeline.publish.web.data import Channel, Chart, Files, Hit, Now, Run, Subject, TableName, search_text
from ridgeline.results.frontier import Exclusion
from ridgeline.results.runfolder import Failure, RunHeader

if TYPE_CHECKING:
    import pyarrow as pa


def address(run: str, point_id: str) -> str:
    """A point's name in links: unique on the shelf, and made of letters, digits, `.`, `_`, `~` and `-` only."""
    return f"{run}~{hashlib.sha256(point_id.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Held:
    """A run with everything in it; ids of `points` are addresses, `own` says what they were."""

    run: Run
    points: tuple[Point, ...]
    failures: tuple[Failure | Exclusion, ...]
    own: Mapping[str, str]
    changelog: tuple[Mapping[str, Any], ...] = ()
    evaluations: tuple[Mapping[str, Any], ...] = ()


def held(
    id: str,
    header: RunHeader,
    points: Sequence[Point],
    failures: Sequence[Failure | Exclusion] = (),
    *,
    live: Now | None = None,
    changelog: Iterable[Mapping[str, Any]] = (),
    evaluations: Iterable[Mapping[str, Any]] = (),
    **more: Any,
) -> Held:
    """A run made from what was read."""
    mine = tuple(replace(point, id=address(id, point.id)) for point in points)
    stamps = [header.created_at, *header.resumed_at, *(point.measured_at or "" for point in points)]
    run = Run(
        id=id,
        name=header.name or id,
        header=header,
        n=len(mine),
        failed=len(failures),
        sources=tuple(sorted({str(point.source) for point in points})),
        when=max(filter(None, stamps), default=""),
        live=live,
        **more,
    )
    own = {new.id: old.id for new, old in zip(mine, points, strict=True)}
    return Held(run, mine, tuple(failures), own, tuple(changelog), tuple(evaluations))


@dataclass(frozen=True)
class Snapshot:
    """Everything of a shelf at one version, newest run first."""

    version: str
    held: tuple[Held, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Held]:
        return {one.run.id: one for one in self.held}

    @cached_property
    def by_address(self) -> Mapping[str, tuple[Held, Point]]:
        return {point.id: (one, point) for one in self.held for point in one.points}

    @cached_property
    def texts(self) -> tuple[tuple[str, Hit], ...]:
        """What search looks in, and what it finds."""
        return tuple(
            (
                search_text(one.run.name, point.name, point.series, point.validity, point.facts.get("model")),
                Hit(one.run.id, point.id),
            )
            for one in self.held
            for point in one.points
        )

    @cached_property
    def latest(self) -> Mapping[Subject, tuple[Point, ...]]:
        """Runs are never stitched: the newest run that measured a line (of one source) gives all of that line. A run
        that still goes on gives only the lines that no finished one has, so that no line is half a line."""
        taken: set[tuple[str, str]] = set()
        found: dict[Subject, list[Point]] = {}
        for one in sorted(self.held, key=lambda one: one.run.live is not None):
            for point in one.points:
                if (point.line, point.series) not in taken:
                    found.setdefault(subject_of(point), []).append(point)
            taken |= {(point.line, point.series) for point in one.points}
        return {key: tuple(points) for key, points in found.items()}

    @cached_property
    def charts(self) -> tuple[Chart, ...]:
        return charts_of(self.latest)


def charts_of(groups: Mapping[Subject, Sequence[Point]]) -> tuple[Chart, ...]:
    """Charts of grouped points, most points first."""
    order = sorted(groups, key=lambda key: (-len(groups[key]), key))
    return tuple(
        Chart(key, said(groups[key][0]), len(groups[key]), tuple(dict.fromkeys(map(slots.colour_key, groups[key]))))
        for key in order
    )


def by_subject(points: Iterable[Point]) -> dict[Subject, list[Point]]:
    """Points by model and workload."""
    found: dict[Subject, list[Point]] = {}
    for point in points:
        found.setdefault(subject_of(point), []).append(point)
    return found


class MemoryShelf:
    """Base of shelves that give a snapshot; `snapshot` and `version` are theirs."""

    channel: Channel = "local"

    def snapshot(self) -> Snapshot:
        """Everything, as of now."""
        raise NotImplementedError

    def version(self) -> str:
        return self.snapshot().version

    def runs(self) -> Sequence[Run]:
        return [one.run for one in self.snapshot().held]

    def charts(self) -> Sequence[Chart]:
        return self.snapshot().charts

    def latest(self, subject: Subject) -> tuple[Point, ...]:
        return self.snapshot().latest.get(subject, ())

    def points(self, run: str) -> tuple[Point, ...]:
        found = self.snapshot().by_id.get(run)
        return found.points if found else ()

    def cells(self, run: str) -> frozenset[tuple[str, int, str]]:
        return frozenset((point.line, point.concurrency, str(point.source)) for point in self.points(run))

    def failures(self, run: str) -> tuple[Failure | Exclusion, ...]:
        found = self.snapshot().by_id.get(run)
        return found.failures if found else ()

    def find(self, address: str) -> tuple[Run, Point] | None:
        found = self.snapshot().by_address.get(address)
        return (found[0].run, found[1]) if found else None

    def files(self, address: str) -> Files:
        found = self.snapshot().by_address.get(address)
        return self.files_of(*found) if found else Files()

    def files_of(self, held: Held, point: Point) -> Files:
        """What is stored beside a point of this shelf."""
        return Files()

    def search(self, words: Sequence[str], run: str | None = None) -> Sequence[Hit]:
        return [
            hit for text, hit in self.snapshot().texts if run in (None, hit.run) and all(word in text for word in words)
        ]

    def some(self, addresses: Sequence[str]) -> Sequence[Point]:
        known = self.snapshot().by_address
        return [known[address][1] for address in addresses]

    def table(self, name: TableName) -> pa.Table:
        from ridgeline.publish.web import tabled  # loads Arrow

        listed = [(one.run.id, point) for one in self.snapshot().held for point in one.points]
        return tabled.points(listed) if name == "points" else tabled.measures([point for _, point in listed])

    def request_files(self, most: int) -> Sequence[tuple[str, Path]]:
        found = ((point.id, self.files_of(one, point).records) for one in self.snapshot().held for point in one.points)
        return list(islice(((address, file) for address, file in found if file is not None), most))

    def receipts(self, run: str | None = None) -> Sequence[Receipt]:
        return ()

    def changelog(self) -> Sequence[Mapping[str, Any]]:
        return [{"run": one.run.id, **entry} for one in self.snapshot().held for entry in one.changelog]

    def evaluations(self) -> Sequence[Mapping[str, Any]]:
        return [
            {**scored, "run": one.run.id, "run_name": one.run.name}
            for one in self.snapshot().held
            for scored in one.evaluations
        ]


class FixedShelf(MemoryShelf):
    """A shelf whose runs are given: imported files, tests."""

    def __init__(self, runs: Iterable[Held], channel: Channel = "local") -> None:
        self.channel = channel
        listed = sorted(runs, key=lambda one: (one.run.when, one.run.id), reverse=True)
        names = "\0".join(f"{one.run.id}\1{one.run.when}\1{len(one.points)}" for one in listed)
        self._snapshot = Snapshot(hashlib.sha256(names.encode()).hexdigest(), tuple(listed))

    def snapshot(self) -> Snapshot:
        return self._snapshot
