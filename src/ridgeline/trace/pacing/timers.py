"""Pending sends, grouped by session tree: adding and taking cost O(log n), moving all of them by one amount O(1).

A timer's due time is never stored. Each tree keeps its timers on a clock of its own, which runs ahead of the replay's
clock by everything that was ever cut out of the tree (`shift`) or out of the whole replay (`_shift`). Cutting time out
is adding to one number, and keeps order and spacing by construction.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


class Due(NamedTuple, Generic[Item]):
    """A timer that is due: when it was meant to fire, and what it carries."""

    at_ns: int
    item: Item


class _Group(Generic[Item]):
    __slots__ = ("heads", "heap", "shift")

    def __init__(self) -> None:
        self.heads: dict[int, int] = {}  # serial -> key, of its timers that stand among the heads of all groups
        self.heap: list[tuple[int, int, Item]] = []  # (due + every shift at the time of adding, serial, item)
        self.shift = 0


class Timers(Generic[Item]):
    """Timers of many groups. Equal due times fire in the order of adding."""

    def __init__(self) -> None:
        self._groups: dict[int, _Group[Item]] = {}
        self._heads: list[tuple[int, int, int]] = []  # (due + whole shift, serial, group) of every group's earliest
        self._shift = 0
        self._serial = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, group: int, at_ns: int, item: Item) -> None:
        """Make `item` due at `at_ns`."""
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = _Group()
        self._serial += 1
        self._count += 1
        entry = (at_ns + self._shift + found.shift, self._serial, item)
        heappush(found.heap, entry)
        if found.heap[0] is entry:
            self._expose(group, found)

    def earliest(self) -> int | None:
        """When the first timer of all is due; None when there is none."""
        return self._heads[0][0] - self._shift if self._clean() else None

    def earliest_of(self, group: int) -> int | None:
        """When the first timer of `group` is due; None when it has none."""
        found = self._groups.get(group)
        return found.heap[0][0] - found.shift - self._shift if found is not None else None

    def take(self, now_ns: int) -> Due[Item] | None:
        """Take the earliest timer that is due at `now_ns`, or None."""
        if not self._clean():
            return None
        due, serial, group = self._heads[0]
        if due - self._shift > now_ns:
            return None
        heappop(self._heads)
        found = self._groups[group]
        del found.heads[serial]
        _, _, item = heappop(found.heap)
        self._count -= 1
        if found.heap:
            self._expose(group, found)
        else:
            del self._groups[group]
        return Due(due - self._shift, item)

    def shift_all(self, by_ns: int) -> None:
        """Make every timer due `by_ns` earlier."""
        self._shift += by_ns

    def shift_group(self, group: int, by_ns: int) -> None:
        """Make every timer of `group` due `by_ns` earlier."""
        found = self._groups.get(group)
        if found is not None:
            found.shift += by_ns
            self._expose(group, found)

    def clear(self) -> None:
        """Forget every timer."""
        self._groups.clear()
        self._heads.clear()
        self._count = 0

    def _expose(self, group: int, found: _Group[Item]) -> None:
        """Let the group's earliest timer stand among the heads, once: a far timer that is overtaken again and again
        must not fill the heap with copies of itself."""
        key, serial, _ = found.heap[0]
        key -= found.shift
        if found.heads.get(serial) != key:
            found.heads[serial] = key
            heappush(self._heads, (key, serial, group))

    def _clean(self) -> bool:
        """Drop heads that were overtaken by an earlier timer or a shift of their group; tell whether any is left."""
        while self._heads:
            key, serial, group = self._heads[0]
            found = self._groups.get(group)
            if found is not None and found.heap[0][1] == serial and found.heap[0][0] - found.shift == key:
                return True
            heappop(self._heads)
            if found is not None and found.heads.get(serial) == key:
                del found.heads[serial]
        return False
