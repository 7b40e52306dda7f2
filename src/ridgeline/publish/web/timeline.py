"""A million requests for a browser: columns in one binary answer, drawn from as they are.

In: a records file. Out: bytes: `RLT1`, the length of a JSON header (little-endian uint32), the header padded with
blanks to a multiple of 8, then each column it names, one after another, each padded to a multiple of 8. Times are whole
milliseconds of simulated time from the start of the measured window (warm-up is negative); -1 in `first` means that no
token came. Requests are sorted by lane, row inside the lane, and time. Row 0 of a lane is its root stream; subagents
take the lowest free row while they live.
"""

from __future__ import annotations

import heapq
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ridgeline.core.record import Outcome
from ridgeline.results import records

MAGIC = b"RLT1"
KIND = "application/vnd.ridgeline.timeline"
_NEEDED = (
    "request_id", "phase", "lane", "tree", "session_id", "correlation_id", "depth", "scheduled_ns", "sent_ns",
    "first_token_ns", "end_ns", "outcome",
)  # fmt: skip
_MS = 1_000_000
NONE = -(2**31)  # a time that did not happen

Ints = NDArray[np.int64]


def timeline_bytes(file: Path) -> bytes:
    """The whole answer. Raises InputError for a foreign file."""
    table = records.read_table(file, _NEEDED)
    about = records.metadata_of(table.schema, str(file))
    phases = about["phases"]
    origin = phases["profiling_start_ns"] if phases["profiling_start_ns"] is not None else phases["start_ns"]
    lane = _ints(table, "lane")
    row = _rows(table, lane)
    sent, scheduled = _times(table, "sent_ns", origin), _times(table, "scheduled_ns", origin)
    begun = np.where(sent == NONE, scheduled, sent)
    order = np.lexsort((begun, row, lane))
    session, sessions = _codes(table, "session_id")
    outcome, outcomes = _codes(table, "outcome")
    flags = (
        outcome != outcomes.index(str(Outcome.OK)) if str(Outcome.OK) in outcomes else np.ones(len(lane), bool)
    ) * 1
    flags = flags + 2 * (_ints(table, "depth") > 0)
    phase, phase_names = _codes(table, "phase")
    flags = flags + 4 * np.isin(phase, [i for i, name in enumerate(phase_names) if name == "warmup"])
    columns: dict[str, NDArray[Any]] = {
        "id": _ints(table, "request_id").astype("<i4"),
        "lane": lane.astype("<i4"),
        "row": row.astype("<i4"),
        "session": session.astype("<i4"),
        "wanted": scheduled.astype("<i4"),
        "sent": begun.astype("<i4"),
        "first": _times(table, "first_token_ns", origin).astype("<i4"),
        "end": _times(table, "end_ns", origin).astype("<i4"),
        "flags": flags.astype("<u1"),
        "outcome": outcome.astype("<u1"),
    }
    lanes, counts = np.unique(lane, return_counts=True)
    deepest = np.zeros(int(lanes.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(deepest, lane, row)
    drained = phases["drained_ns"]
    header = {
        "unit": "ms",
        "none": NONE,
        "count": len(lane),
        "lanes": [[int(one), int(deepest[one]), int(n)] for one, n in zip(lanes, counts, strict=True)],
        "sessions": sessions,
        "outcomes": outcomes,
        "phases": {name: _relative(value, origin) for name, value in phases.items()},
        "from": int(begun.min(initial=0)),
        "to": int(max(np.max(columns["end"], initial=0), _relative(drained, origin) or 0)),
        "speed": about["speed"],
    }
    return pack(header, {name: values[order] for name, values in columns.items()})


def pack(header: dict[str, Any], columns: dict[str, NDArray[Any]]) -> bytes:
    """Header and columns in the form this module's docstring gives."""
    header = {**header, "columns": [[name, values.dtype.str] for name, values in columns.items()]}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(8 + len(text)) % 8)
    parts = [MAGIC, struct.pack("<I", len(text)), text]
    for values in columns.values():
        data = values.tobytes()
        parts += [data, b"\0" * (-len(data) % 8)]
    return b"".join(parts)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The inverse of `pack`: header and columns. Raises ValueError for other bytes."""
    if data[:4] != MAGIC:
        raise ValueError("not a timeline")
    (length,) = struct.unpack_from("<I", data, 4)
    header = json.loads(data[8 : 8 + length])
    at, columns = 8 + length, {}
    for name, kind in header["columns"]:
        values = np.frombuffer(data, dtype=kind, count=header["count"], offset=at)
        columns[name] = values
        at += values.nbytes + (-values.nbytes % 8)
    return header, columns


def _rows(table: pa.Table, lane: Ints) -> Ints:
    """Row of every request inside its lane: 0 for the root, and for each subagent stream the lowest row that is free
    from its first request to its last answer."""
    depth = _ints(table, "depth")
    row = np.zeros(len(depth), dtype=np.int64)
    deep = np.flatnonzero(depth > 0)
    if not len(deep):
        return row
    stream, _ = _codes(table, "correlation_id")
    begun = np.where(_nulls(table, "sent_ns"), _ints(table, "scheduled_ns"), _ints(table, "sent_ns"))
    ended = np.maximum(_ints(table, "end_ns"), begun)
    key = lane[deep] * (int(stream.max()) + 1) + stream[deep]
    names, place = np.unique(key, return_inverse=True)
    start = np.full(len(names), np.iinfo(np.int64).max)
    stop = np.full(len(names), np.iinfo(np.int64).min)
    np.minimum.at(start, place, begun[deep])
    np.maximum.at(stop, place, ended[deep])
    owner = np.zeros(len(names), dtype=np.int64)
    owner[place] = lane[deep]
    given = np.zeros(len(names), dtype=np.int64)
    busy: dict[int, list[tuple[int, int]]] = {}
    free: dict[int, list[int]] = {}
    most: dict[int, int] = {}
    for one in np.lexsort((start, owner)).tolist():
        home = int(owner[one])
        running, idle = busy.setdefault(home, []), free.setdefault(home, [])
        while running and running[0][0] <= start[one]:
            heapq.heappush(idle, heapq.heappop(running)[1])
        if idle:
            slot = heapq.heappop(idle)
        else:
            slot = most[home] = most.get(home, 0) + 1
        heapq.heappush(running, (int(stop[one]), slot))
        given[one] = slot
    row[deep] = given[place]
    return row


def _ints(table: pa.Table, name: str) -> Ints:
    """A column as whole numbers, 0 where it is null."""
    return np.asarray(table.column(name).fill_null(0).to_numpy()).astype(np.int64)


def _nulls(table: pa.Table, name: str) -> NDArray[np.bool_]:
    return np.asarray(table.column(name).is_null().to_numpy())


def _times(table: pa.Table, name: str, origin: int) -> Ints:
    """Milliseconds from `origin`, NONE where there is no time."""
    return np.where(_nulls(table, name), NONE, (_ints(table, name) - origin) // _MS)


def _codes(table: pa.Table, name: str) -> tuple[Ints, list[str]]:
    """A text column as numbers and the texts they stand for."""
    column = table.column(name).combine_chunks() if table.num_rows else pa.array([], type=pa.string())
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], type=pa.string())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return np.asarray(column.indices.fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64), [
        str(text) for text in column.dictionary.to_pylist()
    ]


def _relative(value: int | None, origin: int) -> int | None:
    return None if value is None else (value - origin) // _MS


def one_request(file: Path, request_id: int) -> dict[str, Any] | None:
    """A request with everything recorded of it but the arrivals of its chunks; None when there is none."""
    names = [name for name in records.SCHEMA.names if name != "chunk_ns"]
    table = pq.read_table(file, columns=names, filters=[("request_id", "==", request_id)])
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows[0] if rows else None


def derived(row: dict[str, Any]) -> dict[str, float | None]:
    """Times of one request in simulated seconds; None where one of its ends was not seen."""

    def between(start: str, end: str) -> float | None:
        a, b = row[start], row[end]
        return None if a is None or b is None else (b - a) / 1e9

    return {
        "ttft_s": between("sent_ns", "first_token_ns"),
        "e2e_s": between("sent_ns", "end_ns"),
        "lag_s": between("scheduled_ns", "sent_ns"),
    }
