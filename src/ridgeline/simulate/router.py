"""Which data-parallel rank, or which engine of a pool, takes a request.

`session`: consistent hashing of the session's name. Every target has many points on a ring and a name belongs to the
    next point behind its own hash, so that one target more or less moves the share of sessions that it gets or had, no
    others. Without a name: the least loaded.
`round-robin`: one after the other.
`least-loaded`: vLLM's own balancer: four points per waiting and one per running request.
`cache-aware`: the rule of SGLang's and vLLM's routers. Far out of balance, the least loaded; else the target that was
    sent the longest beginning of this prompt, if that is a good part of it; else the one that was sent least. The
    router knows what it sent, not what a cache has lost since.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Protocol

_POINTS = 160  # on the ring for each target
# Defaults of both routers: balance counts when the loads differ by this much and by this factor; a share of the prompt
# above which a beginning is followed.
_APART, _FACTOR, _SHARE = 64, 1.5, 0.3
_REMEMBERED = 1 << 20  # blocks of prompts that are remembered for each target


class Target(Protocol):
    """Something that takes requests and can say how busy it is."""

    @property
    def load(self) -> int: ...

    @property
    def unfinished(self) -> int: ...


class Router:
    """Spreads requests over `targets` by a policy (`EngineOptions.router`). Routers behind one another need different
    names, else sessions that meet in the first are all sent to one target by the second."""

    def __init__(self, policy: str, targets: Sequence[Target], name: str = "") -> None:
        self._policy = policy
        self._name = name
        self._targets = targets
        self._next = 0
        points = sorted((_place(f"{rank}#{point}"), rank) for rank in range(len(targets)) for point in range(_POINTS))
        self._ring = [place for place, _ in points]
        self._owners = [rank for _, rank in points]
        self._sent: list[dict[int, None]] = [{} for _ in targets]  # blocks, those sent last at the end

    def pick(self, key: str | None, blocks: Sequence[int] = ()) -> int:
        """The target for a request of a session `key` whose prompt is these `blocks` (chained hashes)."""
        count = len(self._targets)
        if count == 1:
            return 0
        if self._policy == "round-robin":
            self._next += 1
            return (self._next - 1) % count
        if self._policy == "session" and key is not None:
            return self._owners[bisect_right(self._ring, _place(self._name + key)) % len(self._owners)]
        if self._policy == "cache-aware":
            chosen = self._follow(blocks)
            self._remember(chosen, blocks)
            return chosen
        return min(range(count), key=lambda rank: (self._targets[rank].load, rank))

    def _follow(self, blocks: Sequence[int]) -> int:
        loads = [target.unfinished for target in self._targets]
        if max(loads) - min(loads) > _APART and max(loads) > min(loads) * _FACTOR:
            return loads.index(min(loads))
        # A block's hash covers all before it: where one was sent, all before it were.
        found = [bisect_left(blocks, 1, key=lambda block: block not in sent) for sent in self._sent]
        if max(found) > _SHARE * len(blocks):
            return found.index(max(found))
        return min(range(len(loads)), key=lambda rank: (len(self._sent[rank]), loads[rank], rank))

    def _remember(self, rank: int, blocks: Sequence[int]) -> None:
        sent = self._sent[rank]
        for block in reversed(blocks):  # the beginning is forgotten last
            sent.pop(block, None)
            sent[block] = None
        while len(sent) > _REMEMBERED:
            del sent[next(iter(sent))]


def _place(name: str) -> int:
    """A place on the ring, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
