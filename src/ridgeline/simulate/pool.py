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

Where a model has windows or recurrent states, a match ends at a *mark*: a depth behind which they were kept. With
`room` each kept state is that many blocks of this pool, one for every group of states, which stand in the same queue
(vLLM's hybrid allocator); with `slots` states have a pool of their own, least recently used (SGLang's).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

_EMPTY = array("q")


class Match(NamedTuple):
    """Leading blocks that are cached and can be resumed, how many of them stand in the free queue, and how many are
    cached."""

    blocks: int
    free: int
    reach: int = 0


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
        self.before: Run | Kept | None = None  # neighbours in the free queue
        self.after: Run | Kept | None = None


class Kept:
    """A state behind some blocks, in one of the queues: found whole or not at all."""

    __slots__ = ("after", "before", "key", "size")

    def __init__(self, key: int | None, size: int) -> None:
        self.key = key  # hash of the last of those blocks; None: not computed to there yet
        self.size = size
        self.before: Run | Kept | None = None
        self.after: Run | Kept | None = None


class Held:
    """The blocks of one request: `named` leading ones can be found by others, `size` in all, `extra` for windows.
    `marks`: depths at which it left states; `coming`: those whose blocks are not full yet."""

    __slots__ = ("coming", "extra", "hashes", "marks", "named", "parts", "size")

    def __init__(self, hashes: Sequence[int]) -> None:
        self.hashes = hashes
        self.marks: list[int] = []
        self.coming: list[tuple[int, Kept]] = []
        self.parts: list[tuple[Run, int]] = []  # (deepest run, depth where the part begins), in order of depth
        self.named = 0
        self.size = 0
        self.extra = 0


