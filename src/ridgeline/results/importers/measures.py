"""Foreign statistics become measures: what a format's metric is with us is a line of a table, not code.

In: blocks of statistics under any of the usual names (`avg`, `median`, `p999`, ...) and a table of metrics. Out:
measures of ours. Percentiles that too few samples stand behind are withheld on the way in, as they are in our own
points; the value stays in the kept source file. Where a source does not tell its count nothing is withheld.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ridgeline.core.point import Measure
from ridgeline.results.importers.foreign import measure, number
from ridgeline.results.metrics.statistics import STATISTICS, samples_needed

SPEED_UNIT = "tok/s/user"
NO_GPUS = "the number of GPUs is unknown: import with --set gpus=N"
PARTS = ("total", "input", "output")
_NAMES = {"avg": "mean", "median": "p50", "std_dev": "std"}
_DIGITS = re.compile(r"p(\d+)$")
_SWAPPED = {"min": "max", "max": "min"}


class Spread(NamedTuple):
    """A foreign distribution: our metric ("": none), unit, what theirs is multiplied by, and the speed that is one over
    its times ("": none)."""

    ours: str
    unit: str = "s"
    factor: float = 1.0
    speed: str = ""


def statistic(name: str) -> str | None:
    """Our name of a statistic, None for one we do not keep. `p05` is p5, `p999` is p99.9 and `p001` is p0.1."""
    name = _NAMES.get(name, name)
    digits = _DIGITS.match(name)
    if digits and (len(digits[1]) == 3 or digits[1].startswith("0")):
        name = f"p{int(digits[1]) / (10 if len(digits[1]) == 3 else 1):g}"
    return name if name in STATISTICS else None


def spread(block: Mapping[str, Any], to: Spread, n: int | None = None) -> dict[str, Measure]:
    """Measures of one distribution. Speeds are 1/time statistic by statistic, so pXX is the slow tail; the highest
    speed is that of the shortest time; a deviation of times is none of speeds."""
    found: dict[str, Measure] = {}
    for name, value in block.items():
        ours, known = statistic(name), number(value)
        if ours is None:
            continue
        scaled = None if known is None else known * to.factor
        if to.ours:
            found[f"{to.ours}.{ours}"] = measure(scaled, to.unit, n)
        if to.speed and scaled and ours != "std":
            found[f"{to.speed}.{_SWAPPED.get(ours, ours)}"] = Measure(1 / scaled, SPEED_UNIT, n)
    return found


def throughput(rates: Mapping[str, Any], gpus: int, n: int | None = None) -> dict[str, Measure]:
    """Tokens per second by part (`total`, `input`, `output`) and per GPU, missing without a count of GPUs."""
    found: dict[str, Measure] = {}
    for part in PARTS:
        rate = number(rates.get(part))
        found[f"throughput.{part}"] = measure(rate, "tok/s", n)
        each = rate / gpus if rate is not None and gpus else None
        reason = "not reported" if rate is None else NO_GPUS
        found[f"throughput_per_gpu.{part}"] = measure(each, "tok/s/GPU", n, reason)
    return found


def withheld(measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """Measures without percentiles that their `n` does not carry."""
    found = dict(measures)
    for name, item in measures.items():
        share = name.rpartition(".p")[2]
        if item.value is None or item.n is None or not re.fullmatch(r"\d+(\.\d+)?", share):
            continue
        need = samples_needed(float(share))
        if item.n < need:
            reason = f"withheld: p{share} needs {need} samples, there are {item.n}"
            found[name] = Measure(None, item.unit, item.n, reason)
    return found
