"""How wrong the fitted model is on points it has not seen: four splits, each beside the baseline it must beat.

- *concurrency*: one concurrency of every arm left out; baseline: log-linear interpolation inside the arm
- *topology*: one layout of a (GPU, engine) left out
- *model*: all points of one model left out in all precisions; its factors are then 1
- *GPU*: all points of a GPU left out; parameters are the mean of the other GPUs' of its vendor under the same engine,
  where there is none of the other vendor's

The last three stand beside the best multiplier (of the series' other points, of the group's other models, of the same
engine and model on those GPUs) on two things: the plain roofline (bytes over bandwidth, arithmetic over peak), and this
model itself with all that is fitted deleted, which is the harder one to beat.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ridgeline.core.errors import InputError
from ridgeline.simulate.bands import BAND
from ridgeline.simulate.choices import line
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.fit import Fit, fit, log_errors, predict, prior_of, with_theta, without
from ridgeline.simulate.points import Measured
from ridgeline.simulate.steady import Steady
from ridgeline.spec.facts.library import find_gpu

Group = tuple[str, str]
Guesser = Callable[[Measured, Sequence[Measured]], tuple[float | None, float | None]]
RECIPES = {"unsaid_drafts"}  # belongs to how a group was started, not to a GPU


class Guess(NamedTuple):
    """A point left out of a fit: what the fit says, what the baseline says (tokens/s/GPU and seconds a token)."""

    point: Measured
    model: Steady
    base_tput: float | None
    base_tpot: float | None
    fold: str
    roof: tuple[float | None, float | None] = (None, None)  # what the plain roofline times a constant says


class Errors(NamedTuple):
    """Shares: mean absolute error and signed bias."""

    points: int
    tput: float
    tput_bias: float
    tpot: float
    tpot_bias: float
    base_tput: float | None
    base_tpot: float | None
    roof_tput: float | None
    roof_tpot: float | None


def groups_of(points: Iterable[Measured]) -> dict[Group, list[Measured]]:
    """Fixed-sequence points by GPU and engine."""
    found: dict[Group, list[Measured]] = defaultdict(list)
    for point in points:
        found[point.hardware, point.engine].append(point)
    return dict(sorted(found.items()))


def fit_all(points: Sequence[Measured]) -> tuple[dict[Group, Fit], dict[Group, str]]:
    """A fit for every group that has enough points, and why the others have none."""
    fits, refused = {}, {}
    for group, own in groups_of(points).items():
        try:
            fits[group] = fit(own, *group)
        except InputError as error:
            refused[group] = error.problems[0].message
    return fits, refused


def left_out(found: Fit, key: Callable[[Measured], object], base: Guesser, roof: Guesser | None = None) -> list[Guess]:
    """Predictions of every point by the fit that knows no point with the same `key`."""
    guesses = []
    for fold in sorted({str(key(point)) for point in found.points}):
        out = [str(key(point)) == fold for point in found.points]
        if all(out):
            continue
        parameters = without(found, out)
        prices: dict[int, StepCost] = {}
        known = [point for point, gone in zip(found.points, out, strict=True) if not gone]
        for point, gone in zip(found.points, out, strict=True):
            if gone:
                plain = roof(point, known) if roof else (None, None)
                guesses.append(Guess(point, predict(point, parameters, prices), *base(point, known), fold, plain))
    return guesses


def of_concurrency(found: Fit) -> list[Guess]:
    """Leave one concurrency out, inside arms that have at least two others."""
    arms: dict[object, list[Measured]] = defaultdict(list)
    for point in found.points:
        arms[point.arm].append(point)

    def interpolated(point: Measured, known: Sequence[Measured]) -> tuple[float | None, float | None]:
        own = sorted((other for other in arms[point.arm] if other.conc != point.conc), key=lambda other: other.conc)
        return line(own, point.conc, "tput"), line(own, point.conc, "tpot_s")

    guesses = left_out(found, lambda point: point.conc, interpolated)
    return [guess for guess in guesses if len({other.conc for other in arms[guess.point.arm]}) >= 3]


def of_topology(found: Fit, base: Baseline, roof: Baseline | None = None) -> list[Guess]:
    def series(point: Measured) -> object:
        return point.series

    return left_out(found, lambda point: point.label, base.by(series), roof.by(series) if roof else None)


def of_model(found: Fit, base: Baseline, roof: Baseline | None = None) -> list[Guess]:
    return left_out(found, lambda point: point.model, base.by(_any), roof.by(_any) if roof else None)


def _any(_: Measured) -> object:
    return ()


def of_gpu(fits: Mapping[Group, Fit], base: Baseline, roof: Baseline | None = None) -> list[Guess]:
    """Every group by the mean of the same engine's fits on other GPUs: of its vendor's, where it has any."""
    guesses = []
    for (gpu, engine), found in fits.items():
        others = {name: other for (name, kind), other in fits.items() if kind == engine and name != gpu}
        if not others:
            continue
        near = [other for name, other in others.items() if find_gpu(name).vendor == find_gpu(gpu).vendor]
        near = near or list(others.values())
        names = sorted({*found.names, *(name for other in near for name in other.names)} - RECIPES)
        theta = np.array([_transferred(name, near, list(others.values())) for name in names])
        parameters = with_theta(prior_of("default", "default"), names, theta)
        known = [point for other in near for point in other.points]
        same, plain = base.by(lambda point: point.model), roof and roof.by(lambda point: point.model)
        prices: dict[int, StepCost] = {}
        for point in found.points:
            roofs = plain(point, known) if plain else (None, None)
            guesses.append(Guess(point, predict(point, parameters, prices), *same(point, known), gpu, roofs))
    return guesses


def _transferred(name: str, near: Sequence[Fit], others: Sequence[Fit]) -> float:
    """A parameter as near fits have it, else as any has it, else its prior."""
    for pool in (near, others):
        values = [float(fit.theta[fit.names.index(name)]) for fit in pool if name in fit.names]
        if values:
            return statistics.fmean(values)
    return 0.0


class Baseline:
    """The uncalibrated model (or what `parameters` say) times the best constant of known points with the same key, of
    all when none has it."""

    def __init__(self, points: Sequence[Measured], parameters: CostParameters | None = None) -> None:
        prior = parameters or prior_of("default", "default")
        prices: dict[int, StepCost] = {}
        self._plain = {point: predict(point, prior, prices) for point in points}

    def by(self, key: Callable[[Measured], object]) -> Guesser:
        cache: dict[tuple[int, object], tuple[float, float]] = {}
        held: dict[int, Sequence[Measured]] = {}  # lists that are keys by identity must outlive the cache

        def guess(point: Measured, known: Sequence[Measured]) -> tuple[float | None, float | None]:
            held.setdefault(id(known), known)
            name = (id(known), key(point))
            if name not in cache:
                own = [other for other in known if key(other) == key(point)] or list(known)
                tput = [math.log(o.tput / self._plain[o].tput_per_gpu) for o in own if o.tput]
                tpot = [math.log(o.tpot_s / self._plain[o].tpot_s) for o in own if o.tpot_s]
                cache[name] = (_median(tput), _median(tpot))
            tput_factor, tpot_factor = cache[name]
            plain = self._plain[point]
            return plain.tput_per_gpu * math.exp(tput_factor), plain.tpot_s * math.exp(tpot_factor)

        return guess


def _median(logs: list[float]) -> float:
    """0 where nothing was measured: then nobody asks for it either."""
    return statistics.median(logs) if logs else 0.0


def roofline() -> CostParameters:
    """Bytes over bandwidth and arithmetic over peak, with uniform routing; nothing that launches, starts or waits."""
    shares = ("weight_read", "kv_read", "narrow_cache", "expert_read", "traffic", "gemm_top", "expert_top", "link",
              "prefill_attention", "sparse_attention", "narrow_read", "device")  # fmt: skip
    times = ("gemm_half", "expert_half", "collective_s", "graph_kernel_s", "eager_kernel_s", "recurrent_launch_s",
             "sample_s", "attach_s")  # fmt: skip
    changed = {**dict.fromkeys(shares, 1.0), **dict.fromkeys(times, 0.0), "expert_evenness": 1e6}
    return replace(prior_of("default", "default"), **changed)  # type: ignore[arg-type]


def errors(guesses: Sequence[Guess]) -> Errors:
    """Shares over all guesses."""
    tput = [g.model.tput_per_gpu / g.point.tput - 1 for g in guesses if g.point.tput]
    tpot = [g.model.tpot_s / g.point.tpot_s - 1 for g in guesses if g.point.tpot_s]
    base = [g.base_tput / g.point.tput - 1 for g in guesses if g.point.tput and g.base_tput]
    other = [g.base_tpot / g.point.tpot_s - 1 for g in guesses if g.point.tpot_s and g.base_tpot]

    roof = [g.roof[0] / g.point.tput - 1 for g in guesses if g.point.tput and g.roof[0]]
    roof_tpot = [g.roof[1] / g.point.tpot_s - 1 for g in guesses if g.point.tpot_s and g.roof[1]]

    def mean(values: list[float]) -> float:
        return statistics.fmean(values) if values else math.nan

    def size(values: list[float]) -> float:
        return mean([abs(value) for value in values])

    return Errors(
        len(guesses), size(tput), mean(tput), size(tpot), mean(tpot),
        size(base) if base else None, size(other) if other else None,
        size(roof) if roof else None, size(roof_tpot) if roof_tpot else None,
    )  # fmt: skip


def spread(guesses: Sequence[Guess]) -> float:
    """Robust standard deviation of log(predicted / measured) throughput of points left out, from the error that the
    next one exceeds in one of five cases: the 0.8 (n + 1)-th of n, as conformal prediction has it. Of twenty points
    the 0.8 n-th is too narrow."""
    logs = sorted(abs(math.log(g.model.tput_per_gpu / g.point.tput)) for g in guesses if g.point.tput)
    return logs[min(len(logs), math.ceil(0.8 * (len(logs) + 1))) - 1] / BAND if logs else math.nan


def coverage(guesses: Sequence[Guess]) -> float:
    """Share of points inside the 80 % band whose width comes from the other folds."""
    folds = sorted({guess.fold for guess in guesses})
    inside = total = 0
    for fold in folds:
        others = [guess for guess in guesses if guess.fold != fold]
        if not others:
            continue
        width = BAND * spread(others)
        for guess in guesses:
            if guess.fold == fold and guess.point.tput:
                total += 1
                inside += abs(math.log(guess.model.tput_per_gpu / guess.point.tput)) <= width
    return inside / total if total else math.nan


def tau(pairs: Sequence[tuple[float, float]]) -> float:
    """Kendall's tau-a."""
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(pairs, 2)]
    return sum((sign > 0) - (sign < 0) for sign in signs) / len(signs)


