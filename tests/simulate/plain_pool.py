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
        self.marks: list[int] = []
        self.coming: list[tuple[int, PlainState]] = []

    @property
    def size(self) -> int:
        return len(self.blocks)

    @property
    def extra(self) -> int:
        return len(self.others)


class PlainState:
    """A kept state: what is before it (None: not full yet) and its blocks, none of them lost."""

    def __init__(self, behind: int | None, blocks: list[int]) -> None:
        self.behind, self.blocks, self.whole = behind, blocks, True


class PlainPool:
    """Free queue as a list, contents as a list, no cleverness."""

    def __init__(self, total: int, *, room: int = 0, slots: int = 0, own: int = 0, merges: bool = False) -> None:
        self.merges = merges
        self.total, self.room, self.slots, self.own = total, room, slots, own
        self.queue = list(range(total))
        self.refs = [0] * total
        self.content: list[int | PlainState | None] = [None] * total
        self.named: dict[int, list[int]] = {}  # content -> blocks that hold it, in the order they were named
        self.states: list[PlainState] = []  # that can be found, in the order they were kept or used
        self.owned = 0
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
        reach = len(found)
        if self.room or self.slots:
            there = [state.behind for state in self.states]
            while found and hashes[len(found) - 1] not in there:
                found.pop()
        return Match(len(found), sum(self.refs[block] == 0 for block in found), reach)

    def hold(self, hashes: Sequence[int], count: int) -> PlainHeld:
        held = PlainHeld(hashes)
        for content in hashes[:count]:
            block = self.named[content][0]
            if not self.refs[block]:
                self.queue.remove(block)
            self.refs[block] += 1
            held.blocks.append(block)
        held.named = count
        used = [state for state in self.states if count and state.behind == hashes[count - 1]][:1]
        for state in used:
            self.queue = [block for block in self.queue if block not in state.blocks] + state.blocks
            if self.slots:
                self.states.remove(state)
                self.states.append(state)
        self.owned += self.own
        self._fit()
        return held

    def _fit(self) -> None:
        while self.slots and self.states and len(self.states) + self.owned > self.slots:
            self.states.pop(0)

    def _take(self, count: int) -> list[int]:
        if count > len(self.queue):
            raise IndexError
        taken, self.queue = self.queue[:count], self.queue[count:]
        for block in taken:
            self.refs[block] = 1
            content, self.content[block] = self.content[block], None
            self.evictions += content is not None
            if isinstance(content, PlainState):
                content.whole = False
                self.states = [state for state in self.states if state is not content]
            elif content is not None:
                self.named[content].remove(block)
                if not self.named[content]:
                    del self.named[content]
                    if self.slots:
                        self.states = [state for state in self.states if state.behind != content]
        return taken

    def allocate(self, held: PlainHeld, count: int) -> None:
        held.blocks += self._take(count)

    def allocate_extra(self, held: PlainHeld, count: int) -> None:
        held.others += self._take(count)

    def name(self, held: PlainHeld, upto: int) -> None:
        for index in range(held.named, min(upto, len(held.hashes))):
            if self.merges and held.hashes[index] in self.named:
                self.refs[held.blocks[index]] = 0
                self.queue.insert(0, held.blocks[index])
                held.blocks[index] = there = self.named[held.hashes[index]][0]
                if not self.refs[there]:
                    self.queue.remove(there)
                self.refs[there] += 1
                held.named = index + 1
                continue
            self.content[held.blocks[index]] = held.hashes[index]
            self.named.setdefault(held.hashes[index], []).append(held.blocks[index])
            held.named = index + 1
        self._arrive(held)

    def _arrive(self, held: PlainHeld) -> None:
        for depth, state in [item for item in held.coming if item[0] <= held.named]:
            held.coming.remove((depth, state))
            held.marks.append(depth)
            if state.whole:
                state.behind = held.hashes[depth - 1]
                self.states.append(state)

    def _keep(self, behind: int | None) -> list[PlainState]:
        """Blocks at the end of the queue that hold a state; none when there is no room to go on."""
        if len(self.queue) < self.room:
            return []
        state = PlainState(behind, self._take(self.room))
        for block in state.blocks:
            self.refs[block], self.content[block] = 0, state
        self.queue += state.blocks
        return [state]

    def mark(self, held: PlainHeld, depth: int) -> None:
        if not 0 < depth <= held.named or not (self.room or self.slots):
            return
        behind = held.hashes[depth - 1]
        if self.slots:
            self.states = [state for state in self.states if state.behind != behind] + [PlainState(behind, [])]
            self._fit()
        else:
            kept = self._keep(behind)  # others may be lost by it
            self.states += kept
            if not kept:
                return
        held.marks.append(depth)

    def cross(self, held: PlainHeld) -> None:
        held.coming += [(held.size - 1, state) for state in self._keep(None)]
        self._arrive(held)

    def release(self, held: PlainHeld) -> None:
        for block in [*held.others[::-1], *held.blocks][::-1]:
            self.refs[block] -= 1
            if not self.refs[block]:
                self.queue.insert(0 if self.content[block] is None else len(self.queue), block)
        held.blocks, held.others, held.marks, held.coming, held.named = [], [], [], [], 0
        self.owned -= self.own

    def check(self) -> None:
        assert all(self.refs[block] == 0 for block in self.queue)
