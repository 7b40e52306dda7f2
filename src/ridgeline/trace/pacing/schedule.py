"""An open loop on recorded time stamps: every turn is sent when the trace says, answered or not.

Mooncake, Bailian, Azure and BurstGPT traces record arrivals, not think times. The first recorded moment is the start;
a turn is due at its own moment, but never before the turn ahead of it in its conversation has been answered, since its
prompt holds that answer (then it leaves at once, and the difference shows as lag). A turn without a moment of its own
follows its predecessor's answer by its recorded delay. Every conversation is a stream of its own; nothing is recycled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.record import Outcome, Phases
from ridgeline.core.units import SECOND
from ridgeline.trace.pacing.api import Actions, Send
from ridgeline.trace.pacing.ledger import Ledger
from ridgeline.trace.pacing.markers import Markers, correlation_id, run_prefix
from ridgeline.trace.session import Conversation, Session, TurnKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings:
    """Settings of `SchedulePacer`. `duration_ns`: send nothing after it; None: the whole trace. Raises InputError."""

    benchmark_id: str = ""  # goes into markers and correlation ids; empty: no markers
    duration_ns: int | None = None
    grace_ns: int = 30 * SECOND
    failure_threshold: float | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.duration_ns is not None and self.duration_ns < 1:
            problems.append(Problem(f"must be at least 1, not {self.duration_ns}", key="duration_ns"))
        if self.grace_ns < 0:
            problems.append(Problem(f"must not be negative, not {self.grace_ns}", key="grace_ns"))
        if self.failure_threshold is not None and not 0.0 <= self.failure_threshold <= 1.0:
            problems.append(
                Problem(f"must be a share between 0 and 1, not {self.failure_threshold}", key="failure_threshold")
            )
        if problems:
            raise InputError(problems)


class _Due(NamedTuple):
    """A turn that may be sent. Ties go by the order of the trace."""

    at_ns: int
    session: int
    key: TurnKey


class _Flight(NamedTuple):
    due: _Due
    lane: int


class SchedulePacer:
    """Implements `Pacer`. Raises InputError when a conversation has no recorded moment to begin at.

    A request takes the lowest lane that is free, so that lanes count how many were in flight at most.
    """

    def __init__(self, sessions: Sequence[Session], settings: ScheduleSettings) -> None:
        missing = [session.id for session in sessions if any(conv.turns[0].at_ns is None for conv in _live(session))]
        if missing or not sessions:
            what = (
                f"{len(missing)} of {len(sessions)} sessions have no time stamps" if missing else "there is no session"
            )
            raise InputError(
                [Problem(f"cannot send on a recorded schedule: {what}", hint="replay them in a closed loop")]
            )
        self._sessions = sessions
        self._ledger: Ledger[_Flight] = Ledger(
            lanes=1,
            duration_ns=settings.duration_ns,
            grace_ns=settings.grace_ns,
            failure_threshold=settings.failure_threshold,
        )
        self._prefix = run_prefix(settings.benchmark_id, 0)
        markers = Markers(settings.benchmark_id)
        self._markers = [markers.mint(0, session.id) for session in sessions]
        self._zero_ns = min(conv.turns[0].at_ns or 0 for session in sessions for conv in _live(session))
        self._start_ns = 0
        self._due: list[_Due] = []
        self._waiting = 0  # turns behind one that is in flight
        self._lanes: list[int] = []  # free ones that were used before
        self._used = 0

    def begin(self, now_ns: int) -> None:
        self._ledger.begin(now_ns)
        self._ledger.start_profiling(now_ns)
        self._start_ns = now_ns
        self._due = [
            _Due(self._recorded(conv.turns[0].at_ns or 0), number, TurnKey(index, 0))
            for number, session in enumerate(self._sessions)
            for index, conv in enumerate(session.conversations)
            if conv.turns
        ]
        heapify(self._due)

    def advance(self, now_ns: int) -> Actions:
        self._ledger.tick(now_ns)
        sends = []
        while self._ledger.sending and self._due and self._due[0].at_ns <= now_ns:
            sends.append(self._send(heappop(self._due)))
        if self._ledger.sending and not self._due and not self._waiting:
            self._ledger.stop(now_ns)
        return Actions(sends, self._ledger.take_cancels())

    def next_at(self) -> int | None:
        moments = [self._ledger.next_at()]
        if self._ledger.sending and self._due:
            moments.append(self._due[0].at_ns)
        return min((moment for moment in moments if moment is not None), default=None)

    def sent(self, send_id: int, at_ns: int) -> None:
        """Nothing follows from it: only answers and the clock decide."""
        return

    def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None:
        """Raises KeyError for an id that is not in flight."""
        due, lane = self._ledger.returned(send_id, at_ns, outcome)
        heappush(self._lanes, lane)
        turns = self._sessions[due.session].conversations[due.key.conversation].turns
        if due.key.turn + 1 == len(turns):
            return
        self._waiting -= 1
        if outcome is Outcome.OVERFLOW:  # the turns behind it are longer still
            if not self._due and not self._waiting and self._ledger.sending:
                self._ledger.stop(at_ns)
            return
        turn = turns[due.key.turn + 1]
        if turn.at_ns is not None:
            at = max(at_ns, self._recorded(turn.at_ns))
        else:
            at = at_ns + (turn.delay_ns or 0)
        heappush(self._due, _Due(at, due.session, TurnKey(due.key.conversation, due.key.turn + 1)))

    @property
    def finished(self) -> bool:
        return self._ledger.finished

    @property
    def phases(self) -> Phases:
        return self._ledger.phases

    @property
    def aborted(self) -> str | None:
        return self._ledger.aborted

    def _recorded(self, at_ns: int) -> int:
        return self._start_ns + at_ns - self._zero_ns

    def _send(self, due: _Due) -> Send:
        session, key = self._sessions[due.session], due.key
        conversation = session.conversations[key.conversation]
        self._waiting += key.turn + 1 < len(conversation.turns)
        lane = heappop(self._lanes) if self._lanes else self._used
        self._used = max(self._used, lane + 1)
        return Send(
            id=self._ledger.send(_Flight(due, lane)),
            phase="profiling",
            lane=lane,
            tree=due.session,
            session=session,
            key=key,
            max_tokens=conversation.turns[key.turn].max_tokens,
            scheduled_ns=due.at_ns,
            correlation_id=correlation_id(self._prefix, due.session, key.conversation),
            parent_correlation_id=correlation_id(self._prefix, due.session, 0) if key.conversation else None,
            marker=self._markers[due.session],
        )


def _live(session: Session) -> Iterator[Conversation]:
    return (conversation for conversation in session.conversations if conversation.turns)
