"""Names that must differ between trees: the cache-bust marker and the correlation ids. Both are pure functions."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter

_NAMESPACE = uuid.UUID("5a2f6c1e-6f0b-5c38-9d0e-1b7a54c2f9e3")


def marker(benchmark_id: str, passes: int, lane: int, session_id: str) -> str:
    """`[rid:<12 hex>]` and a blank line: the first 12 hex digits of SHA-256("benchmark_id:pass:lane:session").

    It opens the first user message of every request of one tree, root and children alike, so that a tree cannot hit
    what an earlier pass over the same session left in the server's prefix cache.
    """
    base = session_id.split("::", 1)[0]
    return f"[rid:{hashlib.sha256(f'{benchmark_id}:{passes}:{lane}:{base}'.encode()).hexdigest()[:12]}]\n\n"


def correlation_id(benchmark_id: str, seed: int, tree: int, conversation: int) -> str:
    """The id of one stream instance. The peers draw it at random; here equal runs get equal ids, so that two of them
    can be compared request by request, and different benchmark ids still get different ones."""
    return str(uuid.uuid5(_NAMESPACE, f"{benchmark_id}:{seed}:{tree}:{conversation}"))


class Markers:
    """Markers of the trees of one run, counting how often each session was minted."""

    def __init__(self, benchmark_id: str) -> None:
        self._benchmark_id = benchmark_id
        self._passes: Counter[str] = Counter()

    def mint(self, lane: int, session_id: str) -> str:
        """The marker of a new tree ("" when markers are off)."""
        if not self._benchmark_id:
            return ""
        base = session_id.split("::", 1)[0]
        self._passes[base] += 1
        return marker(self._benchmark_id, self._passes[base] - 1, lane, base)
