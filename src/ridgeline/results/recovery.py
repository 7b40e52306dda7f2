"""What a killed replay left, made into the files that everything reads.

A replay streams its records and scrapes to `records.parquet.part` and `samples.parquet.part`; an orderly end turns both
into Parquet. After a kill, `recover` does that with every batch that is whole. There is no point: the window never
closed, so nothing may be said of it as a whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.record import Phases, Replay
from ridgeline.core.where import Where
from ridgeline.results import records, samples
from ridgeline.results.runfolder import RunFolder
from ridgeline.results.streams import part_of

KILLED = "the replay was killed: these are its records until then"


class Recovered(NamedTuple):
    """What was made readable. `scrapes` None: no stream of them was left."""

    records: Path
    requests: int
    scrapes: int | None


def recover(folder: Path) -> Recovered:
    """Turn the streams of a killed replay in `folder` into `records.parquet` and `samples.parquet`, and remove them.

    The records' metadata says `aborted`; the measured window opens with its first request and never closes. Raises
    InputError when there is nothing to recover, or when what is there cannot be read; then nothing is changed.
    """
    path = folder / "records.parquet"
    part = part_of(path)
    if not part.exists():
        hint = "its replay ended in order" if path.exists() else "give the folder that `ridgeline replay --out` named"
        raise InputError([Problem("no records of a killed replay", Where(str(folder)), hint=hint)])
    table = records.recover(part)
    measured = table.filter(pc.equal(table["phase"].cast("string"), "profiling"))["scheduled_ns"]
    told = _settings(folder)
    replay = Replay(
        records=(),
        phases=Phases(profiling_start_ns=pc.min(measured).as_py()),
        speed=float(told.get("speed", 1.0)),
        settings=told,
        prompt_mode=str(told.get("prompt_mode", "")),
        aborted=KILLED,
    )
    scrapes = _scrapes(folder / "samples.parquet")  # first: while the records' stream is there, this can be repeated
    records.finish(part, path, records.replay_metadata(replay))
    return Recovered(path, table.num_rows, scrapes)


def _scrapes(path: Path) -> int | None:
    part = part_of(path)
    if not part.exists():
        return None
    found = samples.recover(part)
    if found:
        samples.write_samples(path, found)
    part.unlink()
    return len(found)


def _settings(folder: Path) -> dict[str, Any]:
    """What the replay wrote of itself when it began; empty when it was killed before that."""
    try:
        return dict(RunFolder.open(folder).header.settings)
    except InputError:
        return {}
