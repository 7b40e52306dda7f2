"""Load without recorded timing, made of single-turn sessions: a closed loop at a concurrency, an open loop at a rate.

Closed: N lanes, each sends its next request the moment its last one was answered. Open: requests arrive by a clock of
their own, answered or not. Warm-up is the same for both: a number of requests through a closed loop that obeys the
concurrency cap; the measured window opens when the last of them is back.

Sessions are dealt in order and start over when they run out: give as many as there will be requests, or later ones hit
what earlier ones left in the server's prefix cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal, NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.record import Outcome, Phases
from ridgeline.core.units import SECOND
from ridgeline.trace.pacing.api import Actions, Send
from ridgeline.trace.pacing.draws import arrival_gaps
from ridgeline.trace.pacing.ledger import Ledger
from ridgeline.trace.pacing.markers import correlation_id, run_prefix
from ridgeline.trace.session import Session, TurnKey

ONLY_TURN = TurnKey(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Settings of `ClosedLoopPacer`. Ends after `requests` or `duration_ns`, whichever is first; one must be given.
    Raises InputError with every problem at once."""

    concurrency: int
    requests: int | None = None  # measured ones
    duration_ns: int | None = None  # of the measured window
    grace_ns: int = 30 * SECOND  # for requests in flight when the duration is over
    warmup_requests: int = 0  # in all
    failure_threshold: float | None = None
    run_id: str = ""  # goes into the correlation ids

    def __post_init__(self) -> None:
        problems = [Problem(message, key=key) for key, message in self.wrong()]
        if problems:
            raise InputError(problems)

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Every problem, as key and message."""
        for key in ("concurrency", "requests", "duration_ns"):
            value = getattr(self, key)
            if value is not None and value < 1:
                yield key, f"must be at least 1, not {value}"
        for key in ("grace_ns", "warmup_requests"):
            if getattr(self, key) < 0:
                yield key, f"must not be negative, not {getattr(self, key)}"
        if self.failure_threshold is not None and not 0.0 <= self.failure_threshold <= 1.0:
            yield "failure_threshold", f"must be a share between 0 and 1, not {self.failure_threshold}"
        if self.requests is None and self.duration_ns is None:
            yield "requests", "the run would never end: give `requests` or `duration_ns`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalSettings(LoopSettings):
    """Settings of `OpenLoopPacer`. `concurrency` caps the warm-up; `max_in_flight` caps the measured load, if at all:
    an arrival that finds no room waits, keeps its arrival as its scheduled time, and so shows up as lag."""

    requests_per_second: float  # infinity: all at once
    arrivals: Literal["constant", "poisson", "gamma"] = "poisson"
    burstiness: float = 1.0  # of gamma arrivals: 1 is Poisson, below 1 burstier, above 1 more even
    seed: int = 42
    max_in_flight: int | None = None

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Every problem, as key and message."""
        yield from LoopSettings.wrong(self)
        if not self.requests_per_second > 0:
            yield "requests_per_second", f"must be above 0, not {self.requests_per_second}"
        if self.requests_per_second == float("inf") and self.requests is None:
            yield "requests_per_second", "an infinite rate needs `requests`"
        if self.arrivals not in ("constant", "poisson", "gamma"):
            yield "arrivals", f"`{self.arrivals}` is not one of constant, poisson, gamma"
        if not 0 < self.burstiness < float("inf"):
            yield "burstiness", f"must be above 0 and finite, not {self.burstiness}"
        if self.max_in_flight is not None and self.max_in_flight < 1:
            yield "max_in_flight", f"must be at least 1, not {self.max_in_flight}"


class _Slot(NamedTuple):
    """A lane that may send, and since when."""

    free_ns: int
    lane: int


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
        self._free = [_Slot(now_ns, lane) for lane in range(self._settings.concurrency)]
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
        heappush(self._free, _Slot(at_ns, lane))
        if self._warming and self._dealt >= self._settings.warmup_requests and not self._ledger.in_flight:
            self._warming = False
            self._free = [_Slot(at_ns, slot.lane) for slot in sorted(self._free, key=lambda slot: slot.lane)]
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
        return self._free[0].free_ns if self._free and self._dealt < self._settings.warmup_requests else None

    @abstractmethod
    def _measured_due(self) -> int | None: ...

    @abstractmethod
    def _measured_lane(self) -> int:
        """Take the lane for a request of the measured window that is due."""

    def _send(self, due_ns: int) -> Send:
        lane = heappop(self._free).lane if self._warming else self._measured_lane()
        session = self._sessions[self._dealt % len(self._sessions)]
        tree = self._dealt
        self._dealt += 1
        return Send(
            id=self._ledger.send(lane),
            phase="warmup" if self._warming else "profiling",
            lane=lane,
            tree=tree,
            session=session,
            key=ONLY_TURN,
            max_tokens=session.root.turns[0].max_tokens,
            scheduled_ns=due_ns,
            correlation_id=correlation_id(self._id_prefix, tree, 0),
            parent_correlation_id=None,
            marker="",
        )


class ClosedLoopPacer(_SingleTurns):
    """Implements `Pacer`: a constant number of requests in flight. Raises InputError for sessions of several turns."""

    def __init__(self, sessions: Sequence[Session], settings: LoopSettings) -> None:
        super().__init__(sessions, settings)

    def _measured_due(self) -> int | None:
        return self._free[0].free_ns if self._free else None

    def _measured_lane(self) -> int:
        return heappop(self._free).lane


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
            heappush(self._lanes, heappop(self._free).lane)

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
