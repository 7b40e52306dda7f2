"""What follows from what inside the live trees: a timer sends a turn, an answer starts children, releases who waited,
and sets the next turn; a finished tree makes room for the next. It knows nothing of deadlines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ridgeline.core.record import Outcome
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.pacing.lanes import Lanes
from ridgeline.trace.pacing.ledger import Ledger
from ridgeline.trace.pacing.settings import PacingSettings
from ridgeline.trace.pacing.timers import Timers
from ridgeline.trace.pacing.tree import State, Stream, Tree
from ridgeline.trace.pacing.warmup import Quota
from ridgeline.trace.session import Branch, Turn, TurnKey

# A stream ends here: its next turn would be too long as well, or we cut it ourselves.
ENDS_STREAM = frozenset({Outcome.OVERFLOW, Outcome.CANCELLED})


class Stage(Enum):
    """What the sends of a moment are for."""

    PRIMING = "priming"
    PRESSURE = "pressure"
    PROFILING = "profiling"


@dataclass(slots=True)
class BranchCounts:
    """What became of children and of who waited for them, since the measured window opened: AIPerf's `branch_stats`."""

    children_spawned: int = 0  # live when the window opened, or started in it
    children_completed: int = 0  # came to their last turn, answered well or badly
    children_errored: int = 0  # ended before it: the context was too long
    children_truncated: int = 0  # kept from their next turn, or their first, because nothing was sent any more
    children_delayed: int = 0  # started some time after what spawned them, as recorded
    parents_suspended: int = 0  # turns that had to wait for children
    parents_resumed: int = 0  # of those, sent
    parents_failed_due_to_child_error: int = 0  # nobody fails for that here
    joins_suppressed: int = 0  # the children were done when nothing was sent any more


