"""Server metrics over a window: increases of counters, levels of gauges, over all endpoints, each counted once.

In: samples with series named `name{label="v",...}`. Out: sums and means with the number of series behind them.
Counters may restart (the increase goes on from zero), scrapes may fail (a gap), and two addresses may show one
process (a router repeating its worker): the second one is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ridgeline.core.record import ServerSample
from ridgeline.results.sweepline import Floats

Window = tuple[float, float]
_BOUND = re.compile(r'(?:^|,)le="([^"]+)"')


class Line(NamedTuple):
    """One series of one endpoint: `labels` is the text between the braces."""

    endpoint: str
    name: str
    labels: str
    at_ns: Floats
    values: Floats
    absent_ns: float | None = None  # the last good scrape before its first value, if there was one


class Level(NamedTuple):
    """A gauge over a window, over all its series."""

    mean: float  # of the series' own means, weighted where weights are known
    peak: float  # highest value of any series
    sum_mean: float  # sum of the series' means
    sum_peak: float  # highest sum of all series at one time
    series: int


@dataclass(frozen=True)
class Scrapes:
    """Samples of one replay, in the order of time."""

    samples: Sequence[ServerSample]

    @property
    def failed(self) -> int:
        """Scrapes that gave nothing."""
        return sum(sample.values is None for sample in self.samples)

    @cached_property
    def names(self) -> frozenset[str]:
        """Metric names seen, without labels."""
        return frozenset(key.partition("{")[0] for key in self._keys)

    @cached_property
    def _keys(self) -> frozenset[str]:
        found: set[str] = set()
        for sample in self.samples:
            found.update(sample.values or ())
        return frozenset(found)

    def lines(self, name: str, label: str | None = None) -> list[Line]:
        """Series of a metric, mirrors included. `label`: text the labels must contain, e.g. `source="device"`."""
        keys = [key for key in self._keys if key.partition("{")[0] == name and (label is None or label in key)]
        found = []
        for endpoint in self._endpoints:
            rows = [sample for sample in self.samples if sample.endpoint == endpoint and sample.values]
            for key in sorted(keys):
                pairs = [(row.at_ns, row.values[key]) for row in rows if row.values and key in row.values]
                if pairs:
                    at, values = np.array(pairs, dtype=np.float64).T
                    before = [row.at_ns for row in rows if row.at_ns < at[0]]
                    absent = float(before[-1]) if before else None
                    found.append(Line(endpoint, name, key.partition("{")[2].rstrip("}"), at, values, absent))
        return found

    @cached_property
    def _endpoints(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sample.endpoint for sample in self.samples))

    @cached_property
    def _mirrors(self) -> frozenset[str]:
        """Endpoints that repeat an earlier one: every counter they share tells the same story."""
        names = [name for name in self.names if name.endswith("_total")]
        by_endpoint: dict[str, dict[tuple[str, str], Line]] = {endpoint: {} for endpoint in self._endpoints}
        for name in sorted(names) if len(self._endpoints) > 1 else ():
            for line in self.lines(name):
                by_endpoint[line.endpoint][(name, line.labels)] = line
        repeated: set[str] = set()
        for i, endpoint in enumerate(self._endpoints):
            for earlier in self._endpoints[:i]:
                shared = by_endpoint[endpoint].keys() & by_endpoint[earlier].keys()
                moving = [key for key in shared if np.ptp(by_endpoint[earlier][key].values) > 0]
                if (
                    earlier not in repeated
                    and moving
                    and all(same_counter(by_endpoint[endpoint][key], by_endpoint[earlier][key]) for key in moving)
                ):
                    repeated.add(endpoint)
        return frozenset(repeated)

    def own(self, name: str, label: str | None = None) -> list[Line]:
        """Series of a metric without mirrors."""
        return [line for line in self.lines(name, label) if line.endpoint not in self._mirrors]

    def increase(self, names: Iterable[str], window: Window, label: str | None = None) -> float | None:
        """Sum of the increases of the first metric among `names` that exists; None when none does or none was
        scraped twice around the window."""
        for name in names:
            found = [increase(line, window) for line in self.own(name, label)]
            known = [value for value in found if value is not None]
            if known:
                return float(sum(known))
        return None

    def least_increase(self, names: Iterable[str], window: Window) -> float:
        """What the first metric among `names` that exists grew between scrapes inside the window: `increase` without
        what may have happened between a boundary and the scrapes next to it. 0 when fewer than two lie inside."""
        for name in names:
            if lines := self.own(name):
                return float(sum(_growth(_inside(line, window).values) for line in lines))
        return 0.0

    def histogram(self, names: Iterable[str], window: Window) -> list[tuple[float, float]]:
        """Cumulative increases of a histogram's buckets as (upper bound, count), summed over series, by rising bound;
        empty when no metric among `names` (without `_bucket`) has any."""
        for name in names:
            counts: dict[float, float] = {}
            for line in self.own(f"{name}_bucket"):
                bound = _BOUND.search(line.labels)
                grown = increase(line, window)
                if bound is not None and grown is not None:
                    counts[float(bound.group(1))] = counts.get(float(bound.group(1)), 0.0) + grown
            if counts:
                return sorted(counts.items())
        return []

    def level(
        self, names: Iterable[str], window: Window, weight: Callable[[Line], float | None] | None = None
    ) -> Level | None:
        """A gauge inside the window; None when no metric among `names` has a sample in it. `weight` of a series in
        `mean`; they count equally unless it knows every one of them."""
        for name in names:
            lines = [_inside(line, window) for line in self.own(name)]
            lines = [line for line in lines if len(line.values)]
            if lines:
                return _level(lines, [weight(line) for line in lines] if weight else [])
        return None


class Quantile(NamedTuple):
    """A quantile read off buckets: a value, or `above` the last finite bound, or neither when nothing was counted."""

    value: float | None
    above: float | None = None


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> Quantile:
    """Linear inside the bucket that holds the rank, from 0 in the first; ranks in the open bucket have no value.

    Source: Prometheus histogram_quantile, which reports the last finite bound there instead; that reads like a value.
    """
    if not buckets or buckets[-1][1] <= 0:
        return Quantile(None)
    rank = share * buckets[-1][1]
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if math.isinf(bound):
                return Quantile(None, low)
            inside = count - below
            return Quantile(low + (bound - low) * ((rank - below) / inside if inside > 0 else 1.0))
        low, below = bound, count
    return Quantile(None, low)


def increase(line: Line, window: Window) -> float | None:
    """How much a counter grew over the window, restarts included; None without two scrapes around it.

    From the last scrape at or before the start (else the first one inside) to the first at or after the end (else the
    last one inside): the counters stand still outside of the load. A labelled counter appears with its first event, so
    one that an earlier good scrape did not show was zero then.
    """
    at, values = line.at_ns, line.values
    if line.absent_ns is not None:
        at, values = np.append(line.absent_ns, at), np.append(0.0, values)
    first = max(int(np.searchsorted(at, window[0], side="right")) - 1, 0)
    last = min(int(np.searchsorted(at, window[1], side="left")), len(at) - 1)
    if last <= first:
        return None
    return _growth(values[first : last + 1])


def _growth(values: Floats) -> float:
    """Sum of the rises of a counter; one that falls began again at zero."""
    steps = np.diff(values)
    return float(steps[steps > 0].sum() + values[1:][steps < 0].sum())


def same_counter(a: Line, b: Line) -> bool:
    """Whether two series are one counter seen through two addresses.

    Put in order of time together they never fall (apart from common restarts, which neither then has), and they
    agree exactly on at least three values, or on all when there are fewer. Two workers of their own, each with its
    own load, would cross.
    """
    common = len(np.intersect1d(a.values, b.values))
    if common < min(3, len(np.unique(a.values)), len(np.unique(b.values))):
        return False
    order = np.argsort(np.concatenate((a.at_ns, b.at_ns)), kind="stable")
    merged = np.concatenate((a.values, b.values))[order]
    falls = int(np.count_nonzero(np.diff(merged) < 0))
    own = max(int(np.count_nonzero(np.diff(line.values) < 0)) for line in (a, b))
    return falls <= own


def _inside(line: Line, window: Window) -> Line:
    keep = (line.at_ns >= window[0]) & (line.at_ns <= window[1])
    return line._replace(at_ns=line.at_ns[keep], values=line.values[keep])


def _level(lines: list[Line], weights: list[float | None]) -> Level:
    known = [weight for weight in weights if weight]
    means = [float(line.values.mean()) for line in lines]
    times = np.unique(np.concatenate([line.at_ns for line in lines]))
    sums = np.zeros(len(times))
    for line in lines:  # scrapes of several endpoints are not at one time: each holds its last value
        at = np.clip(np.searchsorted(line.at_ns, times, side="right") - 1, 0, None)
        sums += line.values[at]
    return Level(
        mean=float(np.average(means, weights=known if len(known) == len(means) else None)),
        peak=max(float(line.values.max()) for line in lines),
        sum_mean=float(np.sum(means)),
        sum_peak=float(sums.max()),
        series=len(lines),
    )
