"""The reference page of metrics, written from the register: docs/reference/metrics.md is this text, held by a test.

`python -m ridgeline.results.metrics.page` prints it.
"""

from __future__ import annotations

import sys

from ridgeline.results import validity
from ridgeline.results.metrics import METRICS, Metric
from ridgeline.results.metrics.statistics import PERCENTILES, STATISTICS, samples_needed

_HEAD = """# Metrics

<!-- Written by `python -m ridgeline.results.metrics.page`; a test holds it equal to the register. -->

A *measure* is a metric and a statistic or part: `ttft.p50`, `throughput.output`, or the metric alone (`duration`).
Every measure has a value, a unit and the number of samples behind it, or no value and the reason why. Missing is never
zero. All times are simulated time: at `--speed 1` that is real time.

Latencies, speeds and throughput are those of the *good* requests: of the profiling phase, ended well, with times in
order. Token counts are the server's usage. Percentiles interpolate linearly at p/100*(n-1); `std` is the population's.
"""

_FAMILIES = {
    "latency": "Latencies",
    "speed": "Speed of one user",
    "throughput": "Throughput",
    "outcomes": "Outcomes",
    "tokens": "Token counts",
    "cache": "Prefix cache",
    "engine": "Engine",
    "client": "Client",
    "cost": "Energy and cost",
}


def render() -> str:
    """The page, Markdown."""
    parts = [_HEAD, _withheld()]
    for family, title in _FAMILIES.items():
        metrics = [metric for metric in METRICS.values() if metric.family == family]
        parts += [f"## {title}\n", *map(_entry, metrics)]
    unknown = {metric.family for metric in METRICS.values()} - set(_FAMILIES)
    if unknown:
        raise ValueError(f"families without a title on the page: {sorted(unknown)}")
    return "\n".join([*parts, _codes()])


def _withheld() -> str:
    needs = ", ".join(f"p{p:g}: {samples_needed(p)}" for p in PERCENTILES)
    return (
        f"Statistics of a distribution: {', '.join(f'`{name}`' for name in STATISTICS)}.\n"
        f"A percentile is withheld until five samples lie beyond it; samples needed: {needs}.\n"
    )


def _entry(metric: Metric) -> str:
    better = {"higher": "higher is better", "lower": "lower is better", None: "no better direction: no frontier on it"}
    measures = {
        "scalar": f"`{metric.name}`",
        "parts": ", ".join(f"`{name}`" for name in metric.measures),
        "distribution": f"`{metric.name}.STATISTIC`, one value a request",
        "speed": f"`{metric.name}.STATISTIC`, the inverse of the same statistic of the time",
    }
    return (
        f"### `{metric.name}`: {metric.title}\n\n"
        f"Unit {metric.unit}; {better[metric.better]}.\n\n"
        f"- Measures: {measures[metric.kind]}\n"
        f"- Definition: {metric.formula}\n"
        f"- Source: {metric.source}\n"
        f"- Pitfalls: {metric.pitfalls}\n"
    )


def _codes() -> str:
    rows = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in validity.CODES.items())
    return (
        "## Validity and cautions\n\n"
        "A gate that does not pass makes a point invalid (it stays off every frontier) or puts a caution on it.\n\n"
        f"| code | when |\n|---|---|\n{rows}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(render())
