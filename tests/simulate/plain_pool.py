"""The oracle of the block pool: a record per block, a list as queue, everything searched from end to end."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.simulate.pool import Match


class PlainHeld:
    def __init__(self, hashes: Sequence[int]) -> None:
        self.hashes = hashes
        self.blocks: list[int] = []
        self.others: list[int] = []
        self.named = 0
        self.parts: list[tuple[object, int]] = []

    @property
    def size(self) -> int:
        return len(self.blocks)

    @property
    def extra(self) -> int:
        return len(self.others)


class PlainPool:
    """Free queue as a list, contents as a list, no cleverness."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.queue = list(range(total))
        self.refs = [0] * total
        self.content: list[int | None] = [None] * total
        self.named: dict[int, list[int]] = {}  # content -> blocks that hold it, in the order they were named
        self.evictions = 0

    @property
    def free(self) -> int:
        return len(self.queue)

    @property
    def used(self) -> int:
        return self.total - len(self.queue)

    def match(self, hashes: Sequence[int], limit: int, drop: int = 0) -> Match:
        found: list[int] = []
        for content in hashes[:limit]:
            if content not in self.named:
                break
            found.append(self.named[content][0])
        found = found[: max(0, len(found) - drop)]
        return Match(len(found), sum(self.refs[block] == 0 for block in found))

    def hold(self, hashes: Sequence[int], count: int) -> PlainHeld:
        held = PlainHeld(hashes)
        for content in hashes[:count]:
            block = self.named[content][0]
            if not self.refs[block]:
                self.queue.remove(block)
            self.refs[block] += 1
            held.blocks.append(block)
        held.named = count
        return held

    def _take(self, count: int) -> list[int]:
        if count > len(self.queue):
            raise IndexError
        taken, self.queue = self.queue[:count], self.queue[count:]
        for block in taken:
            self.refs[block] = 1
            content, self.content[block] = self.content[block], None
            if content is not None:
                self.evictions += 1
                self.named[content].remove(block)
                if not self.named[content]:
                    del self.named[content]
        return taken

    def allocate(self, held: PlainHeld, count: int) -> None:
        held.blocks += self._take(count)

    def allocate_extra(self, held: PlainHeld, count: int) -> None:
        held.others += self._take(count)

    def name(self, held: PlainHeld, upto: int) -> None:
        for index in range(held.named, min(upto, len(held.hashes))):
            self.content[held.blocks[index]] = held.hashes[index]
            self.named.setdefault(held.hashes[index], []).append(held.blocks[index])
            held.named = index + 1

    def mark(self, held: PlainHeld, depth: int) -> None:
        """Every block can be resumed."""

    def release(self, held: PlainHeld) -> None:
        for block in [*held.others[::-1], *held.blocks][::-1]:
            self.refs[block] -= 1
            if not self.refs[block]:
                self.queue.insert(0 if self.content[block] is None else len(self.queue), block)
        held.blocks, held.others, held.named = [], [], 0

    def check(self) -> None:
        assert all(self.refs[block] == 0 for block in self.queue)
