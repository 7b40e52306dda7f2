"""Points as one Parquet table: a row a point, a column a measure, null for missing and 0 for zero.

In: points. Out: an Arrow table whose schema carries units and reasons, or a file. Any query engine can read it; the
facts of a point are one JSON column, because they differ by scenario.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.core.point import Point
from ridgeline.results import durable, formats

VERSION = 1
KEY = b"ridgeline.points"
_TEXTS = ("id", "run_key", "cell_fingerprint", "name", "line", "series", "source", "validity", "measured_at")


def to_table(points: Iterable[Point]) -> pa.Table:
    """One row a point. Measures are doubles in fields that carry their unit; `missing` is JSON of name to reason."""
    listed = list(points)
    units = {name: measure.unit for point in listed for name, measure in point.measures.items()}
    columns: dict[str, pa.Array] = {
        name: pa.array([_text(getattr(p, name)) for p in listed], pa.string()) for name in _TEXTS
    }
    for name in ("concurrency", "gpus", "attempt"):
        columns[name] = pa.array([getattr(point, name) for point in listed], pa.int64())
    columns["repeat"] = pa.array([_repeat(point) for point in listed], pa.int64())
    columns["reasons"] = pa.array([list(point.reasons) for point in listed], pa.list_(pa.string()))
    columns["cautions"] = pa.array([[c.code for c in point.cautions] for point in listed], pa.list_(pa.string()))
    columns["facts"] = pa.array([_json(point.facts) for point in listed], pa.string())
    columns["missing"] = pa.array(
        [_json({n: m.reason for n, m in point.measures.items() if m.value is None}) for point in listed], pa.string()
    )
    fields = [pa.field(name, array.type) for name, array in columns.items()]
    arrays = list(columns.values())
    for name in sorted(units):
        fields.append(pa.field(name, pa.float64(), metadata={"unit": units[name]}))
        arrays.append(pa.array([point.value(name) for point in listed], pa.float64()))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata={KEY: json.dumps({"version": VERSION})}))


def write(path: Path, points: Iterable[Point]) -> None:
    """Write the table in one step. Raises EnvironmentFailed when the disk refuses."""
    sink = pa.BufferOutputStream()
    pq.write_table(to_table(points), sink, compression="zstd")
    with durable.environment(f"write {path}"):
        durable.write_bytes(path, sink.getvalue().to_pybytes())


def _repeat(point: Point) -> int | None:
    """Which repeat of its cell a point is; None where its source did not say."""
    told = point.provenance.get("repeat")
    return told if isinstance(told, int) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _json(value: object) -> str:
    return json.dumps(json.loads(formats.encode_plain(value)), sort_keys=True)
