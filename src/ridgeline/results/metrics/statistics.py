"""Statistics of a sample, each withheld with a reason where the sample does not carry it.

In: an array of finite values. Out: `Measure`s by statistic name. Percentiles interpolate linearly at p/100*(n-1) and
the deviation is the population's, as AIPerf and InferenceX do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.core.point import Measure

PERCENTILES = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
STATISTICS = ("mean", "std", "min", "max", *(f"p{p:g}" for p in PERCENTILES))
Samples = NDArray[np.floating[Any]]
_SLICE = 1 << 13  # values: a slice stays in the cache, and is too short for a dot product to wake other threads for
TAIL_SAMPLES = 5  # a percentile needs this many samples beyond it: p99 of 100 is nearly the maximum of a lucky draw


def percentile(ordered: Samples, p: float) -> float:
    """Linear interpolation at p/100*(n-1) in ascending values (at least one)."""
    place = p / 100 * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


def samples_needed(p: float) -> int:
    """Smallest n for which a percentile is shown: n times the smaller tail is at least `TAIL_SAMPLES`."""
    tail = min(round(p * 10), 1000 - round(p * 10))  # in tenths of a percent: whole numbers, so 0.1 * 50 is exactly 5
    return -(-TAIL_SAMPLES * 1000 // tail)


def summarise(ordered: Samples, unit: str, *, missing: str, withhold: bool = True) -> dict[str, Measure]:
    """Every statistic of ascending finite values. `missing`: the reason when there are none; `withhold` hides
    percentiles that too few samples stand behind (exports for other tools need them all)."""
    n = len(ordered)
    if n == 0:
        return {name: Measure(None, unit, 0, missing) for name in STATISTICS}
    found = {
        "mean": Measure(float(ordered.mean(dtype=np.float64)), unit, n),
        "std": Measure(_deviation(ordered), unit, n),
        "min": Measure(float(ordered[0]), unit, n),
        "max": Measure(float(ordered[-1]), unit, n),
    }
    for p in PERCENTILES:
        need = samples_needed(p)
        if withhold and n < need:
            found[f"p{p:g}"] = Measure(None, unit, n, f"withheld: p{p:g} needs {need} samples, there are {n}")
        else:
            found[f"p{p:g}"] = Measure(percentile(ordered, p), unit, n)
    return found


def _deviation(values: Samples) -> float:
    """Population standard deviation, a slice at a time: gaps of a long run are many, and a copy of them too much."""
    mean = values.mean(dtype=np.float64)
    parts = (values[at : at + _SLICE] - mean for at in range(0, len(values), _SLICE))
    return math.sqrt(sum(float(np.dot(part, part)) for part in parts) / len(values))


def rates(times: dict[str, Measure], values: Samples, unit: str) -> dict[str, Measure]:
    """Statistics of a speed from those of the time per token: pXX and mean are 1/(the time's), so pXX is the slow
    tail; min and max change places; the deviation is that of the requests' own speeds."""
    found = {}
    for name in times:
        source = times[{"min": "max", "max": "min"}.get(name, name)]
        found[name] = _inverse(source, unit)
    positive = values[values > 0]
    if len(positive):
        found["std"] = Measure(float((1 / positive).std()), unit, len(positive))
    return found


def _inverse(measure: Measure, unit: str) -> Measure:
    if measure.value is None:
        return Measure(None, unit, measure.n, measure.reason)
    if measure.value <= 0:
        return Measure(None, unit, measure.n, "the time is zero: all tokens came in one chunk")
    return Measure(1 / measure.value, unit, measure.n)
