"""A replay on disk, read as it is walked: for exports of runs that are larger than memory should be.

In: a records file and a samples file. Out: what a `Replay` says, with records decoded a batch at a time whenever they
are walked, and single columns of all records as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ridgeline.core.record import Phases, Record, Replay, ServerSample
from ridgeline.results.records import from_table, metadata_of, open_file
from ridgeline.results.samples import read_samples
from ridgeline.results.sweepline import Floats, Ints

BATCH = 1024  # records decoded at a time


class StoredReplay:
    """Raises InputError for what is no records file, or a newer one."""

    def __init__(self, records: Path, samples: Path | None = None) -> None:
        self.path = records
        self._samples = samples
        found = metadata_of(open_file(records).schema_arrow, str(records))
        self.phases = Phases(**found["phases"])
        self.speed: float = found["speed"]
        self.health: dict[str, float] = found["health"]
        self.settings: dict[str, object] = found["settings"]
        self.prompt_mode: str = found["prompt_mode"]
        self.aborted: str | None = found["aborted"]

    @property
    def records(self) -> Iterator[Record]:
        """All records from the first on, in the order of the file; every use walks them again."""
        for batch in open_file(self.path).iter_batches(batch_size=BATCH):
            yield from from_table(batch)

    @cached_property
    def samples(self) -> tuple[ServerSample, ...]:
        """Scrapes of the servers."""
        return read_samples(self._samples) if self._samples is not None and self._samples.exists() else ()

    def column(self, name: str) -> pa.ChunkedArray:
        """One field of all records, in the order of `records`."""
        return open_file(self.path).read(columns=[name]).column(name)


def numbers(replay: Replay | StoredReplay, name: str) -> Floats:
    """One number field of all records, NaN where it is missing."""
    if isinstance(replay, StoredReplay):
        found: Floats = replay.column(name).to_numpy().astype(np.float64)
        return found
    return np.array([getattr(record, name) for record in replay.records], dtype=np.float64)


def integers(replay: Replay | StoredReplay, name: str) -> Ints:
    """One integer field of all records, 0 where it is missing."""
    if isinstance(replay, StoredReplay):
        found: Ints = replay.column(name).fill_null(0).to_numpy()
        return found
    return np.array([getattr(record, name) or 0 for record in replay.records], dtype=np.int64)


def is_profiling(replay: Replay | StoredReplay) -> NDArray[np.bool_]:
    """Which records belong to the measured phase."""
    if isinstance(replay, StoredReplay):
        found: NDArray[np.bool_] = pc.equal(replay.column("phase").cast(pa.string()), "profiling").to_numpy()
        return found
    return np.array([record.phase == "profiling" for record in replay.records], dtype=bool)
