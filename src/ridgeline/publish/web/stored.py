"""A store's channels as shelves: asked for what a page shows, chart by chart; nothing is read ahead.

In: an open store. Out: shelves. A store may hold a hundred thousand points, so a chart's points come with the measures
that charts use and no others; a whole point is read when one is looked at. What was read is kept for its version.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import select

from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import InputError
from ridgeline.core.point import Caution, Point, Source, Validity
from ridgeline.publish.charts import axes, slots
from ridgeline.publish.charts.data import said, subject_of
from ridgeline.publish.staging import moves
from ridgeline.publish.staging.moves import Receipt
from ridgeline.publish.web import tabled
from ridgeline.publish.web.data import CHANNELS, Channel, Chart, Files, Hit, Run, Subject, TableName
from ridgeline.results.frontier import Exclusion
from ridgeline.results.runfolder import Failure, RunHeader
from ridgeline.results.store import Store
from ridgeline.results.store import tables as t
from ridgeline.results.sweepline import Ints

_BATCH = 500  # ids in one question
KEPT = 128  # answers in memory for a store: its charts, its runs and what they are made of
_T = TypeVar("_T")


class _Body(msgspec.Struct, gc=False):
    """A stored point without its measures and its provenance, which the decoder passes over."""

    run_key: str
    cell_fingerprint: str
    name: str
    line: str
    series: str
    source: Source
    concurrency: int
    gpus: int
    facts: dict[str, Any]
    validity: Validity = Validity.VALID
    reasons: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    measured_at: str | None = None
    attempt: int = 1


class Told(msgspec.Struct, gc=False, frozen=True):
    """A measure as it was stored. It was checked then: the points of a chart are read in half the time without."""

    value: float | None
    unit: str
    n: int | None = None
    reason: str | None = None


_FIELDS = _Body.__struct_fields__
_of_body = attrgetter(*_FIELDS)


@cache
def _decoder(wanted: frozenset[str]) -> tuple[msgspec.json.Decoder[Any], tuple[str, ...]]:
    """Decodes a body with the wanted measures and no others, in one go; their names in the order of the fields."""
    names = tuple(sorted(wanted))
    fields = tuple(f"m{at}" for at in range(len(names)))
    told = [(field, Told | None, None) for field in fields]
    measures = msgspec.defstruct("Wanted", told, rename=dict(zip(fields, names, strict=True)), gc=False)
    body = msgspec.defstruct("Body", [("measures", measures)], bases=(_Body,), kw_only=True, gc=False)
    return msgspec.json.Decoder(body), names


def slim(body: str | bytes, id: str, wanted: frozenset[str]) -> Point:
    """A point with the measures that are `wanted`."""
    decoder, names = _decoder(wanted)
    read = decoder.decode(body)
    found = zip(names, msgspec.structs.astuple(read.measures), strict=True)
    measures: dict[str, Any] = {name: measure for name, measure in found if measure is not None}
    return Point(id=id, measures=measures, **dict(zip(_FIELDS, _of_body(read), strict=True)))


def _header(stored: str, name: str, started_at: str) -> RunHeader:
    """What a run says of itself: of one of ours the command, settings and host, of another tool's what was kept."""
    told = msgspec.json.decode(stored)
    known = {key: told[key] for key in ("command", "ridgeline", "settings", "host", "resumed_at") if told.get(key)}
    try:
        return msgspec.convert({**known, "name": name, "created_at": started_at}, RunHeader)
    except msgspec.ValidationError:  # another tool's header may use these words for something else
        return RunHeader(name=name, created_at=started_at)


def shelves_of(target: str) -> list[StoreShelf]:
    """One shelf a channel of the store at `target`."""
    kept = Kept(Store.open(target))
    return [StoreShelf(kept, channel) for channel in CHANNELS]


