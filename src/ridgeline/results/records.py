"""Records in Parquet: one row a request, one column a field, times in simulated nanoseconds.

In: a replay (or records as they come). Out: an Arrow table, a Parquet file, and back, exactly. The schema's metadata
carries the version and everything of a replay that is not a record. NaN is refused; None is a null.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.record import CHUNK_NS, FIELDS, Outcome, Phases, Record, Replay, Row, to_row
from ridgeline.core.where import Where
from ridgeline.results.samples import read_samples
from ridgeline.results.streams import batches, part_of

VERSION = 1  # of the records table; documented in docs/reference/run-folder.md
ARRIVALS = 100_000  # of chunks in one batch of a stream: 0.8 MB
ROWS, BYTES = 65_536, 32 << 20  # of a row group, at most about
KEY = b"ridgeline.records"

_TEXT = pa.dictionary(pa.int32(), pa.string())
_OPTIONAL_INT = {
    "source_outer": pa.int32(),
    "source_inner": pa.int32(),
    "sent_ns": pa.int64(),
    "first_byte_ns": pa.int64(),
    "first_token_ns": pa.int64(),
    "first_visible_ns": pa.int64(),
    "last_token_ns": pa.int64(),
    "end_ns": pa.int64(),
    "status": pa.int32(),
    "asked_prompt_tokens": pa.int64(),
    "max_tokens": pa.int64(),
    "prompt_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "reasoning_tokens": pa.int64(),
    "cached_tokens": pa.int64(),
    "chunks": pa.int64(),
    "first_chunk_tokens": pa.int64(),
    "theoretical_hit_blocks": pa.int64(),
    "theoretical_total_blocks": pa.int64(),
}
_TYPES: dict[str, pa.DataType] = {
    "request_id": pa.int64(),
    "phase": _TEXT,
    "lane": pa.int32(),
    "tree": pa.int64(),
    "session_id": _TEXT,
    "conversation_id": _TEXT,
    "turn_index": pa.int32(),
    "depth": pa.int32(),
    "correlation_id": _TEXT,
    "parent_correlation_id": _TEXT,
    "source_kind": _TEXT,
    "scheduled_ns": pa.int64(),
    "outcome": _TEXT,
    "error": pa.string(),
    "flags": pa.list_(pa.string()),
    "chunk_ns": pa.list_(pa.int64()),
} | _OPTIONAL_INT
_NULLABLE = {*_OPTIONAL_INT, "parent_correlation_id", "error"}

_ANY = Record(request_id=0, phase="", lane=0, tree=0, session_id="", conversation_id="", turn_index=0, chunk_ns=(0,))

SCHEMA = pa.schema([pa.field(name, _TYPES[name], nullable=name in _NULLABLE) for name in FIELDS])


def to_table(records: Iterable[Record]) -> pa.Table:
    """Records as an Arrow table with `SCHEMA`. Raises TypeError or ArrowInvalid for a value its column cannot hold."""
    return table_of(list(map(to_row, records)))


def table_of(rows: Sequence[Row]) -> pa.Table:
    """The same of rows."""
    columns = zip(*rows, strict=True) if rows else [()] * len(FIELDS)
    return pa.Table.from_arrays(list(map(_array, FIELDS, columns)), schema=SCHEMA)


def _array(name: str, column: Sequence[Any]) -> pa.Array:
    if name == "chunk_ns":
        values = b"".join(column)
        ends = accumulate((len(stamps) // 8 for stamps in column), initial=0)
        stamps = pa.Array.from_buffers(pa.int64(), len(values) // 8, [None, pa.py_buffer(values)])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), stamps)
    if name == "outcome":  # an enum member is a str, but Arrow asks for the value itself
        column = [value.value for value in column]
    return pa.array(column, type=SCHEMA.field(name).type)


def from_table(table: pa.Table | pa.RecordBatch) -> tuple[Record, ...]:
    """Records of a table: the exact inverse of `to_table`."""
    columns = {name: table.column(name).to_pylist() for name in FIELDS}
    columns["outcome"] = [Outcome(value) for value in columns["outcome"]]
    for name in ("flags", "chunk_ns"):
        columns[name] = [tuple(value) for value in columns[name]]
    return tuple(Record(**dict(zip(FIELDS, row, strict=True))) for row in zip(*columns.values(), strict=True))


def replay_metadata(replay: Replay) -> dict[str, Any]:
    """What a replay holds beside records and samples, as plain data."""
    return {
        "version": VERSION,
        "phases": msgspec.to_builtins(replay.phases),
        "speed": replay.speed,
        "health": dict(replay.health),
        "settings": msgspec.to_builtins(replay.settings, str_keys=True),
        "prompt_mode": replay.prompt_mode,
        "aborted": replay.aborted,
    }


def with_metadata(table: pa.Table, metadata: Mapping[str, Any]) -> pa.Table:
    """The table carrying replay metadata. Raises ValueError for NaN and infinity."""
    return table.replace_schema_metadata({KEY: json.dumps(metadata, allow_nan=False).encode()})


def metadata_of(schema: pa.Schema, file: str) -> dict[str, Any]:
    """Replay metadata of a schema. Raises InputError for a foreign file or a newer version."""
    raw = (schema.metadata or {}).get(KEY)
    if raw is None:
        raise InputError([Problem("not a Ridgeline records file: its schema names no version", Where(file))])
    metadata: dict[str, Any] = json.loads(raw)
    if metadata["version"] > VERSION:
        raise InputError(
            [
                Problem(
                    f"written as ridgeline.records version {metadata['version']}; this Ridgeline reads up to {VERSION}",
                    Where(file),
                    hint="read it with the Ridgeline that wrote it, or a newer one",
                )
            ]
        )
    return metadata


def write_records(path: Path, replay: Replay) -> None:
    """Write the replay's records and metadata as one Parquet file (samples go to their own, see samples.py)."""
    with _writer(path, replay_metadata(replay)) as writer:
        writer.write_table(to_table(replay.records), row_group_size=ROWS)


