"""The register of metrics: every number a point can hold is defined here once, with its unit, direction and source.

A metric is a small function of a `Scope` under a decorator that names it. Aggregation, documentation, axes of charts
and the report all read the same register, so there is no second definition of anything.

Kinds: a *distribution* gives one value a request and is summarised (`ttft.p50`); a *speed* gives a time per token and
is summarised as its inverse (`interactivity.p90`); *parts* give named values (`throughput.output`); a *scalar* gives
one (`duration`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Axis, Measure
from ridgeline.core.units import Better
from ridgeline.results.metrics.scope import Scope
from ridgeline.results.metrics.statistics import STATISTICS, Samples, rates, summarise

Kind = Literal["distribution", "speed", "parts", "scalar"]


class Sample(NamedTuple):
    """Values of a distribution (finite ones only), or the reason why there are none. `ordered`: they ascend."""

    values: Samples
    missing: str
    ordered: bool = False


class Amount(NamedTuple):
    """One value, or the reason why there is none; `n`: samples behind it."""

    value: float | None
    n: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `formula` in words, `source`: whose definition it is, `pitfalls`: how it misleads."""

    name: str
    title: str
    unit: str
    better: Better | None
    kind: Kind
    family: str
    formula: str
    source: str
    pitfalls: str
    parts: tuple[str, ...]
    compute: Callable[[Scope], Any]

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of all measures this metric puts on a point."""
        if self.kind == "scalar":
            return (self.name,)
        return tuple(f"{self.name}.{part}" for part in (self.parts if self.kind == "parts" else STATISTICS))

    def measure(self, scope: Scope, *, withhold: bool = True) -> dict[str, Measure]:
        """All measures of this metric."""
        found = self.compute(scope)
        if self.kind == "scalar":
            return {self.name: self._one(found)}
        if self.kind == "parts":
            return {f"{self.name}.{part}": self._one(found[part]) for part in self.parts}
        ordered = found.values if found.ordered else np.sort(found.values)
        summary = summarise(ordered, self.unit, missing=found.missing, withhold=withhold)
        if self.kind == "speed":
            summary = rates(summary, found.values, self.unit)
        return {f"{self.name}.{statistic}": measure for statistic, measure in summary.items()}

    def _one(self, amount: Amount) -> Measure:
        return Measure(amount.value, self.unit, amount.n, amount.reason)


METRICS: dict[str, Metric] = {}


def metric(
    name: str,
    *,
    title: str,
    unit: str,
    better: Better | None,
    formula: str,
    source: str,
    pitfalls: str,
    kind: Kind = "distribution",
    parts: tuple[str, ...] = (),
) -> Callable[[Callable[[Scope], Any]], Callable[[Scope], Any]]:
    """Register the function below as a metric. The family is the module's name."""

    def register(compute: Callable[[Scope], Any]) -> Callable[[Scope], Any]:
        if name in METRICS:
            raise ValueError(f"metric {name} is defined twice")
        family = compute.__module__.rpartition(".")[2]
        METRICS[name] = Metric(name, title, unit, better, kind, family, formula, source, pitfalls, parts, compute)
        return compute

    return register


def metric_of(measure: str) -> Metric:
    """The metric behind a measure's name (`ttft.p50`, `duration`). Raises InputError with the nearest names."""
    found = METRICS.get(measure.partition(".")[0])
    if found is not None and measure in found.measures:
        return found
    names = [name for metric in METRICS.values() for name in metric.measures]
    near = difflib.get_close_matches(measure, names, n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else "docs/reference/metrics.md lists them"
    )
    raise InputError([Problem(f"no measure is called `{measure}`", hint=hint)])


def axis(measure: str) -> Axis:
    """The axis of a measure, with its unit and better direction. Raises InputError for an unknown name."""
    found = metric_of(measure)
    return Axis(measure, found.unit, found.better)
