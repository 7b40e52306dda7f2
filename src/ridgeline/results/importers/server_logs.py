"""Server logs among the artifacts of a CI run: kept with the import, and read for the few facts that a row lacks.

In: the log files of a job. Out: the point with what the engine said when it started (its version, the size of its KV
cache over all engine cores, what was left for it) and the names of the kept files. Nothing is judged here: a foreign
point has no promises to hold.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeline.results.importers.api import Bundle, ImportedPoint

PATTERNS = ("server_logs_*/*.log", "server_logs_*/*.txt", "server_logs_*/*.log.gz", "server_logs_*/*.out")
_LINES = 20_000  # a start says these things early; a log of an hour has millions of lines
_VERSION = re.compile(r"(?:vLLM API server version|LLM engine \(v|sglang(?: version)?[ =]+v?)\s*([0-9][\w.+-]*)")
_POOL = re.compile(r"GPU KV cache size: ([\d,]+) tokens|max_total_num_tokens=(\d+)")
_CORE = re.compile(r"\((EngineCore[^)\s]*|\w*DP\d+[^)]*)[^)]*\)|\b(DP\d+)\b")
_MEMORY = re.compile(r"Available KV cache memory: ([\d.]+) GiB")


def beside(item: ImportedPoint, bundle: Bundle, folder: str) -> ImportedPoint:
    """The point with what the logs under `folder` say; as it is where there are none."""
    names = [name for name in bundle.files if name.startswith(f"{folder}/") and name.endswith(_SUFFIXES)]
    if not names or not folder:
        return item
    found: dict[str, Any] = {}
    pools: dict[tuple[str, str], int] = {}
    for name in sorted(names):
        for line in _lines(bundle.files[name]):
            if version := _VERSION.search(line):
                found.setdefault("engine_version", version[1].rstrip("."))
            if memory := _MEMORY.search(line):
                found.setdefault("kv_memory_gib", float(memory[1]))
            if pool := _POOL.search(line):
                core = _CORE.search(line)
                # Each core says it once; a later start of the same core replaces the earlier one.
                pools[name, core[0] if core else ""] = int((pool[1] or pool[2]).replace(",", ""))
    if pools:
        found["kv_cache_tokens"] = sum(pools.values())
    facts = dict(item.point.facts)
    if pools and "kv_cache_pool_tokens" not in facts:
        facts["kv_cache_pool_tokens"] = found["kv_cache_tokens"]
    return replace(
        item,
        point=replace(item.point, facts=facts),
        found={**item.found, **found},
        documents={**item.documents, "server_logs": {"files": sorted(names), "said": found}},
    )


_SUFFIXES = tuple(pattern.rpartition("*")[2] for pattern in PATTERNS)


def _lines(path: Path) -> Iterator[str]:
    """The first lines of a log, plain or packed; bytes that are no text are replaced."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for _, line in zip(range(_LINES), file, strict=False):
            yield line.decode("utf-8", "replace")
