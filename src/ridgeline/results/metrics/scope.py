"""What a metric may look at: a replay's columns, its windows, its samples and the cell's sizes.

In: columns and facts. Out: arrays of the good requests, picked once and shared by all metrics. The good requests are
those of the profiling phase that ended well and whose times are in order; latencies and throughput are theirs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.core.record import Outcome, Phases
from ridgeline.results.metrics.columns import Columns
from ridgeline.results.metrics.scrapes import Scrapes
from ridgeline.results.metrics.statistics import Samples
from ridgeline.results.metrics.steady import Span, longest_steady
from ridgeline.results.sweepline import Floats

_TIMES = ("sent_ns", "first_byte_ns", "first_token_ns", "last_token_ns", "end_ns")


@dataclass(frozen=True)
class Slo:
    """What one request must keep to count as good output. Seconds; None: no limit."""

    ttft_s: float | None = None
    itl_s: float | None = None
    e2e_s: float | None = None


class Gaps(NamedTuple):
    """Seconds between content events: the first gap of every request, and all gaps pooled."""

    first: Samples
    pooled: Samples


@dataclass(frozen=True)
class Scope:
    """Everything the formulas see. `gpus`: all GPUs the cell occupies; `concurrency`: lanes asked for."""

    columns: Columns
    phases: Phases
    gpus: int
    concurrency: int
    scrapes: Scrapes
    health: Mapping[str, float] = field(default_factory=dict)
    slo: Slo | None = None

    @cached_property
    def disordered(self) -> NDArray[np.bool_]:
        """Answered requests whose times are not in order (sent <= first byte <= first <= last token <= end)."""
        bad = np.zeros(len(self.columns), dtype=bool)
        latest = self.columns["sent_ns"]
        for name in _TIMES[1:]:
            times = self.columns[name]
            bad |= times < latest  # a comparison with a missing time is false
            latest = np.fmax(latest, times)
        return bad & self.columns.is_outcome(Outcome.OK)

    @cached_property
    def good(self) -> NDArray[np.bool_]:
        """Profiling requests that ended well, with times in order."""
        answered = self.columns.profiling & self.columns.is_outcome(Outcome.OK)
        return answered & ~np.isnan(self.columns["sent_ns"]) & ~self.disordered

    def count(self, outcome: Outcome) -> int:
        """Profiling requests with this outcome."""
        return int(np.count_nonzero(self.columns.profiling & self.columns.is_outcome(outcome)))

    @cached_property
    def _picked(self) -> dict[str, Floats]:
        return {}

    def pick(self, name: str) -> Floats:
        """A column of the good requests, NaN where a request has no value."""
        if self._all_good:
            return self.columns[name]
        if name not in self._picked:
            self._picked[name] = self.columns[name][self.good]
        return self._picked[name]

    @cached_property
    def _all_good(self) -> bool:
        return bool(self.good.all())

    @cached_property
    def gaps(self) -> Gaps:
        """Gaps between neighbouring content events of the good requests, from one pass over the arrivals."""
        first: list[Samples] = []
        pooled: list[Samples] = []
        row = 0
        for part in self.columns.chunks():
            lengths = np.diff(part.offsets)
            good = self.good[row : row + len(lengths)]
            row += len(lengths)
            if len(part.times) < 2:
                continue
            gaps = np.diff(part.times)
            two = good & (lengths >= 2)
            first.append(gaps[part.offsets[:-1][two]] / 1e9)
            # The last gap of every request leads into the next one and is none.
            inside = np.repeat(good, lengths)[:-1] if not good.all() else np.ones(len(gaps), dtype=bool)
            ends = part.offsets[1:][lengths > 0] - 1
            inside[ends[ends < len(gaps)]] = False
            # Half the memory of a double; 24 bits are finer than any clock over a gap.
            found = gaps[inside]
            pooled.append(np.divide(found, 1e9, out=np.empty(len(found), dtype=np.float32), casting="same_kind"))
        return Gaps(*(np.concatenate(found) if found else np.empty(0) for found in (first, pooled)))

    @cached_property
    def _ordered(self) -> dict[str, Floats]:
        return {}

    def ordered(self, name: str, values: Callable[[], Floats]) -> Floats:
        """`values` in ascending order, kept under `name`: for a sample that several metrics look at."""
        if name not in self._ordered:
            self._ordered[name] = np.sort(values())
        return self._ordered[name]

    def seconds(self, start: str, end: str) -> Floats:
        """Seconds from one time to another, for the good requests that have both."""
        return finite((self.pick(end) - self.pick(start)) / 1e9)

    @cached_property
    def window_ns(self) -> tuple[float, float] | None:
        """First sending and last end of the good requests; None without any."""
        if not self.good.any():
            return None
        ends = np.fmax(self.pick("end_ns"), self.pick("last_token_ns"))
        if np.isnan(ends).all():
            return None
        return float(self.pick("sent_ns").min()), float(np.nanmax(ends))

    @property
    def duration_s(self) -> float | None:
        """Length of the full window, seconds; None when it is empty."""
        window = self.window_ns
        return (window[1] - window[0]) / 1e9 if window and window[1] > window[0] else None

    @cached_property
    def steady(self) -> Span | str:
        """The longest span of the profiling phase with at least 90 % of the lanes held, or why there is none."""
        return longest_steady(self.columns, self.phases, self.concurrency)

    @cached_property
    def server_window_ns(self) -> tuple[float, float] | None:
        """When the profiling requests were at the server: from its start to the end of the drain."""
        start, end = self.phases.profiling_start_ns, self.phases.drained_ns or self.phases.profiling_end_ns
        return (start, end) if start is not None and end is not None and end > start else None


def finite(values: Floats) -> Floats:
    """Without NaN."""
    return values[~np.isnan(values)]
