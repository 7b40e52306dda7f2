"""Which measures can be axes, and how measures are called on a page.

In: the measures that exist in a set of points. Out: the offered axes, the usual pair, and a description of each
measure. Titles, units, directions and formulas are the register's (`results.metrics`); this page only orders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ridgeline.core.point import Axis, Point
from ridgeline.core.units import Better
from ridgeline.results.metrics import METRICS, Metric, axis
from ridgeline.results.metrics.statistics import STATISTICS

# What a reader asks first comes first. Each name stands for the measures after it that exist.
_X = {
    "interactivity": ("p50", "p90"),
    "e2e_interactivity": ("p50", "p90"),
    "e2e_latency": ("p50", "p90"),
    "ttft": ("p50", "p90", "p99"),
    "tpot": ("p50", "p90"),
    "itl": ("p50", "p90"),
}
_Y = {
    "throughput_per_gpu": ("total", "output", "input"),
    "throughput_per_gpu_steady": ("total", "output", "input"),
    "goodput": ("",),
    "request_rate": ("",),
    "dollars_per_million": ("total", "output", "input"),
    "tokens_per_dollar": ("total", "output"),
    "power": ("joules_per_output_token", "joules_per_total_token", "avg_power_w"),
}


class Extra(NamedTuple):
    """A measure that no replay gives: it comes with telemetry."""

    title: str
    unit: str
    better: Better | None
    formula: str
    source: str
    pitfalls: str


_OVER = "energy of all GPUs over the window"
_ENERGY = "Only where power was recorded over the measured window; no value is drawn where it was not."
EXTRA = {
    "power.joules_per_output_token": Extra(
        "Energy per output token", "J/tok", "lower", f"{_OVER} / output tokens", "GPU power log", _ENERGY
    ),
    "power.joules_per_total_token": Extra(
        "Energy per token", "J/tok", "lower", f"{_OVER} / input and output tokens", "GPU power log", _ENERGY
    ),
    "power.avg_power_w": Extra("Power per GPU", "W/GPU", "lower", f"{_OVER} / window / GPUs", "GPU power log", _ENERGY),
}


def axis_of(key: str) -> Axis:
    """The axis of a measure that charts know. Raises InputError for another one."""
    extra = EXTRA.get(key)
    return Axis(key, extra.unit, extra.better) if extra else axis(key)


_HEADLINE = ("ttft.p50", "e2e_latency.p50", "tpot.p50", "server_cache_hit", "error_rate", "itl.p50")
_COLUMNS = ("ttft.p50", "e2e_latency.p50", "server_cache_hit")
_KEPT = frozenset({"mean", "p50", "p90", "p99", "max"})  # of a distribution; the run folder holds the others


class Offered(NamedTuple):
    """Measure keys offered for each axis."""

    x: tuple[str, ...]
    y: tuple[str, ...]


def drawable() -> frozenset[str]:
    """Every measure that may be an axis, a column or a headline of a chart."""
    pairs = [
        f"{metric}.{part}" if part else metric
        for offer in (_X, _Y)
        for metric, parts in offer.items()
        for part in parts
    ]
    return frozenset({*pairs, *_HEADLINE, *_COLUMNS})


def measures(points: Iterable[Point]) -> dict[str, str]:
    """Measure key to unit, for every measure a page shows and any point has, or misses with a reason."""
    every = {key: measure.unit for point in points for key, measure in point.measures.items()}
    return {key: unit for key, unit in every.items() if _part(key) not in STATISTICS or _part(key) in _KEPT}


def offered(points: Iterable[Point]) -> Offered:
    """Measures with a direction that at least one point has a value for."""
    have = {key for point in points for key, measure in point.measures.items() if measure.value is not None}

    def listed(wanted: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
        keys = (f"{metric}.{part}" if part else metric for metric, parts in wanted.items() for part in parts)
        return tuple(key for key in keys if key in have and describe(key)["better"])

    return Offered(listed(_X), listed(_Y))


def usual(points: Sequence[Point], among: Offered | None = None) -> dict[str, str | None]:
    """The pair a chart of `points` opens with: p90 for agentic sessions, where the slow tail is what users feel, else
    the median; the next offered measure where that one has no value. `among`: what they offer, where it is known."""
    x, y = among or offered(points)
    agentic = any(point.facts.get("scenario") == "agentic-coding" for point in points)
    first = next((key for key in x if _part(key) == ("p90" if agentic else "p50")), next(iter(x), None))
    return {"x": first, "y": next(iter(y), None)}


def headline(keys: Iterable[str]) -> list[str]:
    """Measures that follow the two axes at the head of a point's drawer."""
    return [key for key in _HEADLINE if key in keys]


def columns(keys: Iterable[str]) -> list[str]:
    """Measures a table shows beside the two axes."""
    return [key for key in _COLUMNS if key in keys]


def describe(key: str, unit: str = "") -> dict[str, Any]:
    """How a measure is called, and what the register says of it. A measure the register does not know (an import's
    own) is called by its key, has `unit` and no direction.

    `title`: the metric. `part`: its statistic or part. `name`: an axis without the statistic. `label`: in full.
    `said`: inside a sentence.
    """
    metric, part = key.partition(".")[0], _part(key)
    extra = EXTRA.get(key)
    if extra is not None:
        words = {
            "metric": metric,
            "title": extra.title,
            "part": "",
            "name": extra.title,
            "stat": "",
            "label": extra.title,
        }
        return {**words, "said": _lower(extra.title), **extra._asdict()}
    about = METRICS.get(metric)
    title = about.title if about else metric.replace("_", " ")
    word = "median" if part == "p50" else part
    if about and about.kind == "parts" and part not in STATISTICS:
        name = label = f"{word.capitalize()} {_lower(title)}"
        stat = ""
    else:
        name, stat, label = title, word, f"{title}, {word}" if word else title
    return {
        "metric": metric,
        "title": title,
        "part": word,
        "name": name,
        "stat": stat,
        "label": label,
        "said": f"{stat} {_lower(title)}" if stat else _lower(name),
        "unit": about.unit if about else unit,
        "better": about.better if about else None,
        **_card(about),
    }


def _card(about: Metric | None) -> dict[str, str]:
    return {name: getattr(about, name) if about else "" for name in ("formula", "source", "pitfalls")}


def _part(key: str) -> str:
    return key.partition(".")[2]


def _lower(title: str) -> str:
    """Inside a sentence; a name like `KV cache use` keeps its capitals."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]
