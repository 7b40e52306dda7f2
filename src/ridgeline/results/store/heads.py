"""Heads: what every point says of itself besides its values, as columns, for questions over all points at once.

In: rows of an import, or a reading transaction. Out: rows of `point_blocks`, or all heads of the catalogue with which
of them count. The row of a point lies beside its whole body of some kilobytes: reading a hundred thousand rows for a
few words each takes a second, reading the same words from a hundred blocks a tenth of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, func, select

from ridgeline.core.point import Measure
from ridgeline.results.store import tables as t
from ridgeline.results.sweepline import Ints

# The catalogue's own columns, then the facts `model` (`model` above is its short name, where it has one) and `arm`.
_WORDS = ("line", "series", "source", "validity", "model", "scenario", "hardware", "framework", "precision",
          "measured_at", "full_model", "arm", "reasons")  # fmt: skip
WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("no", "run", "concurrency", "gpus")]
    + [(name, pa.string()) for name in ("id", "name")]
    + [(name, WORD) for name in _WORDS]
)
_ALONE = pa.ipc.IpcReadOptions(use_threads=False)  # a block takes less time than handing its columns to threads


class Words(NamedTuple):
    """A column of few words: every row's place in `words`, -1 where it has none."""

    codes: Ints
    words: list[str]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Words:
        whole = column.combine_chunks()
        return cls(whole.indices.fill_null(-1).to_numpy(False).astype(np.int64), whole.dictionary.to_pylist())

    def code(self, word: str) -> int:
        """The place of a word; one that no row has, where nobody has it."""
        return self.words.index(word) if word in self.words else -2

    def at(self, row: int) -> str | None:
        code = int(self.codes[row])
        return self.words[code] if code >= 0 else None

    def take(self, rows: Ints) -> Words:
        return Words(self.codes[rows], self.words)

    def dense(self) -> Words:
        """The same column, with only the words that occur, in their order. Every row must have one."""
        order = sorted(set(self.codes.tolist()), key=self.words.__getitem__)
        place = np.zeros(len(self.words), dtype=np.int64)
        place[order] = np.arange(len(order))
        return Words(place[self.codes], [self.words[code] for code in order])


