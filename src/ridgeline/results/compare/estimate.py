"""The difference of one measure between two sides, with an interval and where the interval comes from.

In: repeats of both sides and the noise model. Out: an `Estimate` of ln(B/A) with standard error and degrees of
freedom. With three or more clusters a side the error is a bootstrap over clusters (nodes, else runs, else repeats),
never over requests; with fewer it is the stored noise model, and it says so. Method: design/gate-statistics.md.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ridgeline.core.point import Point
from ridgeline.results.compare import noise
from ridgeline.results.compare.noise import Noise
from ridgeline.results.compare.student import quantile, two_sided
from ridgeline.results.sweepline import Floats

DRAWS = 2000
LEAST = 3  # clusters a side below which a bootstrap says less than the stored model


class Observation(NamedTuple):
    """One repeat's value. `run`, `node`: where it was measured ("" when unknown); `n`: samples behind the value."""

    value: float
    n: int | None
    run: str
    node: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """ln(B/A) with its error. `runs`: repeats used on both sides; `samples`: requests behind the values (None: not
    told); `source`: where the interval comes from; `why_not`: no judgement is made, and why."""

    a: float
    b: float
    log_ratio: float
    error: float
    df: float
    runs: tuple[int, int]
    samples: tuple[int | None, int | None]
    source: str
    noise: Noise | None
    notes: tuple[str, ...] = ()
    why_not: str | None = None

    @property
    def change(self) -> float:
        """B/A - 1."""
        return math.expm1(self.log_ratio)

    def interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Bounds of B/A - 1; None where no error is known."""
        if math.isnan(self.error):
            return None
        half = quantile(1 - confidence, self.df) * self.error if self.error > 0 else 0.0
        return math.expm1(self.log_ratio - half), math.expm1(min(self.log_ratio + half, 700.0))

    @property
    def p(self) -> float:
        """Probability of a difference this large between equal runs; 1 where no error is known."""
        if math.isnan(self.error):
            return 1.0
        if self.error == 0:
            return 1.0 if self.log_ratio == 0 else 0.0
        return two_sided(self.log_ratio / self.error, self.df)


def observations(points: Sequence[Point], measure: str, about: Mapping[str, Mapping[str, Any]]) -> list[Observation]:
    """Values of a measure over repeats; repeats without a value are left out."""
    found = []
    for point in points:
        known = point.measures.get(measure)
        if known is not None and known.value is not None:
            found.append(Observation(known.value, known.n, run_of(point, about), node_of(point, about)))
    return found


def run_of(point: Point, about: Mapping[str, Mapping[str, Any]]) -> str:
    """The run a point belongs to: told, else the store's prefix of its id, else the same for all."""
    told = about.get(point.id, {}).get("run")
    return str(told) if told else point.id.split(".")[0] if point.id.count(".") > 1 else ""


_NODES = (
    "found.node",
    "found.nodes",
    "found.host",
    "found.hostname",
    "found.node.host",
    "found.node.name",
    "found.host.name",
    "node",
)


def node_of(point: Point, about: Mapping[str, Mapping[str, Any]]) -> str:
    """The node a point ran on, as found after the start."""
    told = about.get(point.id, {})
    for name in _NODES:
        value = told.get(name) or point.provenance.get(name.removeprefix("found."))
        if isinstance(value, Mapping):  # what a probe says of it: how much is free differs from start to start
            value = value.get("host") or value.get("name")
        if value:
            return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return ""


def estimate(a: Sequence[Observation], b: Sequence[Observation], model: Noise | str, key: str) -> Estimate | str:
    """The difference, or why there is none. `key` seeds the bootstrap, so that the answer is always the same."""
    if not a or not b:
        return "withheld or not measured on side " + ("A" if not a else "B")
    if any(item.value <= 0 for item in (*a, *b)):
        return "a value is zero: there is no ratio"
    a, b, notes = _on_shared_nodes(a, b)
    middle = [float(np.exp(np.mean([math.log(item.value) for item in side]))) for side in (a, b)]
    common: dict[str, Any] = {
        "a": middle[0],
        "b": middle[1],
        "log_ratio": math.log(middle[1] / middle[0]),
        "runs": (len(a), len(b)),
        "samples": (_samples(a), _samples(b)),
        "noise": model if isinstance(model, Noise) else None,
        "notes": notes,
    }
    level, clusters = _clusters(a, b)
    if clusters is not None:
        return _bootstrapped(clusters, level, a, b, model, key, common)
    if isinstance(model, str):
        return Estimate(**common, error=math.nan, df=1.0, source="none", why_not=model)
    return _from_model(a, b, model, common)


