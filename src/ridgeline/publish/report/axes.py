"""Which measures can be axes, and how measures are called on a page.

In: the measures that exist in a set of points. Out: the offered axes, the usual pair, and a description of each
measure. Titles, units, directions and formulas are the registry's (`results.metrics`); this page only orders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ridgeline.core.point import Point

# What a reader asks first comes first. A metric stands for all its statistics, in the order of _STATISTICS.
_X = ("interactivity", "e2e", "ttft", "tpot", "itl")
_Y = ("total_throughput_per_gpu", "output_throughput_per_gpu", "input_throughput_per_gpu")
_HEADLINE = ("ttft.p50", "itl.p50", "e2e.p50", "ttft.p90")
_COLUMNS = ("ttft.p50", "e2e.p50")
_STATISTICS = ("p50", "p90", "p99", "mean")
_STATISTIC_WORDS = {"p50": "median", "mean": "mean", "p90": "p90", "p99": "p99"}
_TEMP = {
    "interactivity": dict(title="Interactivity", unit="tok/s/user", better="higher", definition="Output tokens per second as one user sees them.", formula="1 ÷ (pXX of ITL)", source="client", pitfalls="A mean hides the slow tail."),
    "ttft": dict(title="Time to first token", unit="s", better="lower", definition="From the last byte sent to the first generated token.", formula="first_token − sent", source="client", pitfalls=""),
    "itl": dict(title="Inter-token latency", unit="s", better="lower", definition="", formula="(last − first) ÷ (n − 1)", source="client", pitfalls=""),
    "tpot": dict(title="Time per output token", unit="s", better="lower", definition="", formula="", source="client", pitfalls=""),
    "e2e": dict(title="End-to-end latency", unit="s", better="lower", definition="", formula="last − sent", source="client", pitfalls=""),
    "total_throughput_per_gpu": dict(title="Total throughput per GPU", unit="tok/s/GPU", better="higher", definition="Input and output tokens a second over all GPUs the topology occupies.", formula="(input + output tokens in the window) ÷ seconds ÷ GPUs", source="usage of the server", pitfalls="ep and dcp never multiply the number of GPUs."),
    "output_throughput_per_gpu": dict(title="Output throughput per GPU", unit="tok/s/GPU", better="higher", definition="", formula="", source="", pitfalls=""),
    "input_throughput_per_gpu": dict(title="Input throughput per GPU", unit="tok/s/GPU", better="higher", definition="", formula="", source="", pitfalls=""),
}


class Offered(NamedTuple):
    """Measure keys offered for each axis."""

    x: tuple[str, ...]
    y: tuple[str, ...]


def measures(points: Iterable[Point]) -> dict[str, str]:
    """Measure key to unit, for every measure any point has or misses with a reason."""
    return {key: measure.unit for point in points for key, measure in point.measures.items()}


def offered(points: Sequence[Point]) -> Offered:
    """Measures with a direction that at least one point has a value for."""
    have = {key for point in points for key, measure in point.measures.items() if measure.value is not None}
    return Offered(_ordered(_X, have), _ordered(_Y, have))


def usual(offered: Offered, *, agentic: bool) -> dict[str, str | None]:
    """The pair a chart opens with: p90 for agentic sessions, where the slow tail is what users feel, else the median."""
    statistic = "p90" if agentic else "p50"
    x = next((key for key in offered.x if key.partition(".")[2] == statistic), next(iter(offered.x), None))
    return {"x": x, "y": next(iter(offered.y), None)}


def headline(keys: Iterable[str]) -> list[str]:
    """Measures that follow the two axes at the head of a point's drawer."""
    return [key for key in _HEADLINE if key in keys]


def columns(keys: Iterable[str]) -> list[str]:
    """Measures a table shows beside the two axes."""
    return [key for key in _COLUMNS if key in keys]


def describe(key: str, unit: str) -> dict[str, Any]:
    """How `metric.statistic` is called: `title` (the metric), `label` (with the statistic), `short`, `said` (inside a
    sentence), and what the registry says of it."""
    metric, _, statistic = key.partition(".")
    about: Mapping[str, Any] = _TEMP.get(metric, {})
    title = about.get("title") or metric.replace("_", " ")
    word = _STATISTIC_WORDS.get(statistic, statistic)
    lower = title if title[:2].isupper() else title[:1].lower() + title[1:]
    return {
        "metric": metric,
        "stat": word,
        "title": title,
        "label": f"{title}, {word}" if word else title,
        "short": f"{title} {word}" if word else title,
        "said": f"{word} {lower}" if word else lower,
        "unit": about.get("unit") or unit,
        "better": about.get("better"),
        "definition": about.get("definition", ""),
        "formula": about.get("formula", ""),
        "source": about.get("source", ""),
        "pitfalls": about.get("pitfalls", ""),
    }


def _ordered(metrics: Iterable[str], have: Iterable[str]) -> tuple[str, ...]:
    present = set(have)
    wanted = [key for metric in metrics for key in (*(f"{metric}.{s}" for s in _STATISTICS), metric)]
    return tuple(key for key in wanted if key in present and describe(key, "")["better"])
