"""Scrapes of server metrics in Parquet: one row a value, so that any query engine can read them.

In: server samples. Out: a Parquet file and back. A failed scrape is one row without a name (a gap, not zeros); a
series that said NaN at a scrape has no row for it, because NaN is how Prometheus writes "no value".
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.readings import Reader
from ridgeline.core.record import ServerSample
from ridgeline.core.where import Where
from ridgeline.results.streams import batches, part_of

VERSION = 1
KEY = b"ridgeline.samples"
SCRAPES = 512  # of a row group
_TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("sample", pa.int64(), nullable=False),  # serial of the scrape: rows of one scrape share it
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("endpoint", _TEXT, nullable=False),
        pa.field("ok", pa.bool_(), nullable=False),
        pa.field("name", _TEXT),  # `name{label="v",...}`; null on the one row of a failed or empty scrape
        pa.field("value", pa.float64()),
        pa.field("took_ns", pa.int64()),  # of the scrape; files of before 2026-12 have no such column
    ],
    metadata={KEY: json.dumps({"version": VERSION}).encode()},
)


def to_table(samples: Sequence[ServerSample]) -> pa.Table:
    """Samples in long form, in their order."""
    return _long(samples, 0)


def _long(samples: Sequence[ServerSample], first: int) -> pa.Table:
    """The same, with serial numbers from `first` on."""
    serial: list[int] = []
    names: list[str | None] = []
    values: list[float | None] = []
    for number, sample in enumerate(samples):
        items: list[tuple[str | None, float | None]] = [
            (name, value) for name, value in (sample.values or {}).items() if not math.isnan(value)
        ]
        for name, value in items or [(None, None)]:
            serial.append(number)
            names.append(name)
            values.append(value)
    rows = np.array(serial, dtype=np.int64)
    arrays = [
        pa.array(rows + first),
        pa.array(np.array([sample.at_ns for sample in samples], dtype=np.int64)[rows]),
        pa.array([sample.endpoint for sample in samples], type=_TEXT).take(pa.array(rows)),
        pa.array(np.array([sample.values is not None for sample in samples], dtype=bool)[rows]),
        pa.array(names, type=_TEXT),
        pa.array(values, type=pa.float64()),
        pa.array([sample.took_ns for sample in samples], type=pa.int64()).take(pa.array(rows)),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def from_table(table: pa.Table) -> tuple[ServerSample, ...]:
    """The inverse of `to_table`, but for NaN values."""
    found: list[ServerSample] = []
    readers: dict[str, Reader] = {}
    held: tuple[int, str, dict[str, float] | None, int | None] | None = None  # of the scrape that is being read
    last = -1

    def close() -> None:
        if held is not None:
            at_ns, endpoint, values, took_ns = held
            kept = None if values is None else readers.setdefault(endpoint, Reader()).read(values)
            found.append(ServerSample(at_ns=at_ns, endpoint=endpoint, values=kept, took_ns=took_ns))

    if "took_ns" not in table.column_names:
        table = table.append_column("took_ns", pa.nulls(len(table), pa.int64()))
    for batch in table.to_batches(max_chunksize=65_536):
        columns = [batch.column(field.name).to_pylist() for field in SCHEMA]
        for serial, at_ns, endpoint, ok, name, value, took_ns in zip(*columns, strict=True):
            if serial != last:
                close()
                held, last = (at_ns, endpoint, {} if ok else None, took_ns), serial
            assert held is not None
            values = held[2]
            if values is not None and name is not None:
                values[name] = value
    close()
    return tuple(found)


def write_samples(path: Path, samples: Sequence[ServerSample]) -> None:
    """Write samples as one Parquet file, some at a time."""
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for first in range(0, len(samples), SCRAPES):
            writer.write_table(_long(samples[first : first + SCRAPES], first))


class SampleWriter:
    """Writes scrapes while a run goes on: as an Arrow stream beside the file (`NAME.part`), so that a killed run keeps
    what it had (`recover`). Any thread may `write`, which only keeps the scrape. `flush` brings what came to the file;
    the thread that does it gets a heap of Arrow's, many megabytes, so it should be one that has it anyway."""

    def __init__(self, path: Path) -> None:
        self.path, self.part, self._written = path, part_of(path), 0
        self._waiting: list[ServerSample] = []
        self._lock = threading.Lock()
        self._sink = self.part.open("wb")
        self._stream = ipc.new_stream(self._sink, SCHEMA)

    def write(self, sample: ServerSample) -> None:
        """Take one scrape."""
        with self._lock:
            self._waiting.append(sample)

    def flush(self) -> None:
        """Bring what came so far to the file."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if waiting:
            self._stream.write_table(_long(waiting, self._written).combine_chunks())
            self._written += len(waiting)
            self._sink.flush()

    def close(self) -> None:
        """Write what is left and end the stream, leaving it in place. Later calls change nothing."""
        if not self._sink.closed:
            self.flush()
            self._stream.close()
            self._sink.close()

    def finish(self) -> None:
        """The stream becomes the Parquet file; without a single scrape there is none."""
        self.close()
        if self._written:
            with pq.ParquetWriter(self.path, SCHEMA, compression="zstd") as writer:
                for batch in batches(self.part):
                    writer.write_batch(batch)
        self.part.unlink()


def recover(part: Path) -> tuple[ServerSample, ...]:
    """Every whole batch of a stream that was cut off. Raises InputError for what is none."""
    if not part.stat().st_size:  # nothing was written yet
        return ()
    return from_table(pa.Table.from_batches(list(batches(part)), schema=SCHEMA).unify_dictionaries())


def read_samples(path: Path) -> tuple[ServerSample, ...]:
    """Samples of a file. Raises InputError for a foreign file or a newer version."""
    try:
        table = pq.read_table(path, memory_map=True)
    except FileNotFoundError as error:
        raise InputError([Problem("no such file", Where(str(path)))]) from error
    except pa.ArrowInvalid as error:
        raise InputError([Problem(f"not a Parquet file: {error}", Where(str(path)))]) from error
    raw = (table.schema.metadata or {}).get(KEY)
    if raw is None or json.loads(raw)["version"] > VERSION:
        said = "names no version" if raw is None else f"has version {json.loads(raw)['version']}"
        raise InputError(
            [Problem(f"its schema {said}; this Ridgeline reads ridgeline.samples up to {VERSION}", Where(str(path)))]
        )
    return from_table(table)
