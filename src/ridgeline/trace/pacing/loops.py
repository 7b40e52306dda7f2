"""Load without recorded timing, made of single-turn sessions: a closed loop at a concurrency, an open loop at a rate.

Closed: N lanes, each sends its next request the moment its last one was answered. Open: requests arrive by a clock of
their own, answered or not. Warm-up is the same for both: a number of requests through a closed loop that obeys the
concurrency cap; the measured window opens when the last of them is back.

Sessions are dealt in order and start over when they run out: give as many as there will be requests, or later ones hit
what earlier ones left in the server's prefix cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome, Phases
from ridgeline.trace.pacing.api import Actions, Send
from ridgeline.trace.pacing.draws import arrival_gaps
from ridgeline.trace.pacing.ledger import Ledger
from ridgeline.trace.pacing.loop_settings import ArrivalSettings, LoopSettings
from ridgeline.trace.pacing.markers import correlation_id, run_prefix
from ridgeline.trace.session import Session, TurnKey

ONLY_TURN = TurnKey(0, 0)


_Slot: TypeAlias = tuple[int, int]  # since when a lane may send, and the lane


class _SingleTurns(ABC):
    """What both loops share: dealing sessions, lanes, warm-up, the end."""

    def __init__(self, sessions: Sequence[Session], settings: LoopSettings) -> None:
        if not sessions or any(session.turns != 1 for session in sessions):
            raise InputError("a closed or open loop takes sessions of one turn each, and at least one")
        self._sessions = sessions
        self._settings = settings
        self._ledger: Ledger[int] = Ledger(
            lanes=settings.concurrency,
            duration_ns=settings.duration_ns,
            grace_ns=settings.grace_ns,
            failure_threshold=settings.failure_threshold,
        )
        self._id_prefix = run_prefix(settings.run_id, 0)
        self._dealt = 0
        self._free: list[_Slot] = []
        self._warming = settings.warmup_requests > 0

    def begin(self, now_ns: int) -> None:
        self._ledger.begin(now_ns)
        self._free = [(now_ns, lane) for lane in range(self._settings.concurrency)]
        if not self._warming:
            self._open(now_ns)

    def advance(self, now_ns: int) -> Actions:
        self._ledger.tick(now_ns)
        requests = self._settings.requests
        sends: list[Send] = []
        while (due := self._due()) is not None and due <= now_ns:
            sends.append(self._send(due))
            if self._ledger.profiled == requests:
                self._ledger.stop(now_ns)
        return Actions(sends, self._ledger.take_cancels())

    def next_at(self) -> int | None:
        moments = [moment for moment in (self._ledger.next_at(), self._due()) if moment is not None]
        return min(moments, default=None)

    def sent(self, send_id: int, at_ns: int) -> None:
        """Nothing follows from it: only answers and the clock decide."""
        return

    def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None:
        """Raises KeyError for an id that is not in flight."""
        lane = self._ledger.returned(send_id, at_ns, outcome)
        heappush(self._free, (at_ns, lane))
        if self._warming and self._dealt >= self._settings.warmup_requests and not self._ledger.in_flight:
            self._warming = False
            self._free = sorted((at_ns, lane) for _, lane in self._free)
            self._open(at_ns)

    @property
    def finished(self) -> bool:
        return self._ledger.finished

    @property
    def phases(self) -> Phases:
        return self._ledger.phases

    @property
    def aborted(self) -> str | None:
        return self._ledger.aborted

    def _open(self, at_ns: int) -> None:
        self._ledger.start_profiling(at_ns)

    def _due(self) -> int | None:
        """When the next request is due, None while only an answer can tell."""
        if not self._ledger.sending:
            return None
        if not self._warming:
            return self._measured_due()
        return self._free[0][0] if self._free and self._dealt < self._settings.warmup_requests else None

    @abstractmethod
    def _measured_due(self) -> int | None: ...

    @abstractmethod
    def _measured_lane(self) -> int:
        """Take the lane for a request of the measured window that is due."""

    def _send(self, due_ns: int) -> Send:
        lane = heappop(self._free)[1] if self._warming else self._measured_lane()
        session = self._sessions[self._dealt % len(self._sessions)]
        tree = self._dealt
        self._dealt += 1
        return Send(
            self._ledger.send(lane),
            "warmup" if self._warming else "profiling",
            lane,
            tree,
            session,
            ONLY_TURN,
            session.root.turns[0].max_tokens,
            due_ns,
            correlation_id(self._id_prefix, tree, 0),
            None,
            "",
        )


class ClosedLoopPacer(_SingleTurns):
    """Implements `Pacer`: a constant number of requests in flight. Raises InputError for sessions of several turns."""

    def __init__(self, sessions: Sequence[Session], settings: LoopSettings) -> None:
        super().__init__(sessions, settings)

    def _measured_due(self) -> int | None:
        return self._free[0][0] if self._free else None

    def _measured_lane(self) -> int:
        return heappop(self._free)[1]


class OpenLoopPacer(_SingleTurns):
    """Implements `Pacer`: arrivals at a rate, the first of them one gap after the window opens. A request takes the
    lowest lane that is free, so that lanes count how many were in flight at most."""

    def __init__(self, sessions: Sequence[Session], settings: ArrivalSettings) -> None:
        super().__init__(sessions, settings)
        self._cap = settings.max_in_flight
        self._gaps = arrival_gaps(settings.seed, settings.requests_per_second, settings.arrivals, settings.burstiness)
        self._arrival_ns = 0
        self._lanes: list[int] = []  # free ones that were used before
        self._used = 0

    def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None:
        """Raises KeyError for an id that is not in flight."""
        profiling = not self._warming
        super().completed(send_id, at_ns, outcome)
        if profiling:
            heappush(self._lanes, heappop(self._free)[1])

    def _open(self, at_ns: int) -> None:
        super()._open(at_ns)
        self._free.clear()
        self._arrival_ns = at_ns + next(self._gaps)

    def _measured_due(self) -> int | None:
        return self._arrival_ns if self._cap is None or self._ledger.in_flight < self._cap else None

    def _measured_lane(self) -> int:
        self._arrival_ns += next(self._gaps)
        if self._lanes:
            return heappop(self._lanes)
        self._used += 1
        return self._used - 1
