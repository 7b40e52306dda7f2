"""Clocks. A run knows one time: simulated nanoseconds since its own origin.

Under `speed` X a simulated second passes in 1/X real seconds: recorded delays, idle caps, windows and the emulated
engine's steps all shrink by the same factor, and everything stored is in simulated time. At speed 1 simulated and
real time are the same. Durations come from the monotonic clock only; the wall clock names the run, never measures it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Tells simulated nanoseconds since the origin."""

    def now_ns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ScaledClock:
    """The monotonic clock, `speed` times as fast, starting at 0 at `origin_ns` (a monotonic reading)."""

    origin_ns: int
    speed: float = 1.0

    @classmethod
    def start(cls, speed: float = 1.0) -> ScaledClock:
        return cls(time.monotonic_ns(), speed)

    def now_ns(self) -> int:
        return self.at(time.monotonic_ns())

    def at(self, monotonic_ns: int) -> int:
        """Simulated time of a monotonic reading. Exact at speed 1."""
        elapsed = monotonic_ns - self.origin_ns
        return elapsed if self.speed == 1.0 else round(elapsed * self.speed)

    def real_seconds(self, simulated_ns: int) -> float:
        """How long `simulated_ns` lasts in real seconds."""
        return simulated_ns / self.speed / 1e9


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when told to: for tests and for virtual time."""

    at_ns: int = 0

    def now_ns(self) -> int:
        return self.at_ns

    def advance_to(self, at_ns: int) -> None:
        """Move forward to `at_ns`. Raises ValueError when that would go back."""
        if at_ns < self.at_ns:
            raise ValueError(f"clock cannot go back from {self.at_ns} to {at_ns}")
        self.at_ns = at_ns
