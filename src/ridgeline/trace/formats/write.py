"""Writing trace files: JSON lines, gzip by the name's ending. The same records give the same bytes, and a file that was
there before is replaced when the new one is whole, not sooner."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ridgeline.core.errors import EnvironmentFailed


def write_jsonl(path: Path, records: Iterable[Any]) -> int:
    """One JSON object a line. Returns how many. Raises EnvironmentFailed when the file cannot be written."""
    encoder = msgspec.json.Encoder()
    count = 0
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("wb") as raw:
            # no name and no time in the gzip header, so that equal content is equal bytes
            stream = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
            for record in records:
                stream.write(encoder.encode(record) + b"\n")
                count += 1
            if stream is not raw:
                stream.close()
        beside.replace(path)
    except OSError as error:
        raise EnvironmentFailed(f"cannot write {path}: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)
    return count
