"""What repeats of an equal measurement differ by: the stored noise model.

In: what kind of point and measure it is. Out: the standard deviation of the difference of two single runs (relative),
how many degrees of freedom stand behind it, and where it comes from. It is used where a comparison has too few repeats
of its own, and then said so. Figures: design/gate-statistics.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ridgeline.core.point import Point, Source

VERSION = 1
# Share of the variance that all points of one run have in common (node, day, clocks): it does not average out over
# repeats in one run.
COMMON = 0.5


class Noise(NamedTuple):
    """`sigma`: standard deviation of ln(b/a) of two single runs. `gate`: twice that. `source`: in words."""

    sigma: float
    df: float
    source: str

    @property
    def gate(self) -> float:
        return 2 * self.sigma

    @property
    def within(self) -> float:
        """Standard deviation of one run of a pair, without what the run has in common."""
        return self.sigma * math.sqrt((1 - COMMON) / 2)

    @property
    def between(self) -> float:
        """Standard deviation of the difference that any number of repeats inside two runs leaves."""
        return self.sigma * math.sqrt(COMMON)


_PAIRS = "stored noise model: pairs of equal fixed-sequence runs at most three days apart (InferenceX, 646 pairs)"
_MI355X = "stored noise model: pairs of equal fixed-sequence runs on MI355X, three times as far apart as elsewhere"
_AGENTIC = "stored noise model: attempts of equal agentic runs (InferenceX, few pairs)"
# kind -> family -> (2-sigma gate, degrees of freedom, source)
_MODEL = {
    "fixed": {"throughput": (0.015, 60, _PAIRS), "itl": (0.012, 60, _PAIRS), "ttft": (0.08, 60, _PAIRS)},
    "fixed-mi355x": {"throughput": (0.045, 30, _MI355X), "itl": (0.036, 30, _MI355X), "ttft": (0.08, 30, _MI355X)},
    # So few pairs that the spread behind these gates may be half as large again: five degrees of freedom keep the
    # promise of the gate under that spread too.
    "agentic": {"throughput": (0.05, 5, _AGENTIC), "itl": (0.10, 5, _AGENTIC)},
}
_FAMILIES = {
    "throughput": ("throughput", "throughput_per_gpu", "throughput_steady", "throughput_per_gpu_steady", "request_rate",
                   "tokens_per_dollar", "dollars_per_million", "tokens_per_joule"),
    "itl": ("itl", "tpot", "interactivity"),
    "ttft": ("ttft", "ttfb", "ttft_visible"),
}  # fmt: skip
_CENTRAL = ("", "mean", "p50", "total", "input", "output")
EXACT = Noise(0.0, 1e9, "virtual time: a prediction has no noise, every difference is the model's")


def family(measure: str) -> str | None:
    """`throughput`, `itl` or `ttft`, None for a measure whose noise nobody wrote down."""
    metric = measure.partition(".")[0]
    return next((name for name, metrics in _FAMILIES.items() if metric in metrics), None)


def kind(point: Point) -> str:
    """Which part of the model is a point's."""
    if point.facts.get("scenario") == "agentic-coding":
        return "agentic"
    return "fixed-mi355x" if "mi355x" in str(point.facts.get("hardware", "")).lower() else "fixed"


def of(point: Point, measure: str) -> Noise | str:
    """The noise of a measure, or why there is no figure for it."""
    if point.source is Source.PREDICTED:
        return EXACT
    group, statistic = family(measure), measure.partition(".")[2]
    if group is None:
        return f"no noise figure is stored for {measure}"
    place = kind(point)
    if group not in _MODEL[place]:
        return "median TTFT of a single agentic run varies by a third: one run each decides nothing"
    if statistic not in _CENTRAL and not (place == "agentic" and statistic in ("p75", "p90")):
        return f"no noise figure is stored for the tail ({statistic}): measure repeats"
    if place == "agentic" and group == "itl" and statistic in ("p75", "p90"):
        gate, df, source = _MODEL[place][group]
        return Noise(gate / 2, df, f"{source}; the median's figure stands for {statistic}")
    gate, df, source = _MODEL[place][group]
    return Noise(gate / 2, df, source)
