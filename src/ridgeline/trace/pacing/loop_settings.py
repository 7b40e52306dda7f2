"""How load without recorded timing is paced: a closed loop at a concurrency, an open loop at a rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.units import SECOND


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
