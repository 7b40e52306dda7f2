"""The reference loader's output for recorded sessions, decoded once a process."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from tests.golden import golden


def expected() -> dict[str, Any]:
    """Rows by session. Skips the test where the known answers are absent."""
    return _decoded(golden("traces/oracle/expected.jsonl.gz"))


@cache
def _decoded(path: Path) -> dict[str, Any]:
    rows = map(msgspec.json.decode, gzip.decompress(path.read_bytes()).splitlines())
    return {row["trace_id"]: row for row in rows}
