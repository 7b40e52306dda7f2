"""What a transport (the HTTP client, the simulator, a test) and a pacing machine say to each other.

    pacer.begin(now)
    loop:
        actions = pacer.advance(now)           # sends that are due, requests to cancel
        for send in actions.sends: transport sends it; pacer.sent(send.id, at) once its last byte is out
        on every answer: pacer.completed(send.id, at, outcome)
        stop when pacer.finished; else wait for an answer or until pacer.next_at(), whichever is first

All times are simulated nanoseconds on one clock. The machine never sees bytes; the transport never sees a trace file.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from ridgeline.core.record import Outcome, Phases
from ridgeline.trace.session import Session, Turn, TurnKey


class Send(msgspec.Struct, frozen=True, gc=False):
    """One request to send now. (A struct is made and read in a third of a named tuple's time.)"""

    id: int  # counts up from 0 over the whole replay, in the order of sending
    phase: str  # "warmup" | "profiling"
    lane: int
    tree: int  # serial of the live session tree, over the whole replay
    session: Session
    key: TurnKey
    max_tokens: int
    scheduled_ns: int  # when it was meant to be sent; lag = sent - scheduled
    correlation_id: str  # one per stream instance
    parent_correlation_id: str | None
    marker: str  # cache-bust text that opens the first user message ("" for none), one per tree

    @property
    def turn(self) -> Turn:
        return self.session.turn(self.key)


class Actions(NamedTuple):
    """What the transport must do now."""

    sends: list[Send]
    cancels: list[int]  # ids in flight to cancel; each must still be reported through `completed` as CANCELLED


class Pacer(Protocol):
    """Any load shape. Implementations must be deterministic in (sessions, settings, seed, reported completions)."""

    def begin(self, now_ns: int) -> None: ...

    def advance(self, now_ns: int) -> Actions: ...

    def next_at(self) -> int | None:
        """The earliest time at which `advance` would do something; None: only a completion can change that."""
        ...

    def sent(self, send_id: int, at_ns: int) -> None: ...

    def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None: ...

    @property
    def finished(self) -> bool: ...

    @property
    def phases(self) -> Phases: ...

    @property
    def aborted(self) -> str | None:
        """Why the run had to stop early (too many failures, a failed primer), else None."""
        ...