class Kept:
    """What was asked of a store at its present version, the least used answers forgotten. Threads may share it: who
    asks for what another one is working out waits for that."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._held: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._turns: dict[tuple[str, ...], threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...], make: Callable[[], _T]) -> _T:
        """The answer for this version, made once."""
        full = (str(self.store.dataset_version()), *key)
        with self._lock:
            turn = self._turns.setdefault(full, threading.Lock())
        with turn:
            with self._lock:
                if full in self._held:
                    self._held.move_to_end(full)
                    found: _T = self._held[full]
                    return found
            try:
                made = make()
                with self._lock:
                    self._held[full] = made
                    while len(self._held) > KEPT:
                        self._held.popitem(last=False)
            finally:
                with self._lock:
                    self._turns.pop(full, None)
            return made


class StoreShelf:
    """One channel of a store. Shelves of one store share what was read of it."""

    def __init__(self, kept: Kept, channel: Channel) -> None:
        self.channel: Channel = channel
        self.store = kept.store
        self._kept = kept

    def version(self) -> str:
        return f"{self.channel}.{self.store.dataset_version()}"

    def runs(self) -> Sequence[Run]:
        return self._keep(("runs",), self._runs)

    def charts(self) -> Sequence[Chart]:
        return self._keep(("charts",), self._charts)

    def latest(self, subject: Subject) -> tuple[Point, ...]:
        return self._keep(("latest", *subject), lambda: self._latest(subject))

    def points(self, run: str) -> tuple[Point, ...]:
        return self._keep(("points", run), lambda: self.store.points(run=run) if run in self._ids() else ())

    def cells(self, run: str) -> frozenset[tuple[str, int, str]]:
        return self._keep(("cells", run), lambda: self._cells(run))

    def _cells(self, run: str) -> frozenset[tuple[str, int, str]]:
        p, r = t.points.c, t.runs.c
        query = select(p.line, p.concurrency, p.source).join_from(t.points, t.runs, r.no == p.run).where(r.id == run)
        with self.store.database.reading() as connection:
            return frozenset((line, count, source) for line, count, source in connection.execute(query.distinct()))

    def failures(self, run: str) -> tuple[Failure | Exclusion, ...]:
        if run not in self._ids():
            return ()
        found = self._keep(("failures", run), lambda: self.store.failures(run))
        return tuple(msgspec.convert(one, Failure) for one in found)

    def find(self, address: str) -> tuple[Run, Point] | None:
        found = self._describe(address)
        if found is None:
            return None
        run = self._by_id().get(found["run"]["id"])
        if run is None:
            return None
        told = {f"found.{name}": value for name, value in found["found"].items()}
        point = msgspec.convert({**found["point"], "id": address}, Point)
        return run, replace(point, provenance={**point.provenance, **told})

    def files(self, address: str) -> Files:
        found = self._describe(address)
        if found is None:
            return Files()
        documents = dict(found["documents"])
        deployment = documents.pop("deployment", None)
        return Files(
            deployment=msgspec.convert(deployment, Deployment) if deployment else None,
            records=self.store.request_file(address, "records"),
            samples=self.store.request_file(address, "samples"),
            documents=documents,
        )

    def search(self, words: Sequence[str], run: str | None = None) -> Sequence[Hit]:
        of, addresses, texts = self._keep(("texts",), self._texts)
        ids = list(self._by_id())
        fits = np.ones(len(of), dtype=bool) if run is None else of == (ids.index(run) if run in ids else -1)
        for word in words:
            fits = fits & pc.match_substring(texts, word).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(fits)
        found = zip(of[rows].tolist(), addresses.take(rows).to_pylist(), strict=True)
        return [Hit(ids[at], address) for at, address in found]

    def some(self, addresses: Sequence[str]) -> Sequence[Point]:
        p, wanted = t.current_points.c, axes.drawable()
        found: dict[str, Point] = {}
        with self.store.database.reading() as connection:
            for at in range(0, len(addresses), _BATCH):
                query = select(p.id, p.body).where(p.id.in_(addresses[at : at + _BATCH]))
                found |= {id: slim(body, id, wanted) for id, body in connection.execute(query)}
        return [found[address] for address in addresses]

    def table(self, name: TableName) -> pa.Table:
        if name == "measures":
            return self.store.measured(self.channel)
        return tabled.of_heads(self.store.heads(), self.channel, self._numbers())

    def request_files(self, most: int) -> Sequence[tuple[str, Path]]:
        p, c, f = t.current_points.c, t.run_channels.c, t.files.c
        query = (
            select(p.id, f.path)
            .join_from(t.files, t.current_points, p.no == f.point)
            .join(t.run_channels, c.run == p.run)
            .where(c.channel == self.channel, f.kind == "records")
            .order_by(p.no.desc())
            .limit(most)
        )
        with self.store.database.reading() as connection:
            return [(id, self.store.files.path(path)) for id, path in connection.execute(query)]

    def receipts(self, run: str | None = None) -> Sequence[Receipt]:
        found = self._keep(("receipts",), lambda: moves.history(self.store))
        return [one for one in found if one.run == run or (run is None and self.channel in (one.channel, one.before))]

    def changelog(self) -> Sequence[Mapping[str, Any]]:
        ids = self._ids()
        return [entry for entry in self._keep(("changelog",), self.store.changelog) if entry["run"] in ids]

    def evaluations(self) -> Sequence[Mapping[str, Any]]:
        names = {id: run.name for id, run in self._by_id().items()}
        found = self._keep(("evaluations",), self._evaluations)
        return [{**one, "run_name": names[one["run"]]} for one in found if one["run"] in names]

    # Reading

    def _runs(self) -> tuple[Run, ...]:
        with self.store.database.reading() as connection:
            headers = dict(map(tuple, connection.execute(select(t.runs.c.id, t.runs.c.header))))
        return tuple(
            Run(
                id=row["id"],
                name=row["name"] or row["id"],
                header=_header(headers[row["id"]], row["name"] or row["id"], row["started_at"] or ""),
                n=row["points"],
                failed=row["failures"],
                sources=tuple(row["sources"]),
                when=max(filter(None, (row["measured_at"], row["started_at"], row["first_imported_at"])), default=""),
                url=row["url"],
                format="" if row["origin"] == "ridgeline" else row["origin"],
            )
            for row in self._keep_all(("runs of all",), self.store.runs)
            if row["channel"] == self.channel
        )

    def _numbers(self) -> list[tuple[int, str]]:
        """Number and id of every run of the store."""
        with self.store.database.reading() as connection:
            return [(no, id) for no, id in connection.execute(select(t.runs.c.no, t.runs.c.id))]

    def _index(self) -> dict[Subject, list[tuple[Point, list[int]]]]:
        """By subject and inside it by series: a point of the series without measures, and the numbers of its latest
        points."""
        heads = self.store.heads()
        rows = heads.rows(self.channel, latest=True)
        key = np.zeros(len(rows), dtype=np.int64)
        for name in ("model", "full_model", "scenario", "series"):
            words = heads.words(name)
            key = np.unique(key * (len(words.words) + 1) + words.codes[rows] + 1, return_inverse=True)[1]
        order = np.argsort(key, kind="stable")
        groups = np.split(heads.no[rows[order]], np.flatnonzero(np.diff(key[order])) + 1) if len(rows) else []
        firsts = self._bodies([int(numbers[0]) for numbers in groups])
        found: dict[Subject, list[tuple[Point, list[int]]]] = {}
        for numbers in groups:
            id, body = firsts[int(numbers[0])]
            point = slim(body, id, frozenset())
            found.setdefault(subject_of(point), []).append((point, numbers.tolist()))
        return found

    def _charts(self) -> tuple[Chart, ...]:
        """From counts by series, and one point of each series for its words and its colour."""
        index = self._keep(("index",), self._index)
        made = []
        for subject, groups in index.items():
            points = [point for point, _ in groups]
            count = sum(len(numbers) for _, numbers in groups)
            made.append(Chart(subject, said(points[0]), count, tuple(slots.colour_key(point) for point in points)))
        return tuple(sorted(made, key=lambda chart: (-chart.n, chart.subject)))

    def _latest(self, subject: Subject) -> tuple[Point, ...]:
        groups = self._keep(("index",), self._index).get(subject, [])
        bodies = self._bodies([no for _, numbers in groups for no in numbers])
        wanted = axes.drawable()
        points = [slim(body, id, wanted) for id, body in bodies.values()]
        return tuple(sorted(points, key=lambda point: (point.line, point.concurrency, point.id)))

    def _evaluations(self) -> list[dict[str, Any]]:
        """With the source of each, which lies in its stored body; another tool's scores are measured."""
        e, r = t.evaluations.c, t.runs.c
        query = select(r.id, e.line, e.task, e.metric, e.concurrency, e.body).join_from(
            t.evaluations, t.runs, r.no == e.run
        )
        with self.store.database.reading() as connection:
            source = {
                tuple(key): msgspec.json.decode(body)["facts"].get("source")
                for *key, body in connection.execute(query.order_by(e.revision))
            }
        named = ("run", "line", "task", "metric", "concurrency")
        return [
            {**one, "source": source.get(tuple(one[name] for name in named)) or "measured"}
            for one in self.store.evaluations()
        ]

    def _texts(self) -> tuple[Ints, pa.Array, pa.Array]:
        """Of every point, newest run first: the place of its run in `runs`, its address, and what search looks in (what
        `search_text` makes of one)."""
        heads = self.store.heads()
        rows = heads.rows(self.channel, latest=False)
        places = {id: at for at, id in enumerate(self._by_id())}
        place = np.zeros(int(heads.run.max(initial=0)) + 1, dtype=np.int64)
        for number, id in self._numbers():
            place[number : number + 1] = places.get(id, 0)  # a run without points has no row
        of = place[heads.run[rows]]
        order = np.argsort(of, kind="stable")
        of, head = of[order], heads.table.take(rows[order])
        names = pa.array([run.name for run in self.runs()], pa.string()).take(pa.array(of))
        model = pc.fill_null(head["model"].cast(pa.string()), "")
        columns = (head["name"], head["series"].cast(pa.string()), head["validity"].cast(pa.string()), names, model)
        texts = pc.utf8_lower(pc.binary_join_element_wise(*columns, " "))
        return of, head["id"], texts

    def _bodies(self, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Id and stored body of points by number."""
        found: dict[int, tuple[str, str]] = {}
        query = select(t.points.c.no, t.points.c.id, t.points.c.body)
        with self.store.database.reading() as connection:
            for at in range(0, len(numbers), _BATCH):
                for no, id, body in connection.execute(query.where(t.points.c.no.in_(numbers[at : at + _BATCH]))):
                    found[no] = (id, body)
        return found

    def _describe(self, address: str) -> dict[str, Any] | None:
        try:
            return self._keep(("point", address), lambda: self.store.describe(address))
        except InputError:
            return None

    def _by_id(self) -> dict[str, Run]:
        return {run.id: run for run in self.runs()}

    def _ids(self) -> frozenset[str]:
        return frozenset(self._by_id())

    def _keep(self, key: tuple[str, ...], make: Callable[[], _T]) -> _T:
        return self._kept.get((self.channel, *key), make)

    def _keep_all(self, key: tuple[str, ...], make: Callable[[], _T]) -> _T:
        """What is the same for every channel."""
        return self._kept.get(key, make)
