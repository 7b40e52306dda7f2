"""Files of the store: written once, named by their content, never changed.

In: bytes, a file or a replay. Out: where it lies under the data folder, with digest and size. A file is on the disk
whole before the catalogue names it, so a killed writer leaves at most a file nobody names. Requests lie under
`records/run=RUN/cell=KEY/`, server series under `samples/...`, so that a query engine finds the partitions by itself.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.record import Replay
from ridgeline.results import durable

_CHUNK = 1 << 20


class Filed(NamedTuple):
    """A file of the store: its path under the data folder, digest and size in bytes."""

    path: str
    digest: str
    size: int


def digest_of(path: Path) -> str:
    """sha256 (hex) of a file's bytes."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


class Files:
    """The data folder of a store."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, relative: str) -> Path:
        return self.root / relative

    def keep_document(self, source: Path) -> Filed:
        """Keep a source file of an import: `raw/ab/abcd….suffix`."""
        digest = digest_of(source)
        return self._keep(source, f"raw/{digest[:2]}/{digest}{source.suffix}", digest)

    def keep_partition(self, kind: str, run: str, cell: str, source: Path) -> Filed:
        """Keep a Parquet file of one point: `records/run=RUN/cell=KEY/DIGEST.parquet`."""
        digest = digest_of(source)
        return self._keep(source, f"{kind}/run={run}/cell={cell}/{digest[:16]}.parquet", digest)

    def keep_replay(self, run: str, cell: str, replay: Replay) -> dict[str, Filed]:
        """Keep the records and samples of a replay that came without files."""
        from ridgeline.results.records import write_records
        from ridgeline.results.samples import write_samples

        with durable.environment(f"write to {self.root}"):
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=durable.LEFTOVER, dir=self.root) as folder:
                records = Path(folder) / "records.parquet"
                write_records(records, replay)
                found = {"records": self.keep_partition("records", run, cell, records)}
                if replay.samples:
                    samples = Path(folder) / "samples.parquet"
                    write_samples(samples, replay.samples)
                    found["samples"] = self.keep_partition("samples", run, cell, samples)
        return found

    def _keep(self, source: Path, relative: str, digest: str) -> Filed:
        """Copy, sync, then rename into place; a file that is there with the same size is the same file."""
        target = self.root / relative
        with durable.environment(f"keep {source.name} in {self.root}"):
            size = source.stat().st_size
            if target.exists() and target.stat().st_size == size:
                return Filed(relative, digest, size)
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=durable.LEFTOVER, dir=target.parent)
            unfinished = Path(name)
            try:
                with os.fdopen(handle, "wb") as out, source.open("rb") as file:
                    shutil.copyfileobj(file, out, _CHUNK)
                    out.flush()
                    os.fsync(out.fileno())
                unfinished.chmod(0o444)
                unfinished.rename(target)
                durable.sync(target.parent)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        return Filed(relative, digest, size)
