"""Formulas over scraped counters and histograms. Pure; a gap in the samples is a gap, never a zero."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Bound(NamedTuple):
    """A quantile read from a histogram. `open`: it lies in the last bucket, above `value`; how far is unknown."""

    value: float
    open: bool

    def __str__(self) -> str:
        return f"> {self.value:g}" if self.open else f"{self.value:g}"


def increase(values: Iterable[float | None]) -> float | None:
    """How much a counter grew over its samples, in time order.

    A fall is a restart from zero: what the counter shows after it was counted since. Gaps (None) are bridged. Fewer
    than two samples say nothing. Source: Prometheus, `increase()`, without its extrapolation to the window's edges.
    """
    seen = [value for value in values if value is not None and math.isfinite(value)]
    if len(seen) < 2:
        return None
    return sum(later - earlier if later >= earlier else later for earlier, later in pairwise(seen))


def histogram_increase(samples: Sequence[Mapping[float, float] | None]) -> dict[float, float] | None:
    """Growth of each cumulative bucket (upper bound -> count) over the samples."""
    present = [sample for sample in samples if sample is not None]
    if len(present) < 2:
        return None
    found: dict[float, float] = {}
    for bound in present[-1]:
        grown = increase(sample.get(bound) for sample in present)
        if grown is not None:
            found[bound] = grown
    return found or None


def histogram_quantile(buckets: Mapping[float, float], share: float) -> Bound | None:
    """The `share` quantile of cumulative buckets (upper bound -> observations at or below it, +Inf included).

    rank = share x total; linear inside the bucket that holds it, from its lower bound (0 for the first bucket when its
    upper bound is positive). A rank in the +Inf bucket gives the highest finite bound, marked open. None: no
    observations. Source: Prometheus, `histogram_quantile()`, which hides that case by returning the bound as a value.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a quantile's share lies in 0..1, not {share}")
    ordered = sorted(buckets.items())
    if not ordered or ordered[-1][1] <= 0:
        return None
    rank = share * ordered[-1][1]
    lower, below = (0.0 if ordered[0][0] > 0 else ordered[0][0]), 0.0
    for bound, count in ordered:
        if count >= rank and count > below:
            if math.isinf(bound):
                return Bound(lower, open=True)
            return Bound(lower + (bound - lower) * (rank - below) / (count - below), open=False)
        if not math.isinf(bound):
            lower, below = bound, max(below, count)
    return Bound(lower, open=True)


def ratio_of_sums(parts: Iterable[tuple[float | None, float | None]]) -> float | None:
    """Sum of numerators over sum of denominators, from the parts that have both. None without a denominator.

    A mean of ratios would weigh an idle endpoint like a busy one.
    """
    whole = [(above, below) for above, below in parts if above is not None and below is not None]
    denominator = sum(below for _, below in whole)
    return sum(above for above, _ in whole) / denominator if denominator > 0 else None