def _writer(path: Path, metadata: Mapping[str, Any]) -> pq.ParquetWriter:
    # Times rise within a column, so delta packing is several times smaller than plain 64-bit values; a list column
    # is named by its element's path.
    delta = {name: "DELTA_BINARY_PACKED" for name in FIELDS if _TYPES[name] == pa.int64()}
    delta["chunk_ns.list.element"] = "DELTA_BINARY_PACKED"
    return pq.ParquetWriter(
        path,
        with_metadata(SCHEMA.empty_table(), metadata).schema,
        compression="zstd",
        column_encoding=delta,
        use_dictionary=[name for name in FIELDS if _TYPES[name] == _TEXT],
    )


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The table of a records file, all columns or some; the metadata stays in its schema. Raises InputError."""
    file = open_file(path)
    metadata_of(file.schema_arrow, str(path))
    return file.read(columns=list(columns) if columns is not None else None)


def read_records(path: Path, samples: Path | None = None) -> Replay:
    """A replay from its records file, with the samples of another file when given. Raises InputError."""
    table = read_table(path)
    metadata = metadata_of(table.schema, str(path))
    return Replay(
        records=from_table(table),
        phases=Phases(**metadata["phases"]),
        speed=metadata["speed"],
        samples=read_samples(samples) if samples is not None and samples.exists() else (),
        health=metadata["health"],
        settings=metadata["settings"],
        prompt_mode=metadata["prompt_mode"],
        aborted=metadata["aborted"],
    )


def open_file(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=True)
    except FileNotFoundError as error:
        raise InputError([Problem("no such file", Where(str(path)))]) from error
    except pa.ArrowInvalid as error:
        raise InputError([Problem(f"not a Parquet file: {error}", Where(str(path)))]) from error


class RecordWriter:
    """Writes records while a run goes on, so that a killed run keeps what it had.

    A Parquet file is unreadable until its footer is written, so the rows go to an Arrow stream beside it
    (`NAME.part`), one batch each `every` records, or sooner when they hold many arrivals; `finish` turns the stream
    into the Parquet file and removes it. `recover` reads the whole batches of a stream that was cut off.
    """

    def __init__(self, path: Path, every: int = 1000) -> None:
        self.path = path
        self.every = every
        self.part = part_of(path)
        self._waiting: list[Row] = []
        self._arrivals = 0  # of chunks, in the waiting rows
        self._sink = self.part.open("wb")
        self._writer = ipc.new_stream(self._sink, SCHEMA, options=ipc.IpcWriteOptions(emit_dictionary_deltas=False))
        to_table([_ANY])  # the first table takes 40 ms, which are better spent before anything is measured

    def write(self, records: Iterable[Record]) -> None:
        """Take records; full batches reach the file at once."""
        self.write_rows(map(to_row, records))

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Take records as rows."""
        for row in rows:
            self._waiting.append(row)
            self._arrivals += len(row[CHUNK_NS]) // 8
            if len(self._waiting) >= self.every or self._arrivals >= ARRIVALS:
                self.flush()

    def flush(self) -> None:
        """Bring everything taken so far to the disk."""
        if self._waiting:
            self._writer.write_table(table_of(self._waiting).combine_chunks())
            self._waiting.clear()
            self._arrivals = 0
        self._sink.flush()
        os.fsync(self._sink.fileno())

    def finish(self, metadata: Mapping[str, Any]) -> None:
        """Write the Parquet file with the replay's metadata (see `replay_metadata`) and remove the stream."""
        self.close()
        finish(self.part, self.path, metadata)

    def close(self) -> None:
        """Flush and close the stream, leaving it in place."""
        if not self._sink.closed:
            self.flush()
            self._writer.close()
            self._sink.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def finish(part: Path, path: Path, metadata: Mapping[str, Any]) -> None:
    """Turn a stream into the Parquet file and remove it."""
    with _writer(path, metadata) as writer:
        for table in _gathered(batches(part)):
            writer.write_table(table, row_group_size=ROWS)
    part.unlink()


def recover(part: Path) -> pa.Table:
    """Every whole batch of a record stream, cut off or not. Raises InputError when not even its head is there."""
    return pa.Table.from_batches(list(batches(part)), schema=SCHEMA).unify_dictionaries()


def _gathered(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together until they are worth a row group."""
    held: list[pa.RecordBatch] = []
    for part in parts:
        held.append(part)
        if sum(each.num_rows for each in held) >= ROWS or sum(each.nbytes for each in held) >= BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
