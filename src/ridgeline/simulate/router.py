"""Which data-parallel rank takes a request."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from ridgeline.simulate.scheduler import Scheduler


class Router:
    """Policies: `session` (the same key always meets the same rank; without a key the least loaded one),
    `round-robin`, `least-loaded` (vLLM's own: four points per waiting and one per running request)."""

    def __init__(self, policy: str, ranks: Sequence[Scheduler]) -> None:
        self._policy = policy
        self._ranks = ranks
        self._next = 0

    def pick(self, key: str | None) -> int:
        """The rank for a request with an affinity key (session or correlation id)."""
        count = len(self._ranks)
        if count == 1:
            return 0
        if self._policy == "round-robin":
            self._next += 1
            return (self._next - 1) % count
        if self._policy == "session" and key is not None:
            return zlib.crc32(key.encode()) % count
        return min(range(count), key=lambda rank: (self._ranks[rank].load, rank))
