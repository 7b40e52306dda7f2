"""Blocks that are on their way to a rank: from the host tier, or from an engine that computed the prompt before.

A request whose blocks are coming holds room for them and stands apart from those that wait; when they have come, it is
the next to be admitted. What the host has evicted since its lease lapsed has not come, and will be computed.
"""

from __future__ import annotations

from ridgeline.simulate.limits import Limits
from ridgeline.simulate.pool import BlockPool, Held
from ridgeline.simulate.request import Request
from ridgeline.simulate.tier import HostTier


class Incoming:
    """`loading`: whose blocks are coming. `loads`, `fetches`: what is to be started from the host and from another
    engine, with blocks that the link carries. `queries`, `hits`: prompt tokens looked for and brought."""

    __slots__ = ("_limits", "fetches", "hits", "host", "loading", "loads", "queries")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.host = HostTier(limits) if limits.host_blocks else None
        self.loading: list[Request] = []
        self.loads: list[tuple[Request, int]] = []
        self.fetches: list[tuple[Request, int]] = []
        self.queries = 0
        self.hits = 0

    def bring(self, request: Request, held: Held, pool: BlockPool) -> bool:
        """Start to bring what a request has elsewhere and not on the GPU, if there is room for it."""
        if request.remote and self._fetch(request, held, pool):
            return True
        return self.host is not None and self._load(self.host, request, held, pool)

    def arrived(self, request: Request, pool: BlockPool) -> None:
        """The blocks of a request have come and can be found."""
        self.loading.remove(request)
        held = request.held
        assert held is not None
        came = held.size
        if self.host is not None:
            came = max(held.named, self.host.still(request, came))
            lost = (held.size - came) * self._limits.block_size
            request.external -= lost
            self.hits -= lost
        self.lapse(request)
        pool.name(held, came)
        if self._limits.room or self._limits.slots:
            pool.mark(held, came)

    def lapse(self, request: Request) -> None:
        """A look-up's lease on host blocks ends."""
        if self.host is not None:
            self.host.lapse(request)

    def store(self, request: Request, tokens: int) -> None:
        """Copy full blocks within a request's first `tokens` tokens to the host."""
        if self.host is not None:
            self.host.store(request, tokens)

    def _load(self, host: HostTier, request: Request, held: Held, pool: BlockPool) -> bool:
        size = self._limits.block_size
        there = host.pool.match(request.hashes, (request.tokens - 1) // size).blocks
        if not request.preemptions:
            self.queries += request.tokens - held.size * size
        if not self._make_room(request, held, there, pool):
            return False
        self.loads.append((request, there - held.named + self._limits.state_weight))
        host.lease(request, there)
        return True

    def _fetch(self, request: Request, held: Held, pool: BlockPool) -> bool:
        """A request that has to start over later computes by itself: what was handed over is gone by then."""
        size = self._limits.block_size
        there = min(request.remote, request.tokens - 1) // size
        request.remote = 0
        before = held.size
        if not self._make_room(request, held, there, pool):
            return False
        self.queries += request.tokens - before * size
        self.fetches.append((request, there - before + self._limits.state_weight))
        return True

    def _make_room(self, request: Request, held: Held, there: int, pool: BlockPool) -> bool:
        more = there - held.size
        if more <= 0 or more > pool.free:
            return False
        pool.allocate(held, more)
        request.external = more * self._limits.block_size
        self.hits += request.external
        self.loading.append(request)
        return True
