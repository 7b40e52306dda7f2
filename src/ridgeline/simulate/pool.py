"""The block pool of one rank: who holds how many blocks, what can be found again, and vLLM's order of eviction.

Content is a chain of hashes, one per block, each covering all before it; the pool keeps it as a tree of runs. A run is
a stretch of blocks that are held by the same requests or stand in the free queue together, so every operation costs by
runs (a handful), not by blocks (thousands).

Free blocks stand in a queue; allocation takes from its front and forgets what was there. Blocks without content come
first: those never used, and those that a request gives back before they were full. Its other blocks join the back tail
first, so that the ends of prompts are lost before their beginnings. What is asked for again leaves the queue. Hence
whoever finds a block finds all before it: some copy of a beginning always outlives its continuations, which is what
lets a tree stand for a table of hashes.

A block whose content somebody else has already made findable is a *spare*: it takes over when the other is evicted.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

_EMPTY = array("q")


class Match(NamedTuple):
    """Leading blocks found in the cache, and how many of them stand in the free queue."""

    blocks: int
    free: int


class Run:
    """Blocks `start` to `start + size` of a chain."""

    __slots__ = ("after", "before", "children", "keys", "marks", "parent", "refs", "size", "start")

    def __init__(self, start: int, keys: array[int], size: int, parent: Run | None, refs: int) -> None:
        self.start = start
        self.keys = keys
        self.size = size
        self.parent = parent  # None: not in the tree (a spare, the root)
        self.children: dict[int, Run] = {}
        self.refs = refs
        self.marks: list[int] | None = None  # depths inside (start, start + size] where windows can be resumed
        self.before: Run | None = None  # neighbours in the free queue
        self.after: Run | None = None


class Held:
    """The blocks of one request: `named` leading ones can be found by others, `size` in all, `extra` for windows."""

    __slots__ = ("extra", "hashes", "named", "parts", "size")

    def __init__(self, hashes: Sequence[int]) -> None:
        self.hashes = hashes
        self.parts: list[tuple[Run, int]] = []  # (deepest run, depth where the part begins), in order of depth
        self.named = 0
        self.size = 0
        self.extra = 0


class BlockPool:
    """`total` blocks. `grid`: windows can be resumed only every so many blocks and at marks (0: everywhere)."""

    __slots__ = ("_end", "_marked", "_queued", "_root", "_spares", "_unused", "evictions", "grid", "total")

    def __init__(self, total: int, *, marked: bool = False, grid: int = 0) -> None:
        self.total = total
        self.evictions = 0
        self.grid = grid
        self._marked = marked
        self._unused = total  # blocks without content: the front of the queue
        self._queued = 0
        self._root = Run(0, _EMPTY, 0, None, 1)
        self._spares: dict[int, list[Run]] = {}
        self._end = Run(0, _EMPTY, 0, None, 0)  # the queue is a ring through this
        self._end.before = self._end.after = self._end

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return self._unused + self._queued

    @property
    def used(self) -> int:
        return self.total - self._unused - self._queued

    def match(self, hashes: Sequence[int], limit: int, drop: int = 0) -> Match:
        """The longest run of leading hashes (at most `limit`) that is cached and can be resumed, less `drop` blocks for
        engines that give them up (which needs no window)."""
        limit = min(limit, len(hashes))
        path: list[Run] = []
        children, depth = self._root.children, 0
        while depth < limit:
            run = children.get(hashes[depth])
            if run is None:
                break
            path.append(run)
            end = depth + run.size
            if end > limit or run.keys[-1] != hashes[end - 1]:
                depth += _same(run, hashes, min(run.size, limit - depth))
                break
            depth, children = end, run.children
        blocks = self._resumable(path, depth) if self._marked else depth
        blocks = max(0, blocks - drop)
        free = 0
        for run in path:
            if run.refs == 0 and run.start < blocks:
                free += min(run.size, blocks - run.start)
        return Match(blocks, free)

    def _resumable(self, path: Sequence[Run], depth: int) -> int:
        """The deepest mark or grid line within the `depth` blocks that were found."""
        marks = (mark for run in path for mark in run.marks or () if mark <= depth)
        return max(marks, default=0) if not self.grid else max(depth // self.grid * self.grid, *marks, 0)

    def hold(self, hashes: Sequence[int], count: int) -> Held:
        """Hold `count` leading blocks that `match` has just found."""
        held = Held(hashes)
        node, depth = self._root, 0
        while depth < count:
            node = node.children[hashes[depth]]
            if node.size > count - depth:
                node = self._split(node, count - depth)
            if node.refs == 0:
                self._dequeue(node)
            node.refs += 1
            depth += node.size
        if count:
            held.parts.append((node, 0))
        held.named = held.size = count
        return held

    def allocate(self, held: Held, count: int) -> None:
        """Add `count` blocks; what they held is forgotten. Raises IndexError when there are not enough."""
        self._take(count)
        held.size += count

    def allocate_extra(self, held: Held, count: int) -> None:
        """The same for blocks outside the chain (windows, states)."""
        self._take(count)
        held.extra += count

    def name(self, held: Held, upto: int) -> None:
        """The first `upto` blocks are full: from now on they can be found."""
        hashes, depth = held.hashes, held.named
        upto = min(upto, len(hashes))
        while depth < upto:
            own = held.parts[-1][0] if held.parts else self._root
            node = own if own.parent or own is self._root else self._node_at(hashes, depth)
            if hashes[depth] in node.children:
                spare = Run(depth, array("q", (hashes[depth],)), 1, None, 1)
                self._spares.setdefault(hashes[depth], []).append(spare)
                held.parts.append((spare, depth))
                depth += 1
                continue
            if node is own and node.refs == 1 and node.parent and not node.children:
                node.keys.extend(hashes[depth:upto])
                node.size += upto - depth
            else:
                fresh = Run(depth, array("q", hashes[depth:upto]), upto - depth, node, 1)
                node.children[hashes[depth]] = fresh
                held.parts.append((fresh, depth))
            depth = upto
        held.named = max(held.named, upto)

    def mark(self, held: Held, depth: int) -> None:
        """Windows and states as they are behind `depth` blocks are kept: a match may end there."""
        if not self._marked or not 0 < depth <= held.named:
            return
        node = next((run for run, start in reversed(held.parts) if start < depth), None)
        while node is not None and node.start >= depth:
            node = node.parent
        if node is not None and depth <= node.start + node.size and depth not in (node.marks or ()):
            node.marks = [*(node.marks or ()), depth]

    def release(self, held: Held) -> None:
        """Give a request's blocks back, the last one first."""
        self._unused += held.size - held.named + held.extra
        for run, start in reversed(held.parts):
            node = run
            while True:
                node.refs -= 1
                if node.refs == 0:
                    self._enqueue(node)
                if node.start <= start:
                    break
                assert node.parent is not None
                node = node.parent
        held.parts, held.size, held.named, held.extra = [], 0, 0, 0

    def forget_all(self) -> None:
        """Drop every cached content; blocks stay where they are."""
        self._root = Run(0, _EMPTY, 0, None, 1)
        self._spares = {}

    def _node_at(self, hashes: Sequence[int], depth: int) -> Run:
        """The run that ends at `depth`, split off where a longer one goes through."""
        node, at = self._root, 0
        while at < depth:
            node = node.children[hashes[at]]
            if node.size > depth - at:
                node = self._split(node, depth - at)
            at += node.size
        return node

    def _split(self, node: Run, size: int) -> Run:
        """Cut a run; the front part is new and returned, the rear keeps its identity (requests may point to it)."""
        assert node.parent is not None
        front = Run(node.start, node.keys[:size], size, node.parent, node.refs)
        node.parent.children[node.keys[0]] = front
        node.keys = node.keys[size:]
        node.start += size
        node.size -= size
        node.parent = front
        front.children[node.keys[0]] = node
        if node.marks:
            front.marks = [mark for mark in node.marks if mark <= node.start]
            node.marks = [mark for mark in node.marks if mark > node.start]
        if node.after is not None:  # it waits in the queue: its front right behind it
            front.before, front.after = node, node.after
            node.after.before = front
            node.after = front
        return front

    def _enqueue(self, run: Run) -> None:
        last = self._end.before
        assert last is not None
        run.before, run.after = last, self._end
        last.after = self._end.before = run
        self._queued += run.size

    def _dequeue(self, run: Run) -> None:
        assert run.before is not None and run.after is not None
        run.before.after, run.after.before = run.after, run.before
        run.before = run.after = None
        self._queued -= run.size

    def _take(self, count: int) -> None:
        if count > self.free:
            raise IndexError(f"{count} blocks wanted, {self.free} free")
        fresh = min(count, self._unused)
        self._unused -= fresh
        count -= fresh
        while count:
            run = self._end.after
            assert run is not None
            if run.size <= count and not run.children and not self._spares:
                taken = run.size  # all of it, and nobody steps in
                self._dequeue(run)
                self._unlink(run)
            else:
                taken = self._shorten(run, count)
            self.evictions += taken
            count -= taken

    def _shorten(self, run: Run, most: int) -> int:
        """Take up to `most` blocks from the end of a queued run; how many were taken."""
        if run.parent is None and run.keys:  # a spare, or what is left of a forgotten tree
            taken = 1
            spares = self._spares.get(run.keys[-1], [])
            if run in spares:
                spares.remove(run)
                if not spares:
                    del self._spares[run.keys[-1]]
        elif run.children or self._spares:
            taken = 1
            self._hand_over(run)
        else:
            taken = min(most, run.size)
        run.size -= taken
        self._queued -= taken
        end = run.start + run.size
        first = run.keys[0]
        del run.keys[run.size :]
        if run.marks:
            run.marks = [mark for mark in run.marks if mark <= end]
        if not run.size and run.parent is not None and run.parent.children.get(first) is run:
            del run.parent.children[first]
        if not run.size:
            self._dequeue(run)
        return taken

    def _unlink(self, run: Run) -> None:
        if run.parent is not None and run.keys:
            del run.parent.children[run.keys[0]]

    def _hand_over(self, run: Run) -> None:
        """The last block of a run is about to go: a spare with its content takes its place in the tree."""
        assert run.parent is not None
        key = run.keys[-1]
        spares = self._spares.get(key)
        if not spares:
            assert not run.children or not self._spares, "a beginning was lost before its continuation"
            return
        heir = spares.pop(0)
        if not spares:
            del self._spares[key]
        heir.children = run.children
        for child in heir.children.values():
            child.parent = heir
        if run.size > 1:
            heir.parent, run.children = run, {key: heir}
        else:
            heir.parent, run.children = run.parent, {}
            run.parent.children[key] = heir

    def check(self) -> None:
        """Raise AssertionError when the books do not balance: for tests."""
        queued, run = 0, self._end.after
        while run is not self._end:
            assert run is not None and run.refs == 0 and run.size > 0
            queued += run.size
            run = run.after
        assert queued == self._queued
        stack = [self._root]
        while stack:
            node = stack.pop()
            for key, child in node.children.items():
                assert child.parent is node and child.keys and child.keys[0] == key
                assert len(child.keys) == child.size and child.start == node.start + node.size
                assert (child.refs == 0) == (child.after is not None)
                stack.append(child)


def _same(run: Run, hashes: Sequence[int], most: int) -> int:
    """Blocks of a run that agree with a chain, at most `most`; the first is known to. Equal hashes mean equal chains up
    to there, so the last agreement is found by bisection."""
    keys, start = run.keys, run.start
    if keys[most - 1] == hashes[start + most - 1]:
        return most
    low, high = 1, most - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if keys[middle - 1] == hashes[start + middle - 1] else (low, middle - 1)
    return low
