"""Arrow streams that a run writes while it goes on, read back whole or cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where


def part_of(path: Path) -> Path:
    """Where the writer of `path` keeps its stream until it ends in order."""
    return path.with_name(path.name + ".part")


def batches(part: Path) -> Iterator[pa.RecordBatch]:
    """Every whole batch of a stream, one at a time. Raises InputError when not even its head is there."""
    with part.open("rb") as source:
        try:
            reader = ipc.open_stream(source)
        except (pa.ArrowInvalid, EOFError, OSError) as error:
            raise InputError([Problem(f"not an Arrow stream: {error}", Where(str(part)))]) from error
        while True:
            try:
                yield reader.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowInvalid, OSError):  # the batch that was being written when the run was killed
                return
