"""Which layout wins: asked at speeds that users see, of predictions and of the measurements themselves.

Three questions about the layouts of one series (one GPU, engine, model, precision and pair of lengths):

- *at a speed*: the most tokens/s/GPU where a user gets so many tokens/s, between points along straight lines in the
  logarithms, among layouts whose curves reach it on both sides
- *at least a speed*: the most among points that are as fast or faster; a layout that is too slow has nothing
- *at all*: the most at any speed

How far an answer can be right is measured with the data alone: every layout's own points as a straight line
(`straightened`) or each point from its neighbours (`from_neighbours`) choose too, and so do the measurements with a
known error added to each layout (`disturbed`).
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.fit import Fit, predict, without
from ridgeline.simulate.points import Measured
from ridgeline.simulate.steady import Steady

NOISE = 0.015  # of throughput between repeats, two standard deviations; three times that on MI355X
LEVELS = (20.0, 40.0, 60.0, 100.0)  # tokens/s/user at which layouts are compared

Pair = tuple[Measured, Steady]
Curve = Sequence[tuple[float, float]]  # (tokens/s/user, tokens/s/GPU)
Rule = Callable[[Curve, float], float | None]


class Contest(NamedTuple):
    """How often the preferred layout is the best one measured, or as good within the noise of repeats. `costs`: what
    each choice gives away, shares of the best throughput."""

    asked: int
    right: int
    costs: tuple[float, ...]

    @property
    def share(self) -> float:
        return self.right / self.asked if self.asked else math.nan

    @property
    def mean_cost(self) -> float:
        return statistics.fmean(self.costs) if self.costs else math.nan

    @property
    def mean_of_wrong(self) -> float:
        wrong = [cost for cost in self.costs if cost > NOISE]
        return statistics.fmean(wrong) if wrong else 0.0


def at_speed(curve: Curve, level: float) -> float | None:
    """Throughput of a curve at a speed; None outside the curve."""
    points = sorted(curve)
    for (a, low), (b, high) in pairwise(points):
        if a <= level <= b and a < b:
            share = (math.log(level) - math.log(a)) / (math.log(b) - math.log(a))
            return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return None


def at_least(curve: Curve, level: float) -> float | None:
    """The most throughput at a speed or faster; 0 where nothing is so fast."""
    found = [high for speed, high in curve if speed >= level]
    between = at_speed(curve, level)
    return max([0.0, *found, *([between] if between else [])])


def at_all(curve: Curve, _: float) -> float | None:
    """The most throughput."""
    return max(high for _, high in curve)


def contest(pairs: Iterable[Pair], rule: Rule = at_speed, levels: Sequence[float] = LEVELS) -> Contest:
    """Asks every series at every level that two of its layouts reach."""
    series: dict[object, dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    for point, seen in pairs:
        if point.tput and point.tpot_s:
            series[point.series][point.label].append((point, seen))
    right, costs = 0, []
    for name, layouts in series.items():
        noise = NOISE * (3 if "mi355x" in str(name) else 1)
        for level in levels:
            real, said = {}, {}
            for label, own in layouts.items():
                measured = rule([(1 / (p.tpot_s or 1), p.tput or 1) for p, _ in own], level)
                guessed = rule([(1 / s.tpot_s, s.tput_per_gpu) for _, s in own], level)
                if measured is not None and guessed is not None:
                    real[label], said[label] = measured, guessed
            if sum(value > 0 for value in real.values()) < 2:
                continue
            chosen = max(said, key=lambda label: said[label])
            right += real[chosen] >= (1 - noise) * max(real.values())
            costs.append(1 - real[chosen] / max(real.values()))
    return Contest(len(costs), right, tuple(costs))


def together(contests: Iterable[Contest]) -> Contest:
    found = list(contests)
    costs = tuple(cost for one in found for cost in one.costs)
    return Contest(len(costs), sum(one.right for one in found), costs)


def with_one_unseen(found: Fit, rule: Rule = at_speed, levels: Sequence[float] = LEVELS) -> Contest:
    """Choices among all layouts by a fit that has seen all but one of them, for every one of them and the series that
    have it. One fit prices all layouts here, so its errors are comparable."""
    contests = []
    for label in sorted({point.label for point in found.points}):
        out = [point.label == label for point in found.points]
        if all(out):
            continue
        parameters, prices = without(found, out), dict[int, StepCost]()
        about = {point.series for point in found.points if point.label == label}
        asked = [point for point in found.points if point.series in about]
        contests.append(contest([(p, predict(p, parameters, prices)) for p in asked], rule, levels))
    return together(contests)


def _arms(points: Iterable[Measured]) -> list[list[Measured]]:
    arms: dict[object, list[Measured]] = defaultdict(list)
    for point in points:
        if point.tput and point.tpot_s:
            arms[point.arm].append(point)
    return [sorted(own, key=lambda point: point.conc) for own in arms.values()]


def _drawn(point: Measured, tput: float, tpot_s: float) -> Pair:
    return point, Steady(tpot_s, 0.0, tput, float(point.conc))


def straightened(points: Iterable[Measured]) -> list[Pair]:
    """Every layout's own measurements as straight lines over concurrency, in the logarithms."""
    found = []
    for own in _arms(points):
        x = np.log([point.conc for point in own])
        degree = 1 if len(set(x)) > 1 else 0
        values = []
        for measured in ([p.tput for p in own], [p.tpot_s for p in own]):
            y = np.log(np.array(measured, dtype=np.float64))
            values.append(np.exp(np.polyval(np.polyfit(x, y, degree), x)))
        found += [_drawn(p, float(a), float(b)) for p, a, b in zip(own, *values, strict=True)]
    return found


def from_neighbours(points: Iterable[Measured]) -> list[Pair]:
    """Every point from the others of its own layout, as the first split's baseline has it."""
    found = []
    for own in _arms(points):
        for point in own:
            others = [other for other in own if other.conc != point.conc]
            tput, tpot = line(others, point.conc, "tput"), line(others, point.conc, "tpot_s")
            if tput and tpot:
                found.append(_drawn(point, tput, tpot))
    return found


def line(own: Sequence[Measured], conc: int, field: str) -> float | None:
    """Straight through the neighbours in log-log; beyond the ends through the last two."""
    pairs = sorted({other.conc: getattr(other, field) for other in own if getattr(other, field)}.items())
    if len(pairs) < 2:
        return None
    at = min(max(bisect.bisect([left for left, _ in pairs], conc), 1), len(pairs) - 1)
    (a, low), (b, high) = pairs[at - 1], pairs[at]
    share = math.log(conc / a) / math.log(b / a)
    return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))


def disturbed(points: Iterable[Measured], deviation: float, draws: int = 10, seed: int = 1) -> float:
    """Share of right choices at a speed by the measurements themselves, every layout of a series slower or faster by a
    factor of its own, whose logarithm is normal with this deviation."""
    rng, arms = np.random.default_rng(seed), _arms(points)
    contests = []
    for _ in range(draws):
        pairs = []
        for own in arms:
            factor = math.exp(float(rng.normal(0, deviation)))
            pairs += [_drawn(p, (p.tput or 1) / factor, (p.tpot_s or 1) * factor) for p in own]
        contests.append(contest(pairs))
    return together(contests).share
