"""The second tier of one rank, in host memory: what it holds, and what a look-up keeps from eviction for a while.

Every full block is copied there when a prompt or a request ends, with the states that were kept on the way; copying
holds nothing up. Least recently used goes first. A look-up takes a lease on what it found: until it lapses, nothing of
that is evicted; what is evicted between then and the end of the load has not come.
"""

from __future__ import annotations

from ridgeline.simulate.limits import Limits
from ridgeline.simulate.pool import BlockPool, Held
from ridgeline.simulate.request import Request


class HostTier:
    """Blocks and states in host memory. Raises nothing: what finds no room is not stored."""

    __slots__ = ("_block_size", "_leases", "pool")

    def __init__(self, limits: Limits) -> None:
        self.pool = BlockPool(limits.host_blocks, room=limits.host_room, slots=limits.host_slots)
        self._block_size = limits.block_size
        self._leases: dict[int, Held] = {}

    def lease(self, request: Request, blocks: int) -> None:
        """Keep what was found from eviction, until `lapse`."""
        self._leases[request.key] = self.pool.hold(request.hashes, blocks)
        request.leased = True

    def lapse(self, request: Request) -> None:
        """From now on it is used last, and may be evicted."""
        held = self._leases.pop(request.key, None)
        if held is not None:
            self.pool.release(held)

    def still(self, request: Request, blocks: int) -> int:
        """How many of the `blocks` that a look-up found can be resumed from now."""
        if request.key in self._leases or not request.leased:
            return blocks
        return min(blocks, self.pool.match(request.hashes, blocks).blocks)

    def store(self, request: Request, tokens: int) -> None:
        """A request's full blocks within its first `tokens` tokens are here with their states, and used last."""
        of, pool = request.held, self.pool
        if of is None or not of.named:
            return
        blocks = min(of.named, tokens // self._block_size)
        found = pool.history(request.hashes, blocks)
        if blocks - found.blocks + found.free > pool.free:
            return
        held = pool.hold(request.hashes, found.blocks)
        pool.allocate(held, blocks - found.blocks)
        pool.name(held, blocks)
        if pool.room or pool.slots:
            for depth in of.marks:
                pool.mark(held, depth)
            of.marks = [depth for depth in of.marks if depth > blocks]
        pool.release(held)
