"""The pacing machine of the agentic replay: N lanes, each one live session tree, from primers to the end of grace.

    priming    one request per live stream fills the server's cache with the prefixes the lanes stand on
    pressure   every lane goes on without delays, one token a turn, until it has sent its quota
    profiling  recorded delays, spawns, joins and predecessors; finished trees are replaced at once

Rules: the AgentX replay of InferenceX (`agentx`) and of AIPerf 0.13 (`aiperf-0.13`); see design/clock-model.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.core.record import Outcome, Phases
from ridgeline.core.units import SECOND
from ridgeline.trace.pacing.api import Actions, Send
from ridgeline.trace.pacing.flow import BranchCounts, Flow, Stage
from ridgeline.trace.pacing.handoff import recorded_offset, resumptions
from ridgeline.trace.pacing.idle import SystemGuard, TreeWatchdog
from ridgeline.trace.pacing.lanes import Lanes
from ridgeline.trace.pacing.ledger import CANCEL_PATIENCE_NS, Ledger
from ridgeline.trace.pacing.settings import PacingSettings
from ridgeline.trace.pacing.timers import Due, Timers
from ridgeline.trace.pacing.tree import State, Stream
from ridgeline.trace.pacing.warmup import Quota, primers
from ridgeline.trace.session import Session

# An answer, even a poor one, shows that the server has computed the prefix, which is all a primer is for.
PRIMED = frozenset({Outcome.OK, Outcome.EMPTY, Outcome.TRUNCATED})


class Tally(NamedTuple):
    """What the machine has done so far."""

    trees_started: int
    trees_finished: int
    lanes_in_use: int
    in_flight: int
    branches: BranchCounts  # of the measured window
    turns_held: int  # sends that had to wait for children or predecessors
    turns_forced: int  # sends whose wait could never have ended (a malformed trace)
    idle_cut_ns: int  # cut out of the whole schedule because nothing ran
    tree_idle_cuts: int


class AgentPacer:
    """Implements `Pacer` for session trees. Raises InputError when no session can be started."""

    def __init__(self, sessions: Sequence[Session], settings: PacingSettings) -> None:
        self._settings = settings
        self._rules = settings.rules
        self._lanes = Lanes(sessions, settings)
        self._timers: Timers[Stream] = Timers()
        self._sleepers: Timers[Stream] = Timers()  # out of reach of the idle caps
        self._ledger: Ledger[Stream] = Ledger(
            lanes=settings.concurrency,
            duration_ns=settings.duration_ns,
            grace_ns=settings.grace_ns,
            failure_threshold=settings.failure_threshold,
        )
        self._guard = SystemGuard(settings.system_idle_cap_ns, self._timers)
        self._watchdog = TreeWatchdog(settings.trace_idle_cap_ns if self._rules.watches_trees else None, self._timers)
        self._quota = Quota(settings)
        self._flow = Flow(
            settings,
            lanes=self._lanes,
            timers=self._timers,
            sleepers=self._sleepers,
            ledger=self._ledger,
            quota=self._quota,
        )
        self._pressure_closes_ns: int | None = None
        self._warmup_deadline_ns: int | None = None

    # -- the protocol ------------------------------------------------------------------------------------------------

    def begin(self, now_ns: int) -> None:
        self._ledger.begin(now_ns)
        self._lanes.fill()
        self._guard.idle_since_ns = now_ns
        if self._settings.warmup:
            for after_ns, stream in primers(self._lanes.trees, self._settings):
                self._timers.add(stream.tree.serial, now_ns + after_ns, stream)
            self._progress(now_ns)
        else:
            self._open(now_ns)

    def advance(self, now_ns: int) -> Actions:
        self._tick(now_ns)
        sends: list[Send] = []
        while self._ledger.sending:
            patience_ends = None if self._watchdog.quiet(now_ns) else self._watchdog.next_at()
            limit = now_ns if patience_ends is None else min(now_ns, patience_ends)
            due = self._take(limit)
            if due is not None:
                send = self._flow.fire(due.item, due.at_ns, now_ns)
                if send is not None:
                    sends.append(send)
            elif patience_ends is not None and patience_ends <= now_ns:
                self._watchdog.wake()
            elif not self._settle(now_ns):
                break
        return Actions(sends, self._ledger.take_cancels())

    def next_at(self) -> int | None:
        if self._ledger.finished:
            return None
        moments = [self._ledger.next_at()]
        if self._ledger.sending:
            moments += [self._timers.earliest(), self._sleepers.earliest(), self._watchdog.next_at()]
            moments += [self._pressure_closes_ns, self._warmup_deadline_ns]
        return min((moment for moment in moments if moment is not None), default=None)

    def sent(self, send_id: int, at_ns: int) -> None:
        """Nothing follows from it: delays count from answers, and children that start with a request count from the
        moment it was handed out, so that decisions depend on reported completions only."""

    def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None:
        """Raises KeyError for an id that is not in flight."""
        stream = self._ledger.returned(send_id, at_ns, outcome)
        tree = stream.tree
        tree.in_flight -= 1
        if not tree.in_flight:
            tree.idle_since_ns = max(tree.idle_since_ns, at_ns)
        if not self._ledger.in_flight:
            self._guard.idle_since_ns = max(self._guard.idle_since_ns, at_ns)
        self._tick(at_ns)
        if self._flow.stage is Stage.PRIMING:
            stream.state = State.DEFERRED
            if stream.is_root and outcome not in PRIMED:
                self._abort(f"the primer of {tree.session.id} failed: {outcome}", at_ns)
        else:
            self._flow.turn_over(stream, at_ns, outcome)
        if not tree.in_flight and self._flow.stage is Stage.PROFILING and not tree.finished:
            self._watchdog.idle(tree)
        if self._ledger.sending:
            self._settle(at_ns)

    @property
    def finished(self) -> bool:
        return self._ledger.finished

    @property
    def phases(self) -> Phases:
        return self._ledger.phases

    @property
    def aborted(self) -> str | None:
        return self._ledger.aborted

    @property
    def tally(self) -> Tally:
        """Counts for a live view and for the report."""
        return Tally(
            trees_started=self._lanes.minted,
            trees_finished=self._flow.trees_finished,
            lanes_in_use=len(self._lanes.trees),
            in_flight=self._ledger.in_flight,
            branches=self._flow.branches,
            turns_held=self._flow.turns_held,
            turns_forced=self._flow.turns_forced,
            idle_cut_ns=self._guard.cut_ns,
            tree_idle_cuts=self._watchdog.cuts,
        )

    # -- stages and deadlines ----------------------------------------------------------------------------------------

    def _settle(self, now_ns: int) -> bool:
        """Nothing is due: change stage if the current one is over, cut idle time; tell whether something is due now."""
        if self._ledger.in_flight:
            if self._warmup_deadline_ns is None and self._warmup_is_out():
                self._allow_grace(now_ns)
            return False
        self._progress(now_ns)
        if self._flow.stage is not Stage.PRESSURE:
            self._guard.check(now_ns)
        return any(at is not None and at <= now_ns for at in (self._timers.earliest(), self._sleepers.earliest()))

    def _take(self, limit_ns: int) -> Due[Stream] | None:
        """The earliest timer of either kind that is due."""
        sleeper = self._sleepers.earliest()
        if sleeper is not None:
            timer = self._timers.earliest()
            if timer is None or sleeper < timer:
                return self._sleepers.take(limit_ns)
        return self._timers.take(limit_ns)

    def _warmup_is_out(self) -> bool:
        """Whether a warm-up stage has sent all it will send."""
        if self._flow.stage is Stage.PRIMING:
            return not len(self._timers)
        return self._flow.stage is Stage.PRESSURE and self._quota.closed

    def _progress(self, at_ns: int) -> None:
        """Leave a warm-up stage that has nothing in flight and nothing left to send."""
        if self._ledger.in_flight or len(self._timers):
            return
        if self._flow.stage is Stage.PRIMING and (
            self._settings.warmup_requests_per_lane or self._settings.warmup_duration_ns is not None
        ):
            self._press(at_ns)
        elif self._flow.stage is not Stage.PROFILING:
            self._open(at_ns)

    def _press(self, at_ns: int) -> None:
        self._flow.stage = Stage.PRESSURE
        self._warmup_deadline_ns = None
        if self._settings.warmup_duration_ns is not None:
            self._pressure_closes_ns = at_ns + self._settings.warmup_duration_ns
        for tree in self._lanes.trees:
            for stream in tree.live:
                self._flow.ready(stream, at_ns, recorded_offset(stream))

    def _open(self, at_ns: int) -> None:
        """The measured window opens: every lane's streams are put on the clock."""
        if self._flow.stage is Stage.PRIMING:
            for tree in self._lanes.trees:
                for stream in tree.live:
                    stream.ready_ns, stream.delay_ns = at_ns, recorded_offset(stream)
        self._flow.stage = Stage.PROFILING
        self._warmup_deadline_ns = self._pressure_closes_ns = None
        self._ledger.start_profiling(at_ns)
        self._guard.idle_since_ns = at_ns
        for lane in self._lanes.empty:
            self._lanes.recycle(lane)
        children = sum(not stream.is_root for tree in self._lanes.trees for stream in tree.live)
        self._flow.branches = BranchCounts(children_spawned=children)
        for tree in self._lanes.trees:
            tree.held.clear()
            tree.idle_since_ns = at_ns
            self._watchdog.idle(tree)
        for after_ns, stream, gated in resumptions(self._lanes.trees, self._settings, at_ns):
            if gated:
                self._flow.suspend(stream)
            if gated and not self._rules.gate_keeps_delay:
                self._flow.hold(stream)
            else:
                self._flow.schedule(stream, at_ns + after_ns)
        for tree in self._lanes.trees:
            self._flow.unstick(tree, at_ns)
        if not self._lanes.trees:
            self._stop(at_ns)

    def _tick(self, now_ns: int) -> None:
        """Let deadlines pass."""
        self._ledger.tick(now_ns)
        if not self._ledger.sending:
            self._forget()
            return
        if self._pressure_closes_ns is not None and now_ns >= self._pressure_closes_ns:
            self._quota.close()
            self._allow_grace(self._pressure_closes_ns)
            self._pressure_closes_ns = None
        if self._warmup_deadline_ns is not None and now_ns >= self._warmup_deadline_ns:
            self._lose_patience(now_ns)

    def _allow_grace(self, at_ns: int) -> None:
        """All warm-up requests are out."""
        if self._settings.warmup_grace_ns is not None:
            self._warmup_deadline_ns = at_ns + self._settings.warmup_grace_ns

    def _lose_patience(self, at_ns: int) -> None:
        """The warm-up's grace is over. Without its root's primer a lane is cold, and pressure must not end half-way:
        both end the run. Children's primers are cancelled and the run goes on."""
        missing = self._ledger.waiting_for()
        if self._flow.stage is Stage.PRESSURE or any(stream.is_root for stream in missing):
            grace_s = (self._settings.warmup_grace_ns or 0) / SECOND
            self._abort(f"warm-up was not answered within its grace of {grace_s:g} s ({len(missing)} in flight)", at_ns)
        elif self._ledger.cancelled:
            self._abort("cancelled primers were not given back", at_ns)
        else:
            self._ledger.cancel_in_flight(at_ns)
            self._warmup_deadline_ns = at_ns + CANCEL_PATIENCE_NS

    def _abort(self, reason: str, at_ns: int) -> None:
        self._ledger.abort(reason, at_ns)
        self._forget()

    def _stop(self, at_ns: int) -> None:
        self._ledger.stop(at_ns)
        self._forget()

    def _forget(self) -> None:
        """Nothing will be sent any more."""
        self._timers.clear()
        self._sleepers.clear()
        self._watchdog.clear()
