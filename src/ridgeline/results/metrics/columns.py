"""Records as numpy columns: what the formulas work on, whichever way the records came.

In: a replay, an Arrow table or a Parquet file. Out: one float array per field, NaN where the record holds None (inside
this room only), times in nanoseconds (exact in 53 bits up to 104 days). Arrivals of chunks are long, so they are
read on demand, one row group at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.core.record import Outcome, Replay
from ridgeline.results.sweepline import Floats, Ints

if TYPE_CHECKING:  # Arrow takes a third of a second to import; who only looks up a metric's name need not wait for it
    import pyarrow as pa
    import pyarrow.parquet as pq

OUTCOMES = tuple(str(outcome) for outcome in Outcome)
NUMBERS = (
    "lane",
    "tree",
    "scheduled_ns",
    "sent_ns",
    "first_byte_ns",
    "first_token_ns",
    "first_visible_ns",
    "last_token_ns",
    "end_ns",
    "asked_prompt_tokens",
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "chunks",
    "first_chunk_tokens",
    "theoretical_hit_blocks",
    "theoretical_total_blocks",
)


class Ragged:
    """Arrivals of one stretch of records: `times[offsets[i]:offsets[i+1]]` belong to its i-th record."""

    __slots__ = ("offsets", "times")

    def __init__(self, offsets: Ints, times: Ints) -> None:
        self.offsets = offsets
        self.times = times


@dataclass(frozen=True)
class Columns:
    """All records of a replay, warm-up included, in the order of sending."""

    profiling: NDArray[np.bool_]
    outcome: NDArray[np.int8]  # index into OUTCOMES
    numbers: dict[str, Floats]
    chunks: Callable[[], Iterator[Ragged]]

    def __len__(self) -> int:
        return len(self.profiling)

    def __getitem__(self, name: str) -> Floats:
        return self.numbers[name]

    def is_outcome(self, outcome: Outcome) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.outcome == OUTCOMES.index(str(outcome))
        return found

    @classmethod
    def of(cls, source: Replay | pa.Table | Path) -> Columns:
        """Columns of a replay, of a records table, or of a records file (whose other columns are not read)."""
        if isinstance(source, Replay):
            return _of_replay(source)
        import pyarrow.parquet as pq

        if not isinstance(source, Path):
            return _of_columns(source.column, lambda: _ragged(source.column("chunk_ns").chunks))
        file = pq.ParquetFile(source)
        # One column at a time: the Arrow form of each is gone before the next one comes.
        return _of_columns(lambda name: file.read(columns=[name]).column(name), lambda: _ragged_file(file))


def _of_replay(replay: Replay) -> Columns:
    records = replay.records
    codes = {outcome: OUTCOMES.index(str(outcome)) for outcome in Outcome}

    def chunks() -> Iterator[Ragged]:
        for start in range(0, len(records), 65_536):
            part = records[start : start + 65_536]
            lengths = np.array([len(record.chunk_ns) for record in part], dtype=np.int64)
            offsets = np.concatenate(([0], np.cumsum(lengths)))
            times = np.fromiter((t for record in part for t in record.chunk_ns), dtype=np.int64, count=offsets[-1])
            yield Ragged(offsets, times)

    return Columns(
        profiling=np.array([record.phase == "profiling" for record in records], dtype=bool),
        outcome=np.array([codes[record.outcome] for record in records], dtype=np.int8),
        numbers={
            name: np.array([getattr(record, name) for record in records], dtype=np.float64)  # None becomes NaN
            for name in NUMBERS
        },
        chunks=chunks,
    )


def _of_columns(column: Callable[[str], pa.ChunkedArray], chunks: Callable[[], Iterator[Ragged]]) -> Columns:
    return Columns(
        profiling=_places(column("phase"), ("profiling",)) == 0,
        outcome=_places(column("outcome"), OUTCOMES),
        numbers={name: _numpy(column(name)).astype(np.float64, copy=False) for name in NUMBERS},
        chunks=chunks,
    )


def _places(column: pa.ChunkedArray, words: Sequence[str]) -> NDArray[np.int8]:
    """Where each row's word stands among `words`, -1 for others. The file's own codes are used: Arrow's compute
    functions would say the same, but importing them takes as long as reading a million rows."""
    parts = []
    for chunk in column.chunks:
        coded = chunk if hasattr(chunk, "dictionary") else chunk.dictionary_encode()
        known = [words.index(word) if word in words else -1 for word in coded.dictionary.to_pylist()]
        table = np.array([*known, -1], dtype=np.int8)  # the last one is for null
        codes = coded.indices.to_numpy(zero_copy_only=False)
        parts.append(table[np.where(np.isnan(codes), -1, codes).astype(np.int64) if coded.null_count else codes])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int8)


def _numpy(column: pa.ChunkedArray) -> NDArray[np.generic]:
    """Values of a column; nulls of a number column become NaN (Arrow turns it into floats then)."""
    found: NDArray[np.generic] = column.to_numpy()
    return found


def _ragged(lists: list[pa.ListArray]) -> Iterator[Ragged]:
    for chunk in lists:
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        yield Ragged(offsets - offsets[0], chunk.flatten().to_numpy())


def _ragged_file(file: pq.ParquetFile) -> Iterator[Ragged]:
    for group in range(file.num_row_groups):
        yield from _ragged(file.read_row_group(group, columns=["chunk_ns"]).column("chunk_ns").chunks)