def _bootstrapped(
    clusters: tuple[Floats, Floats],
    level: str,
    a: Sequence[Observation],
    b: Sequence[Observation],
    model: Noise | str,
    key: str,
    common: dict[str, Any],
) -> Estimate:
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    variances, sizes = [], []
    for side in clusters:
        n = len(side)
        means = side[rng.integers(0, n, (DRAWS, n))].mean(axis=1)
        # A bootstrap of n values has (n-1)/n of the variance of their mean: few repeats need it back.
        variances.append(float(means.var()) * n / (n - 1))
        sizes.append(n)
    within = sum(variances)
    df = _satterthwaite(variances, [n - 1.0 for n in sizes])
    source = f"bootstrap over {sizes[0]} and {sizes[1]} {level}s"
    total = within
    if level == "repeat" and isinstance(model, Noise) and model.sigma > 0:
        # Repeats inside one run share its node and day, which they cannot show.
        total += model.between**2
        df = _satterthwaite([within, model.between**2], [df, model.df])
        source += ", plus the run-to-run part of the stored noise model"
    shift = float(clusters[1].mean() - clusters[0].mean())
    return Estimate(**{**common, "log_ratio": shift}, error=math.sqrt(total), df=df, source=source)


def _from_model(a: Sequence[Observation], b: Sequence[Observation], model: Noise, common: dict[str, Any]) -> Estimate:
    """The stored model; repeats that spread more than it says count with their own spread."""
    sizes = (len(a), len(b))
    within, notes = model.within, common["notes"]
    freedom = sum(n - 1 for n in sizes)
    if freedom:
        squares = sum(float(np.var([math.log(o.value) for o in side])) * len(side) for side in (a, b))
        spread = math.sqrt(squares / freedom)
        if spread > within:
            within = spread
            notes = (*notes, f"repeats spread by {spread:.2%}, more than the stored model has")
    error = math.sqrt(within**2 * (1 / sizes[0] + 1 / sizes[1]) + model.between**2)
    runs = "one run each" if sizes == (1, 1) else f"{sizes[0]} and {sizes[1]} repeats, too few for a bootstrap"
    if model is noise.EXACT:
        runs = "predicted"
    df = model.df if within == model.within else min(model.df, float(max(1, freedom)) + 2)
    return Estimate(**{**common, "notes": notes}, error=error, df=df, source=f"{runs}; {model.source}")


def _clusters(a: Sequence[Observation], b: Sequence[Observation]) -> tuple[str, tuple[Floats, Floats] | None]:
    """Means of ln(value) by the coarsest grouping with enough clusters on both sides."""
    levels: tuple[tuple[str, Callable[[int, Observation], str]], ...] = (
        ("node", lambda _, item: item.node),
        ("run", lambda _, item: item.run),
        ("repeat", lambda number, _: str(number)),
    )
    for level, name in levels:
        sides = []
        for side in (a, b):
            groups: dict[str, list[float]] = defaultdict(list)
            for number, item in enumerate(side):
                groups[name(number, item)].append(math.log(item.value))
            sides.append(np.array([np.mean(groups[key]) for key in sorted(groups)], dtype=np.float64))
        if min(map(len, sides)) >= LEAST:
            return level, (sides[0], sides[1])
    return "", None


def _on_shared_nodes(
    a: Sequence[Observation], b: Sequence[Observation]
) -> tuple[Sequence[Observation], Sequence[Observation], tuple[str, ...]]:
    """Only what both sides measured on the same nodes, where there is such; else all, with the confounding named."""
    nodes = [{item.node for item in side if item.node} for side in (a, b)]
    if not nodes[0] or not nodes[1] or nodes[0] == nodes[1]:
        return a, b, ()
    shared = nodes[0] & nodes[1]
    if not shared:
        told = " and ".join(", ".join(sorted(names)) for names in nodes)
        return a, b, (f"nodes differ ({told}): the difference contains that of the nodes",)
    kept = [[item for item in side if item.node in shared] for side in (a, b)]
    return kept[0], kept[1], (f"compared on the shared nodes only: {', '.join(sorted(shared))}",)


def _samples(side: Sequence[Observation]) -> int | None:
    counts = [item.n for item in side]
    return None if any(n is None for n in counts) else sum(n for n in counts if n is not None)


def _satterthwaite(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Degrees of freedom of a sum of variances (Welch 1947)."""
    total = sum(variances)
    if total <= 0:
        return max(freedoms)
    below = sum(v * v / f for v, f in zip(variances, freedoms, strict=True))
    return max(1.0, total * total / below) if below > 0 else max(freedoms)
