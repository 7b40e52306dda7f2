"""How a replay of recorded sessions is paced: the knobs, their defaults, and the two generations of rules.

Defaults are those of the canonical agentic run (3600 s, seed 42, start between 25 % and 75 % of the recorded time, ten
warm-up requests a lane, 10 s and 300 s idle caps). All durations are simulated nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.units import SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Where generations of the agentic replay differ. Everything else is common to them."""

    caps_primer_lead: bool  # a primer is sent at most one system idle cap before the common start
    anchors_at_first: bool  # profiling starts with the first dispatchable stream; else at t*, waiting its full offset
    keeps_tree_clock: bool  # after warm-up a stream goes back to its place on the tree's clock; else residual delay
    gate_keeps_delay: bool  # a turn that waits for children also waits its own recorded delay
    watches_trees: bool  # the idle cap of a single tree is enforced while running
    caps_child_starts: bool  # idle caps move the delayed start of a child; else it sleeps on a timer of its own


PROFILES = {
    # What InferenceX's harness runs (agentx-harness 1.0.x).
    "agentx": Profile(
        caps_primer_lead=True,
        anchors_at_first=True,
        keeps_tree_clock=True,
        gate_keeps_delay=True,
        watches_trees=True,
        caps_child_starts=True,
    ),
    # AIPerf 0.13.0, scenario inferencex-agentx-mvp.
    "aiperf-0.13": Profile(
        caps_primer_lead=False,
        anchors_at_first=False,
        keeps_tree_clock=False,
        gate_keeps_delay=False,
        watches_trees=False,
        caps_child_starts=False,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingSettings:
    """Settings of `AgentPacer`. Raises InputError with every problem at once.

    `benchmark_id` goes into the cache-bust markers and the correlation ids. Give every run its own, or a server's
    prefix cache carries over from one run to the next; an empty one turns markers off.
    """

    concurrency: int  # lanes: live session trees
    benchmark_id: str
    seed: int = 42
    profile: str = "agentx"
    order: Literal["sequential", "shuffled"] = "sequential"  # of sessions, at the start and when lanes recycle

    duration_ns: int | None = 3600 * SECOND  # of profiling; None: until `max_requests` or `max_trees`
    grace_ns: int = 30 * SECOND  # for requests in flight at the end
    start_min_ratio: float = 0.25  # t* is drawn between these shares of the recorded time
    start_max_ratio: float = 0.75
    start_style: Literal["spread", "burst"] = "spread"  # burst: primers, and every lane's first turn, at once

    warmup: bool = True  # False: no primers either; profiling begins at once
    warmup_requests_per_lane: int = 10  # of the pressure stage; 0: primers only (the fast mode uses 1)
    warmup_duration_ns: int | None = None  # pressure for a time instead of a count
    warmup_grace_ns: int | None = 1800 * SECOND  # for what is in flight once all warm-up requests are out

    system_idle_cap_ns: int | None = 10 * SECOND  # longest time with nothing in flight at all
    trace_idle_cap_ns: int | None = 300 * SECOND  # longest time with nothing in flight in one tree
    failure_threshold: float | None = 0.10  # share of failed requests above which the run is aborted

    max_requests: int | None = None  # stop sending after so many profiling requests
    max_trees: int | None = None  # mint no more trees than this, those of the start included

    def __post_init__(self) -> None:
        problems = [Problem(message, key=key) for key, message in self._wrong()]
        if problems:
            raise InputError(problems)

    @property
    def rules(self) -> Profile:
        return PROFILES[self.profile]

    def _wrong(self) -> Iterator[tuple[str, str]]:
        if self.profile not in PROFILES:
            yield "profile", f"`{self.profile}` is not one of {', '.join(PROFILES)}"
        if self.order not in ("sequential", "shuffled"):
            yield "order", f"`{self.order}` is neither sequential nor shuffled"
        if self.start_style not in ("spread", "burst"):
            yield "start_style", f"`{self.start_style}` is neither spread nor burst"
        for key in ("concurrency", "duration_ns", "max_requests", "max_trees", "warmup_duration_ns"):
            value = getattr(self, key)
            if value is not None and value < 1:
                yield key, f"must be at least 1, not {value}"
        for key in ("grace_ns", "warmup_grace_ns", "warmup_requests_per_lane", "system_idle_cap_ns"):
            value = getattr(self, key)
            if value is not None and value < 0:
                yield key, f"must not be negative, not {value}"
        if self.trace_idle_cap_ns is not None and self.trace_idle_cap_ns < 0:
            yield "trace_idle_cap_ns", f"must not be negative, not {self.trace_idle_cap_ns}"
        ratios = (self.start_min_ratio, self.start_max_ratio)
        if not all(math.isfinite(ratio) and 0.0 <= ratio <= 1.0 for ratio in ratios) or ratios[0] > ratios[1]:
            yield "start_min_ratio", f"start ratios must satisfy 0 <= min <= max <= 1, not {ratios[0]} and {ratios[1]}"
        if self.failure_threshold is not None and not 0.0 <= self.failure_threshold <= 1.0:
            yield "failure_threshold", f"must be a share between 0 and 1, not {self.failure_threshold}"
        if self.duration_ns is None and self.max_requests is None and self.max_trees is None:
            yield "duration_ns", "the run would never end: give a duration, `max_requests` or `max_trees`"
