"""The two idle caps: time in which nothing would happen is cut out of the schedule.

Both move timers by one uniform amount, so order and spacing survive: with lanes due in 60 s and 75 s and a cap of
10 s, they become 10 s and 25 s. Cutting every gap by itself would change how long the server's cache has to hold.
"""

from __future__ import annotations

from heapq import heappop, heappush

from ridgeline.trace.pacing.timers import Timers
from ridgeline.trace.pacing.tree import Stream, Tree


class SystemGuard:
    """With nothing in flight anywhere, the next send is at most `cap_ns` after the system went idle."""

    def __init__(self, cap_ns: int | None, timers: Timers[Stream]) -> None:
        self._cap_ns = cap_ns
        self._timers = timers
        self.idle_since_ns = 0
        self.cut_ns = 0  # time cut out so far

    def check(self, now_ns: int) -> None:
        """Nothing is in flight: move all timers if the first one is too far away."""
        if self._cap_ns is None:
            return
        earliest = self._timers.earliest()
        latest = max(now_ns, self.idle_since_ns + self._cap_ns)
        if earliest is not None and earliest > latest:
            self._timers.shift_all(earliest - latest)
            self.cut_ns += earliest - latest


class TreeWatchdog:
    """A tree with nothing in flight for `cap_ns` has its timers moved so that its first is due now."""

    def __init__(self, cap_ns: int | None, timers: Timers[Stream]) -> None:
        self._cap_ns = cap_ns
        self._timers = timers
        self._waiting: list[tuple[int, int, Tree]] = []  # (deadline, order of becoming idle, tree)
        self._order = 0
        self.cuts = 0

    def idle(self, tree: Tree) -> None:
        """The tree has just become idle (`tree.idle_since_ns`)."""
        if self._cap_ns is not None:
            self._order += 1
            heappush(self._waiting, (tree.idle_since_ns + self._cap_ns, self._order, tree))

    def quiet(self, now_ns: int) -> bool:
        """Whether no patience can have ended by now. Cheap, and asked for every send; `next_at` is the full answer."""
        return not self._waiting or self._waiting[0][0] > now_ns

    def next_at(self) -> int | None:
        """When the first tree's patience ends, None when no idle tree has a timer."""
        while self._waiting:
            deadline, _, tree = self._waiting[0]
            assert self._cap_ns is not None
            still_idle = not tree.in_flight and not tree.finished and deadline == tree.idle_since_ns + self._cap_ns
            if still_idle and self._timers.earliest_of(tree.serial) is not None:
                return deadline
            heappop(self._waiting)
        return None

    def wake(self) -> None:
        """Bring forward the first tree whose patience ends: its first timer is due at that moment.

        The tree stays listed until it sends: a turn that fires only to be held by a barrier brings forward the next.
        """
        deadline = self.next_at()
        if deadline is None:
            return
        tree = self._waiting[0][2]
        earliest = self._timers.earliest_of(tree.serial)
        if earliest is not None and earliest > deadline:
            self._timers.shift_group(tree.serial, earliest - deadline)
            self.cuts += 1

    def clear(self) -> None:
        self._waiting.clear()