def taus(pairs: Sequence[tuple[Measured, Steady]], least: int = 12) -> dict[tuple[object, ...], tuple[float, float]]:
    """Order inside series of at least `least` points: by tokens/s/GPU and by time per token."""
    series: dict[tuple[object, ...], list[tuple[Measured, Steady]]] = defaultdict(list)
    for point, seen in pairs:
        series[point.series].append((point, seen))
    return {
        name: (
            tau([(seen.tput_per_gpu, point.tput or 0) for point, seen in own]),
            tau([(seen.tpot_s, point.tpot_s or 0) for point, seen in own]),
        )
        for name, own in series.items()
        if len(own) >= least
    }


def knee(curve: Sequence[tuple[float, float]]) -> int:
    """Index of the point farthest above the chord of a curve of (tokens/s/user, tokens/s/GPU), both logarithmic."""
    gaps = _above_chord(curve)
    return gaps.index(max(gaps))


def _above_chord(curve: Sequence[tuple[float, float]]) -> list[float]:
    xs, ys = [math.log(x) for x, _ in curve], [math.log(y) for _, y in curve]
    dx, dy = xs[-1] - xs[0], ys[-1] - ys[0]
    return [abs(dx * (y - ys[0]) - dy * (x - xs[0])) for x, y in zip(xs, ys, strict=True)]