class BlockPool:
    """`total` blocks. `marked`: a match ends at a mark or, with a `grid`, at a multiple of so many blocks. `room`: how
    many blocks of this pool a kept state takes. `slots`: states of a pool of their own, of which every request that
    holds blocks has `own`. `merges`: who computed what others have gives its blocks back for theirs (SGLang)."""

    __slots__ = (
        "_end", "_kept", "_marked", "_merges", "_owned", "_queued", "_root", "_spares", "_states", "_unused",
        "evictions", "grid", "own", "room", "slots", "total",
    )  # fmt: skip

    def __init__(
        self,
        total: int,
        *,
        marked: bool = False,
        grid: int = 0,
        room: int = 0,
        slots: int = 0,
        own: int = 0,
        merges: bool = False,
    ) -> None:
        self.total = total
        self.evictions = 0
        self.grid = grid
        self.room = room
        self.slots = slots
        self.own = own
        self._merges = merges
        self._marked = marked or room > 0 or slots > 0
        self._kept: dict[int, list[Kept]] = {}  # states of this pool, by key; those of one key as they were kept
        self._states: OrderedDict[int, None] = OrderedDict()  # keys of states with slots, the one used last at the end
        self._owned = 0  # slots of running requests
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
        path, depth = self._walk(hashes, limit)
        if self.room or self.slots:  # states know nothing of drafts: what is given up comes first
            reach = max(0, depth - drop)
            return Match(blocks := self._stated(path, reach), _free(path, blocks), reach)
        blocks = max(0, (self._resumable(path, depth) if self._marked else depth) - drop)
        return Match(blocks, _free(path, blocks), blocks)

    def history(self, hashes: Sequence[int], limit: int) -> Match:
        """The same, whether it can be resumed or not."""
        path, depth = self._walk(hashes, limit)
        return Match(depth, _free(path, depth), depth)

    def _walk(self, hashes: Sequence[int], limit: int) -> tuple[list[Run], int]:
        """The runs that agree with a chain, and to which depth."""
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
                return path, depth + _same(run, hashes, min(run.size, limit - depth))
            depth, children = end, run.children
        return path, depth

    def _resumable(self, path: Sequence[Run], depth: int) -> int:
        """The deepest mark or grid line within the `depth` blocks that were found."""
        marks = (mark for run in path for mark in run.marks or () if mark <= depth)
        return max(marks, default=0) if not self.grid else max(depth // self.grid * self.grid, *marks, 0)

    def _stated(self, path: Sequence[Run], depth: int) -> int:
        """The deepest mark within `depth` blocks whose state is still there."""
        states = self._kept if self.room else self._states
        for run in reversed(path):
            if run.marks and run.start < depth:
                there = [mark for mark in run.marks if run.keys[mark - run.start - 1] in states]
                run.marks = there or None
                if found := [mark for mark in there if mark <= depth]:
                    return max(found)
        return 0

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
            if self.room or self.slots:
                self._use(hashes[count - 1])
        held.named = held.size = count
        self._owned += self.own
        if self.slots:
            self._make_room()
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
        own = held.parts[-1][0] if held.parts else self._root
        node, inside = (own, None) if own.parent or own is self._root else self._place(hashes, depth)
        while depth < upto:
            there = inside or node.children.get(hashes[depth])
            if there is not None:
                same = _same(there, hashes, min(there.size, upto - there.start))
                node, inside = self._meet(held, there, depth - there.start, same), None
                depth = max(depth, there.start + same) if node is there else node.start + node.size
                if depth < min(upto, node.start + node.size):
                    node = self._split(node, depth - node.start)
                continue
            if node is own and node.refs == 1 and node.parent and not node.children:
                node.keys.extend(hashes[depth:upto])
                node.size += upto - depth
            else:
                fresh = Run(depth, array("q", hashes[depth:upto]), upto - depth, node, 1)
                node.children[hashes[depth]] = fresh
                held.parts.append((fresh, depth))
            depth = upto
        first, held.named = held.named, max(held.named, upto)
        if states := self._kept or self._states:  # some may have outlived the blocks before them
            for depth in range(first, held.named):
                if hashes[depth] in states:
                    self._note(held, depth + 1)
        if held.coming:
            self._arrive(held)

    def _place(self, hashes: Sequence[int], depth: int) -> tuple[Run, Run | None]:
        """The run that ends at `depth`; or the one that goes on there, and the one before it."""
        node, at = self._root, 0
        while at < depth:
            after = node.children[hashes[at]]
            at += after.size
            if at > depth:
                return node, after
            node = after
        return node, None

    def _meet(self, held: Held, run: Run, past: int, upto: int) -> Run:
        """Blocks of a request have the content of a run from its `past`-th to its `upto`-th; that run now."""
        first, last = run.start + past, run.start + upto
        if self._merges and past < upto:
            if past:
                self._split(run, past)
            if last < run.start + run.size:
                run = self._split(run, last - run.start)
            if run.refs == 0:
                self._dequeue(run)
            run.refs += 1
            self._unused += last - first
            held.parts.append((run, first))
            return run
        for depth in range(first, last):
            spare = Run(depth, array("q", (held.hashes[depth],)), 1, None, 1)
            self._spares.setdefault(held.hashes[depth], []).append(spare)
            held.parts.append((spare, depth))
        return run

    def mark(self, held: Held, depth: int) -> None:
        """Windows and states as they are behind `depth` blocks are kept: a match may end there. Where they take room,
        it is the oldest's, and the request goes on in it."""
        if not self._marked or not 0 < depth <= held.named:
            return
        key = held.hashes[depth - 1]
        if self.slots:
            self._states[key] = None
            self._states.move_to_end(key)
            self._make_room()
        elif self.room and not self._keep(key):
            return
        held.marks.append(depth)
        self._note(held, depth)

    def cross(self, held: Held) -> None:
        """A request that decodes has begun its last block: the state before it is kept, and can be found once the
        blocks to there are full."""
        if state := self._keep(None):
            held.coming.append((held.size - 1, state))
            self._arrive(held)

    def _arrive(self, held: Held) -> None:
        """States whose blocks are full can be found from now on, if they are still there."""
        while held.coming and held.coming[0][0] <= held.named:
            depth, state = held.coming.pop(0)
            held.marks.append(depth)
            if state.size == self.room:
                state.key = held.hashes[depth - 1]
                self._kept.setdefault(state.key, []).append(state)
                self._note(held, depth)

    def _keep(self, key: int | None) -> Kept | None:
        """Queue a state as the one used last; None when there is no room for the request to go on in."""
        if self.free < self.room:
            return None
        self._take(self.room)
        state = Kept(key, self.room)
        self._enqueue(state)
        if key is not None:
            self._kept.setdefault(key, []).append(state)
        return state

    def _use(self, key: int) -> None:
        """A state was resumed from: it is the one used last."""
        if key in self._states:
            self._states.move_to_end(key)
        elif key in self._kept:
            state = self._kept[key][0]
            self._dequeue(state)
            self._enqueue(state)

    def _make_room(self) -> None:
        """States give way to those of running requests."""
        while self._states and len(self._states) + self._owned > self.slots:
            self._states.popitem(last=False)

    def _forget(self, state: Kept) -> None:
        """A state has lost a block."""
        if state.key is not None:
            others = self._kept[state.key]
            others.remove(state)
            if not others:
                del self._kept[state.key]
            state.key = None

    def _note(self, held: Held, depth: int) -> None:
        """Write a mark into the run through `depth`."""
        node = next((run for run, start in reversed(held.parts) if start < depth), None)
        while node is not None and node.start >= depth:
            node = node.parent
        if node is not None and node.parent is None and node is not self._root:  # a spare: who it stands in for
            node = self._root
            while node.start + node.size < depth:
                node = node.children[held.hashes[node.start + node.size]]
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
        held.marks, held.coming = [], []
        self._owned -= self.own

    def forget_all(self) -> None:
        """Drop every cached content; blocks stay where they are."""
        self._root = Run(0, _EMPTY, 0, None, 1)
        self._spares = {}
        for states in [*self._kept.values()]:
            for state in [*states]:
                self._forget(state)
        self._states.clear()

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

    def _enqueue(self, run: Run | Kept) -> None:
        last = self._end.before
        assert last is not None
        run.before, run.after = last, self._end
        last.after = self._end.before = run
        self._queued += run.size

    def _dequeue(self, run: Run | Kept) -> None:
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
            if isinstance(run, Kept):
                taken = min(count, run.size)
                self._forget(run)
                run.size -= taken
                self._queued -= taken
                if not run.size:
                    self._dequeue(run)
            elif run.size <= count and not run.children and not self._spares:
                taken = run.size  # all of it, and nobody steps in
                if run.marks:
                    self._strip(run, run.start)
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
        if run.marks:
            self._strip(run, end)
        del run.keys[run.size :]
        if not run.size and run.parent is not None and run.parent.children.get(first) is run:
            del run.parent.children[first]
        if not run.size:
            self._dequeue(run)
        return taken

    def _strip(self, run: Run, end: int) -> None:
        """A run's blocks behind `end` are lost: so are their marks, and states of a pool of their own with them."""
        for mark in run.marks or ():
            if mark > end:
                self._states.pop(run.keys[mark - run.start - 1], None)
        run.marks = [mark for mark in run.marks or () if mark <= end] or None

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
        heir.marks = [heir.start + 1] if heir.start + 1 in (run.marks or ()) else None
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
            assert run is not None and run.size > 0 and (isinstance(run, Kept) or run.refs == 0)
            assert isinstance(run, Run) or run.key is None or run in self._kept[run.key]
            queued += run.size
            run = run.after
        assert queued == self._queued
        assert all(states and all(s.size == self.room for s in states) for states in self._kept.values())
        stack = [self._root]
        while stack:
            node = stack.pop()
            for key, child in node.children.items():
                assert child.parent is node and child.keys and child.keys[0] == key
                assert len(child.keys) == child.size and child.start == node.start + node.size
                assert (child.refs == 0) == (child.after is not None)
                stack.append(child)


def _free(path: Sequence[Run], depth: int) -> int:
    """How many of the first `depth` blocks stand in the free queue."""
    return sum(min(run.size, depth - run.start) for run in path if run.refs == 0 and run.start < depth)


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