def block(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row of the table for rows of points, by rising number."""
    batch = pa.RecordBatch.from_pylist([{name: row[name] for name in SCHEMA.names} for row in rows], SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(batch)
    return {"first": rows[0]["no"], "packed": sink.getvalue().to_pybytes()}


class Counted(NamedTuple):
    """Points of a run: how many, how many of them valid, when the first window began, and what sources."""

    points: int
    valid: int
    measured_at: str | None
    sources: list[str]


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads of every revision by number. `current`: which of them count inside their run; `latest`: which of those the
    newest run of their line gave, of the runs that are in a channel; `channel`: of every row's run."""

    version: int
    table: pa.Table
    current: NDArray[np.bool_]
    latest: NDArray[np.bool_]
    channel: Words

    @classmethod
    def read(cls, connection: Connection, version: int) -> Heads:
        packed = connection.execute(select(t.point_blocks.c.packed).order_by(t.point_blocks.c.first)).scalars()
        parts = [pa.ipc.open_stream(pa.py_buffer(bytes(one)), options=_ALONE).read_all() for one in packed]
        table = pa.concat_tables([SCHEMA.empty_table(), *parts]).unify_dictionaries().combine_chunks()
        current = _current(connection, table["no"].to_numpy())
        run, channel = table["run"].to_numpy(), _channels(connection)
        held = Words(channel.codes[run], channel.words)
        return cls(version, table, current, _latest(connection, table, held, current & (held.codes >= 0)), held)

    def rows(self, channel: str | None, *, latest: bool) -> Ints:
        """Rows of a channel (any, when None) that count, or only those of the newest run of their line."""
        keep = self.latest if latest else self.current & (self.channel.codes >= 0)
        if channel is not None:
            keep = keep & (self.channel.codes == self.channel.code(channel))
        return np.flatnonzero(keep)

    def by_run(self) -> dict[int, Counted]:
        """What the points of each run that count come to, by the run's number."""
        rows = np.flatnonzero(self.current)
        source, validity, at = (self.words(name).take(rows) for name in ("source", "validity", "measured_at"))
        valid, run = validity.codes == validity.code("valid"), self.run[rows]
        order = np.argsort(run, kind="stable")
        found = {}
        for mine in np.split(order, np.flatnonzero(np.diff(run[order])) + 1) if len(order) else []:
            dates = [at.words[code] for code in np.unique(at.codes[mine]).tolist() if code >= 0]
            kinds = sorted(source.words[code] for code in np.unique(source.codes[mine]).tolist())
            found[int(run[mine[0]])] = Counted(len(mine), int(valid[mine].sum()), min(dates, default=None), kinds)
        return found

    @cached_property
    def no(self) -> Ints:
        """The number of every row."""
        found: Ints = self.table["no"].to_numpy()
        return found

    @cached_property
    def run(self) -> Ints:
        """The number of every row's run."""
        found: Ints = self.table["run"].to_numpy()
        return found

    @cached_property
    def _columns(self) -> dict[str, Words]:
        return {}

    def words(self, name: str) -> Words:
        """A column, made once."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = Words.of(self.table[name])
        return found


def _current(connection: Connection, numbers: Ints) -> NDArray[np.bool_]:
    """Which points count inside their run. Where every one is of another repeat that is all of them, which is seen
    sooner than said."""
    p = t.points.c
    repeats = select(p.run, p.run_key, p.repeat).distinct().subquery()
    if connection.execute(select(func.count()).select_from(repeats)).scalar_one() == len(numbers):
        return np.ones(len(numbers), dtype=bool)
    counting = np.fromiter(connection.execute(select(t.current_points.c.no)).scalars(), dtype=np.int64)
    return np.isin(numbers, counting, assume_unique=True)


def _channels(connection: Connection) -> Words:
    """By number of the run."""
    r, c = t.runs.c, t.run_channels.c
    found = connection.execute(select(r.no, c.channel).join_from(t.runs, t.run_channels, c.run == r.no, isouter=True))
    told = dict(map(tuple, found))
    names = sorted({channel for channel in told.values() if channel is not None})
    codes = np.full(max(told, default=0) + 1, -1, dtype=np.int64)
    for run, channel in told.items():
        codes[run] = names.index(channel) if channel is not None else -1
    return Words(codes, names)


def _latest(connection: Connection, table: pa.Table, channel: Words, shown: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of the rows that are `shown` (count, and are in a channel) those of the newest run of their line and source in
    that channel: the one that began last, of those that gave it a point which may be plotted."""
    r = t.runs.c
    order = sorted((begun or "", run) for run, begun in connection.execute(select(r.no, r.started_at)))
    rank = np.zeros(max((run for _, run in order), default=0) + 1, dtype=np.int64)
    rank[[run for _, run in order]] = np.arange(len(order))
    age = rank[table["run"].to_numpy()]
    line, source, validity = (Words.of(table[name]) for name in ("line", "source", "validity"))
    key = (line.codes * len(source.words) + source.codes) * len(channel.words) + channel.codes
    measured = shown & (validity.codes != validity.code("invalid"))
    newest = np.full(len(line.words) * len(source.words) * len(channel.words) + 1, -1, dtype=np.int64)
    np.maximum.at(newest, key[measured], age[measured])
    found: NDArray[np.bool_] = shown & (newest[np.where(shown, key, -1)] == age)
    return found


def pack(connection: Connection) -> None:
    """Migration 5: heads of what is there, and blocks of measures with counts, units and reasons, from the bodies."""
    from ridgeline.results.store import blocks, ingest

    connection.execute(t.measure_blocks.delete())
    names = {name: (no, unit) for no, name, unit in connection.execute(select(t.measure_names))}
    for rows in _points(connection, blocks.AT_ONCE):
        heads: list[dict[str, Any]] = []
        measures: dict[int, list[tuple[int, Measure]]] = {}
        for row in rows:
            point = ingest.point_of_body(row.body, row.id)
            heads.append({**row._mapping, **ingest.head(point)})
            for name, measure in point.measures.items():
                if name not in names:  # nobody had a value of it
                    names[name] = (len(names) + 1, measure.unit)
                    fresh = {"no": len(names), "name": name, "unit": measure.unit}
                    connection.execute(t.measure_names.insert(), fresh)
                measures.setdefault(names[name][0], []).append((row.no, measure))
        connection.execute(t.point_blocks.insert(), [block(heads)])
        packed = blocks.rows(measures, dict(names.values()))
        if packed:
            connection.execute(t.measure_blocks.insert(), packed)


def _points(connection: Connection, at_once: int) -> Iterator[Sequence[Row[Any]]]:
    last = -1
    query = select(t.points).order_by(t.points.c.no).limit(at_once)
    while rows := connection.execute(query.where(t.points.c.no > last)).all():
        yield rows
        last = rows[-1].no