def knees(pairs: Sequence[tuple[Measured, Steady]], least: int = 6) -> list[tuple[int, float]]:
    """By how many grid steps the knee of each arm with at least `least` points is missed, and how far above the chord
    the foretold point was measured, as a share of the farthest one: near 1 where two points are the knee alike."""
    arms: dict[object, list[tuple[Measured, Steady]]] = defaultdict(list)
    for point, seen in pairs:
        if point.tput and point.tpot_s:
            arms[point.arm].append((point, seen))
    found = []
    for own in arms.values():
        if len(own) >= least:
            own.sort(key=lambda pair: pair[0].conc)
            real = [(1 / (point.tpot_s or 1), point.tput or 1) for point, _ in own]
            said = [(1 / seen.tpot_s, seen.tput_per_gpu) for _, seen in own]
            gaps, at = _above_chord(real), knee(said)
            found.append(
                (abs(knee(real) - at), gaps[at] / max(gaps) if max(gaps) else 1.0)
            )  # a straight line has no knee
    return found


def in_sample(found: Fit) -> list[tuple[Measured, Steady]]:
    prices: dict[int, StepCost] = {}
    return [(point, predict(point, found.parameters, prices)) for point in found.points]


def uncalibrated(points: Sequence[Measured]) -> list[tuple[Measured, Steady]]:
    """Fitted parameters deleted."""
    prices: dict[int, StepCost] = {}
    prior = prior_of("default", "default")
    return [(point, predict(point, prior, prices)) for point in points]


__all__ = [
    "Baseline", "coverage", "errors", "fit_all", "in_sample", "knees", "log_errors", "of_concurrency", "of_gpu",
    "of_model", "of_topology", "spread", "taus", "uncalibrated",
]  # fmt: skip
