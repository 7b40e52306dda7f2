"""The block pool of one rank: reference counts, hashes of full blocks, and vLLM's eviction order.

Free blocks stand in a queue; allocation takes from its front and forgets what the block held. Blocks never used come
first; a finished request's blocks join the back tail first, so that the ends of prompts are lost before their
beginnings. A free block whose hash is asked for again leaves the queue and keeps its content.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Match(NamedTuple):
    """Leading blocks found in the cache, and how many of them stand in the free queue."""

    blocks: list[int]
    free: int


class BlockPool:
    """`total` blocks. Nothing here knows tokens or requests."""

    __slots__ = ("_duplicates", "_free", "_fresh", "_hash", "_refs", "_table", "evictions", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.evictions = 0
        self._fresh = 0  # blocks below this number have been used; the rest are the front of the queue
        self._free: OrderedDict[int, None] = OrderedDict()
        self._refs: list[int] = []
        self._hash: list[int | None] = []
        self._table: dict[int, int] = {}  # hash -> the block that answers for it
        self._duplicates: dict[int, dict[int, None]] = {}  # hash -> further blocks with the same content

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return self.total - self._fresh + len(self._free)

    @property
    def used(self) -> int:
        return self._fresh - len(self._free)

    def match(self, hashes: Sequence[int], limit: int) -> Match:
        """The longest run of leading hashes (at most `limit`) that are all cached."""
        table, refs = self._table, self._refs
        found: list[int] = []
        free = 0
        for index in range(min(limit, len(hashes))):
            block = table.get(hashes[index])
            if block is None:
                break
            found.append(block)
            free += refs[block] == 0
        return Match(found, free)

    def take(self, blocks: Iterable[int]) -> None:
        """Hold cached blocks once more."""
        refs, queue = self._refs, self._free
        for block in blocks:
            if refs[block] == 0:
                del queue[block]
            refs[block] += 1

    def allocate(self, count: int) -> list[int]:
        """`count` blocks from the front of the queue; what they held is forgotten. Raises IndexError when there are
        not enough."""
        if count > self.free:
            raise IndexError(f"{count} blocks wanted, {self.free} free")
        fresh = min(count, self.total - self._fresh)
        taken = list(range(self._fresh, self._fresh + fresh))
        self._fresh += fresh
        self._refs += [1] * fresh
        self._hash += [None] * fresh
        for _ in range(count - fresh):
            block, _none = self._free.popitem(last=False)
            if self._hash[block] is not None:
                self._forget(block)
            self._refs[block] = 1
            taken.append(block)
        return taken

    def name(self, block: int, content: int) -> None:
        """A held block is full: from now on `content` can be found."""
        self._hash[block] = content
        if self._table.setdefault(content, block) != block:
            self._duplicates.setdefault(content, {})[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """Give a request's blocks back, the last one first."""
        refs, queue = self._refs, self._free
        for block in reversed(blocks):
            refs[block] -= 1
            if refs[block] == 0:
                queue[block] = None

    def forget_all(self) -> None:
        """Drop every cached content; blocks stay where they are."""
        self._table.clear()
        self._duplicates.clear()
        self._hash = [None] * len(self._hash)

    def _forget(self, block: int) -> None:
        content = self._hash[block]
        assert content is not None
        self._hash[block] = None
        self.evictions += 1
        others = self._duplicates.get(content)
        if self._table[content] != block:
            assert others is not None
            del others[block]
        elif others:
            heir = next(iter(others))
            self._table[content] = heir
            del others[heir]
        else:
            del self._table[content]
        if others is not None and not others:
            del self._duplicates[content]

    def check(self) -> None:
        """Raise AssertionError when the books do not balance: for tests."""
        held = [block for block in range(self._fresh) if self._refs[block] > 0]
        assert len(held) + len(self._free) == self._fresh <= self.total
        assert all(self._refs[block] == 0 for block in self._free)
        assert min(self._refs, default=0) >= 0
        named = {block: content for block, content in enumerate(self._hash) if content is not None}
        assert all(named[block] == content for content, block in self._table.items())
        spare = {block for others in self._duplicates.values() for block in others}
        assert named.keys() == set(self._table.values()) | spare
