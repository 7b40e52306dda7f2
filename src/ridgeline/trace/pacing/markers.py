"""Names that must differ between trees: the cache-bust marker and the correlation ids. Both are pure functions."""

from __future__ import annotations

import hashlib
from collections import Counter


def marker(benchmark_id: str, passes: int, lane: int, session_id: str) -> str:
    """`[rid:<12 hex>]` and a blank line: the first 12 hex digits of SHA-256("benchmark_id:pass:lane:session").

    It opens the first user message of every request of one tree, root and children alike, so that a tree cannot hit
    what an earlier pass over the same session left in the server's prefix cache.
    """
    base = session_id.split("::", 1)[0]
    return f"[rid:{hashlib.sha256(f'{benchmark_id}:{passes}:{lane}:{base}'.encode()).hexdigest()[:12]}]\n\n"


def run_prefix(benchmark_id: str, seed: int) -> str:
    """The part that all correlation ids of a run share: the first 80 bits of a version 8 UUID (RFC 9562)."""
    text = hashlib.sha256(f"{benchmark_id}:{seed}".encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-8{text[12:15]}-a{text[15:18]}"


def correlation_id(prefix: str, tree: int, conversation: int) -> str:
    """The id of one stream instance, shaped like a UUID: the run's prefix, the tree's serial, the conversation.

    The peers draw it at random; here equal runs get equal ids, so that two of them can be compared request by request,
    and different benchmark ids still get different ones. Formatting costs a tenth of hashing, once per request.
    """
    return f"{prefix}-{tree:08x}{conversation:04x}"


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