class Flow:
    """The streams of all lanes. `stage` is set from outside; everything else follows from answers and timers."""

    def __init__(
        self,
        settings: PacingSettings,
        *,
        lanes: Lanes,
        timers: Timers[Stream],
        sleepers: Timers[Stream],
        ledger: Ledger[Stream],
        quota: Quota,
    ) -> None:
        self._settings = settings
        self._rules = settings.rules
        self._lanes = lanes
        self._timers = timers
        self._sleepers = sleepers  # starts of children that no idle cap moves
        self._ledger = ledger
        self._quota = quota
        self.stage = Stage.PRIMING
        self.branches = BranchCounts()
        self.trees_finished = 0
        self.turns_held = 0
        self.turns_forced = 0

    def fire(self, stream: Stream, due_ns: int, now_ns: int) -> Send | None:
        """A stream's time has come: send its turn, or keep it back."""
        if self.stage is Stage.PRIMING:
            return self._send(stream, stream.next - 1, 1, due_ns)
        if not stream.forced and stream.tree.blocked(stream):
            self.hold(stream)
            self.unstick(stream.tree, now_ns)
            return None
        if self.stage is Stage.PRESSURE:
            if not self._quota.admits(stream.tree.lane):
                stream.state = State.DEFERRED
                return None
            self._quota.count(stream.tree.lane)
        send = self._send(stream, stream.next, 1 if self.stage is Stage.PRESSURE else stream.turn.max_tokens, due_ns)
        for branch in stream.turn.spawns:
            recorded = stream.tree.session.branches[branch]
            if _starts_meanwhile(stream.turn, recorded):
                self._spawn(stream.tree, branch, now_ns, stream.turn.at_ns)
        if self.stage is Stage.PROFILING and self._ledger.profiled == self._settings.max_requests:
            self._ledger.stop(now_ns)
        return send

    def _send(self, stream: Stream, turn: int, max_tokens: int, due_ns: int) -> Send:
        tree = stream.tree
        tree.in_flight += 1
        stream.state = State.IN_FLIGHT
        if stream.waited:
            stream.waited = False
            self.branches.parents_resumed += 1
        return Send(
            id=self._ledger.send(stream),
            phase="profiling" if self.stage is Stage.PROFILING else "warmup",
            lane=tree.lane,
            tree=tree.serial,
            session=tree.session,
            key=TurnKey(stream.conversation, turn),
            max_tokens=max_tokens,
            scheduled_ns=due_ns,
            correlation_id=stream.correlation_id,
            parent_correlation_id=None if stream.is_root else tree.root_correlation_id,
            marker=tree.marker,
        )

    def turn_over(self, stream: Stream, at_ns: int, outcome: Outcome) -> None:
        """A turn has been answered or has failed: spawn, go on, release who waited, replace a finished tree."""
        tree, sending = stream.tree, self._ledger.sending
        if outcome in ENDS_STREAM:
            tree.end(stream)
            if outcome is Outcome.CANCELLED and not sending:
                self.branches.children_truncated += not stream.is_root
                return  # cut at the end of the run: the tree keeps its lane and does not count as finished
            self.branches.children_errored += not stream.is_root
        else:
            for branch in stream.turn.spawns:
                self._spawn(tree, branch, at_ns, tree.session.branches[branch].start_ns)
            tree.turn_done(stream)
            ended = stream.state is State.ENDED
            if not ended:
                self.ready(stream, at_ns, stream.turn.delay_ns or 0)
            if not stream.is_root:
                self.branches.children_completed += ended
                self.branches.children_truncated += not ended and not sending
        if tree.finished:
            self.trees_finished += 1
            self._lanes.vacate(tree.lane)
            if self._ledger.sending and not (self.stage is Stage.PRESSURE and self._quota.closed):
                self._recycle(tree.lane, at_ns)
            return
        for freed in tree.released():
            self.branches.joins_suppressed += freed.waited and not sending
            self.schedule(freed, at_ns)
        self.unstick(tree, at_ns)

    def _spawn(self, tree: Tree, branch: int, at_ns: int, base_ns: int | None) -> None:
        """Start a branch's children, each as long after `at_ns` as it was recorded after `base_ns`."""
        for child in tree.spawn(branch):
            first = child.turns[0].at_ns if child.turns else None
            delay_ns = max(0, first - base_ns) if first is not None and base_ns is not None else 0
            sending = self._ledger.sending
            self.branches.children_spawned += sending
            self.branches.children_truncated += not sending
            self.branches.children_delayed += sending and delay_ns > 0
            self.ready(child, at_ns, delay_ns, sleeps=delay_ns > 0 and not self._rules.caps_child_starts)

    def ready(self, stream: Stream, at_ns: int, delay_ns: int, *, sleeps: bool = False) -> None:
        """A stream's next turn is due `delay_ns` after `at_ns`; under pressure at once. `sleeps`: no cap moves it."""
        if stream.state is State.ENDED:
            return
        stream.ready_ns, stream.delay_ns = at_ns, delay_ns
        if self.stage is Stage.PRESSURE:
            self.schedule(stream, at_ns)
            return
        if gated := stream.tree.gated(stream):
            self.suspend(stream)
        if gated and not self._rules.gate_keeps_delay:
            self.hold(stream)
        else:
            self.schedule(stream, at_ns + delay_ns, sleeps=sleeps)

    def schedule(self, stream: Stream, at_ns: int, *, sleeps: bool = False) -> None:
        """Send its next turn at `at_ns`, unless nothing is sent any more or the lane has had its share of pressure."""
        if not self._ledger.sending:
            return
        if self.stage is Stage.PRESSURE and not self._quota.admits(stream.tree.lane):
            stream.state = State.DEFERRED
            return
        stream.state = State.TIMED
        (self._sleepers if sleeps else self._timers).add(stream.tree.serial, at_ns, stream)

    def suspend(self, stream: Stream) -> None:
        """Its next turn waits for children."""
        stream.waited = True
        self.branches.parents_suspended += 1

    def hold(self, stream: Stream) -> None:
        """Its next turn waits until an answer releases it."""
        stream.state = State.HELD
        stream.tree.held.append(stream)
        self.turns_held += 1

    def unstick(self, tree: Tree, at_ns: int) -> None:
        """A trace whose waits form a ring would keep its lane for good: let the one that has waited longest go."""
        if self.stage is not Stage.PROFILING or tree.in_flight or not tree.held or not self._ledger.sending:
            return
        serial = tree.serial
        if self._timers.earliest_of(serial) is None and self._sleepers.earliest_of(serial) is None:
            stream = tree.held.pop(0)
            stream.forced = True
            self.turns_forced += 1
            self.schedule(stream, at_ns)

    def _recycle(self, lane: int, at_ns: int) -> None:
        tree = self._lanes.recycle(lane)
        if tree is not None:
            tree.idle_since_ns = at_ns
            self.ready(tree.streams[0], at_ns, 0)
        elif self.stage is Stage.PROFILING and not self._lanes.trees:
            self._ledger.stop(at_ns)


def _starts_meanwhile(turn: Turn, branch: Branch) -> bool:
    """Whether the recording started the branch while the turn that spawned it was still being answered."""
    if turn.at_ns is None or branch.start_ns is None:
        return False
    return branch.start_ns < turn.at_ns + max(0, turn.api_ns or 0)
