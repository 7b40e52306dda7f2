"""Points and their measures as the tables that a statement of the data page may ask.

In: points, each with its run's id; or the columns of a store. Out: Arrow tables of one form. Words that repeat lie in a
dictionary: names, units and reasons repeat a million times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.core.point import Measure, Point
from ridgeline.results.store.heads import WORD, Heads

_FACTS = {"model": "model", "scenario": "scenario_name", "hardware": "hardware", "framework": "framework",
          "precision": "precision", "arm": "arm"}  # fmt: skip
_POINT = (
    "id", "run", "name", "line", "series", *_FACTS, "source", "validity", "concurrency", "gpus", "measured_at",
    "reasons",
)  # fmt: skip
_KINDS = {"id": pa.string(), "name": pa.string(), "concurrency": pa.int64(), "gpus": pa.int64()}
SCHEMAS = {
    "points": pa.schema([(name, _KINDS.get(name, WORD)) for name in _POINT]),
    "measures": pa.schema(
        {"point": WORD, "measure": WORD, "value": pa.float64(), "unit": WORD, "n": pa.int64(), "reason": WORD}
    ),
}


def points(listed: Iterable[tuple[str, Point]]) -> pa.Table:
    """The table `points` of points with their run's id."""
    return table(SCHEMAS["points"], [_point(run, point) for run, point in listed])


def measures(listed: Sequence[Point]) -> pa.Table:
    """The table `measures`. Made of columns: a tuple for each of a hundred measures of each point would take most of
    the time."""
    every: list[Measure] = [one for point in listed for one in point.measures.values()]
    counts = [len(point.measures) for point in listed]
    at = pa.array(np.repeat(np.arange(len(listed), dtype=np.int32), counts))
    words = {
        "measure": [name for point in listed for name in point.measures],
        "unit": [one.unit for one in every],
        "reason": [one.reason for one in every],
    }
    columns = {
        "point": pa.DictionaryArray.from_arrays(at, pa.array([point.id for point in listed], pa.string())),
        "value": pa.array([one.value for one in every], pa.float64()),
        "n": pa.array([one.n for one in every], pa.int64()),
        **{name: pa.array(column, pa.string()).dictionary_encode() for name, column in words.items()},
    }
    return pa.table(columns, schema=SCHEMAS["measures"])


def of_heads(heads: Heads, channel: str, runs: Sequence[tuple[int, str]]) -> pa.Table:
    """The table `points` of a store's channel. `runs`: number and id of each."""
    rows = heads.rows(channel, latest=False)
    place = np.zeros(int(heads.run.max(initial=0)) + 1, dtype=np.int32)
    known = {number: at for at, (number, _) in enumerate(runs)}
    for number in np.unique(heads.run[rows]).tolist():
        place[number] = known[number]
    names = pa.array([id for _, id in runs], pa.string())
    head = heads.table.take(rows)
    columns = {name: head["full_model" if name == "model" else name] for name in _POINT if name != "run"}
    columns["run"] = pa.DictionaryArray.from_arrays(pa.array(place[heads.run[rows]]), names)
    return pa.table(columns, schema=SCHEMAS["points"])


def table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """A table of rows."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _point(run: str, point: Point) -> tuple[Any, ...]:
    return (
        point.id, run, point.name, point.line, point.series,
        *(None if (value := point.facts.get(fact)) is None else str(value) for fact in _FACTS.values()),
        str(point.source), str(point.validity), point.concurrency, point.gpus, point.measured_at,
        "; ".join(point.reasons),
    )  # fmt: skip
