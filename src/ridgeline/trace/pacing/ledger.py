"""Requests in flight, the phases, and how a run ends. Common to every pacing machine; it knows no sessions.

A run ends in one of three ways. The window closes (or enough was sent): nothing more is sent, what is in flight may
come back until the grace is over, then it is cancelled. Too many requests fail, or the machine aborts: cancelled at
once. After a cancel the answers are awaited for ten seconds at most, then the run is over without them.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

from ridgeline.core.record import Outcome, Phases
from ridgeline.core.units import SECOND

Flight = TypeVar("Flight")

CANCEL_PATIENCE_NS = 10 * SECOND
FEWEST_RECORDS_TO_JUDGE = 10  # a failure share of fewer requests says nothing
# Neither answers nor failures: what we cut ourselves, and what the server rightly refused as too long.
NOT_COUNTED = frozenset({Outcome.CANCELLED, Outcome.OVERFLOW})


class Ending(Enum):
    """How far the end has come."""

    SENDING = 0
    DRAINING = 1
    CANCELLING = 2
    OVER = 3


class Ledger(Generic[Flight]):
    """Book of the requests of one run, by id."""

    def __init__(
        self, *, lanes: int, duration_ns: int | None, grace_ns: int, failure_threshold: float | None = None
    ) -> None:
        self._enough = max(lanes, FEWEST_RECORDS_TO_JUDGE)
        self._duration_ns = duration_ns
        self._grace_ns = grace_ns
        self._threshold = failure_threshold
        self._in_flight: dict[int, tuple[Flight, bool]] = {}
        self._next_id = 0
        self._ending = Ending.SENDING
        self.sending = True
        self._start_ns = 0
        self._profiling_start_ns: int | None = None
        self._profiling_end_ns: int | None = None
        self._drained_ns: int | None = None
        self._give_up_ns: int | None = None
        self._cancels: list[int] = []
        self._cancel_at_ns: int | None = None
        self.cancelled = False  # whether a cancel was ever asked for
        self.aborted: str | None = None
        self.profiled = 0  # profiling requests sent
        self.records = 0  # of those, answered or failed
        self.failures = 0

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def finished(self) -> bool:
        return self._ending is Ending.OVER

    @property
    def phases(self) -> Phases:
        return Phases(
            start_ns=self._start_ns,
            profiling_start_ns=self._profiling_start_ns,
            profiling_end_ns=self._profiling_end_ns,
            drained_ns=self._drained_ns,
        )

    def waiting_for(self) -> list[Flight]:
        """What is in flight, in the order of sending."""
        return [flight for flight, _ in self._in_flight.values()]

    def begin(self, now_ns: int) -> None:
        self._start_ns = now_ns

    def start_profiling(self, at_ns: int) -> None:
        """The measured window opens."""
        self._profiling_start_ns = at_ns

    @property
    def closes_ns(self) -> int | None:
        """When the measured window closes; None when it has not opened or has no length."""
        if self._profiling_start_ns is None or self._duration_ns is None:
            return None
        return self._profiling_start_ns + self._duration_ns

    def send(self, flight: Flight) -> int:
        """Enter a request; gives its id."""
        profiling = self._profiling_start_ns is not None
        self.profiled += profiling
        send_id = self._next_id
        self._next_id += 1
        self._in_flight[send_id] = (flight, profiling)
        return send_id

    def returned(self, send_id: int, at_ns: int, outcome: Outcome) -> Flight:
        """A request came back. Raises KeyError for an id that is not in flight."""
        flight, profiling = self._in_flight.pop(send_id)
        if profiling and outcome not in NOT_COUNTED:
            self.records += 1
            self.failures += outcome is not Outcome.OK
            self._judge(at_ns)
        if not self._in_flight and self._ending in (Ending.DRAINING, Ending.CANCELLING):
            self._over(at_ns)
        return flight

    def tick(self, now_ns: int) -> None:
        """Let the deadlines up to `now_ns` pass."""
        if self.sending and self._duration_ns is None:
            return
        closes = self.closes_ns
        if self._ending is Ending.SENDING and closes is not None and now_ns >= closes:
            self.stop(closes)
        if self._ending is Ending.DRAINING and closes is not None and now_ns >= closes + self._grace_ns:
            self._cancel_all(closes + self._grace_ns)
        if self._ending is Ending.CANCELLING and self._give_up_ns is not None and now_ns >= self._give_up_ns:
            self._over(self._give_up_ns)

    def stop(self, at_ns: int) -> None:
        """Nothing more is sent; what is in flight may come back."""
        if self._ending is not Ending.SENDING:
            return
        self._ending = Ending.DRAINING
        self.sending = False
        self._profiling_end_ns = at_ns
        if not self._in_flight:
            self._over(at_ns)

    def abort(self, reason: str, at_ns: int) -> None:
        """End at once, and remember why."""
        if self._ending in (Ending.CANCELLING, Ending.OVER):
            return
        self.aborted = reason
        if self._profiling_start_ns is not None and self._profiling_end_ns is None:
            self._profiling_end_ns = at_ns
        self._cancel_all(at_ns)

    def cancel_in_flight(self, at_ns: int) -> None:
        """Cancel what is in flight, without ending the run."""
        self.cancelled = True
        self._cancels.extend(self._in_flight)
        self._cancel_at_ns = at_ns

    def take_cancels(self) -> list[int]:
        """Ids to cancel that have not been handed out yet and are still in flight."""
        if not self._cancels:
            self._cancel_at_ns = None
            return []
        cancels = [send_id for send_id in self._cancels if send_id in self._in_flight]
        self._cancels.clear()
        self._cancel_at_ns = None
        return cancels

    def next_at(self) -> int | None:
        """The next deadline."""
        if self._cancel_at_ns is not None:
            return self._cancel_at_ns
        closes = self.closes_ns
        if self._ending is Ending.SENDING:
            return closes
        if self._ending is Ending.DRAINING:
            return None if closes is None else closes + self._grace_ns
        return self._give_up_ns if self._ending is Ending.CANCELLING else None

    def _judge(self, at_ns: int) -> None:
        if self._threshold is None or self.records < self._enough:
            return
        if self.failures / self.records > self._threshold:
            self.abort(
                f"{self.failures} of {self.records} requests failed, more than the {self._threshold:.0%} allowed", at_ns
            )

    def _cancel_all(self, at_ns: int) -> None:
        self._ending = Ending.CANCELLING
        self.sending = False
        self._drained_ns = at_ns
        self._give_up_ns = at_ns + CANCEL_PATIENCE_NS
        if self._in_flight:
            self.cancel_in_flight(at_ns)
        else:
            self._over(at_ns)

    def _over(self, at_ns: int) -> None:
        self._ending = Ending.OVER
        self.sending = False
        if self._drained_ns is None:
            self._drained_ns = at_ns
