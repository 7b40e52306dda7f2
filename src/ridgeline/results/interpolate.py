"""Reading a curve between its knots: monotone cubic, never outside what was measured.

In: knots in ascending x. Out: a value, or a reason why there is none. Interpolation never decides membership of a
frontier; it answers "how much throughput at 40 tokens per second a user".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Reading(NamedTuple):
    """A value read off a curve, or the reason why there is none."""

    value: float | None
    reason: str | None = None


def slopes(x: Sequence[float], y: Sequence[float]) -> list[float]:
    """Slope at every knot: Steffen's monotone rule inside, (3 secant - neighbour's slope)/2 at both ends.

    Source: M. Steffen, "A simple method for monotonic interpolation in one dimension", 1990; the ends are those of
    D3's monotone-x curve, so that a number read here lies on the line a browser draws. Two knots give a straight line.
    """
    secants = [(y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i in range(len(x) - 1)]
    if len(secants) == 1:
        return [secants[0], secants[0]]
    inner = []
    for i in range(1, len(x) - 1):
        left, right = secants[i - 1], secants[i]
        before, after = x[i] - x[i - 1], x[i + 1] - x[i]
        parabola = (left * after + right * before) / (before + after)
        inner.append((_sign(left) + _sign(right)) * min(abs(left), abs(right), 0.5 * abs(parabola)))
    return [(3 * secants[0] - inner[0]) / 2, *inner, (3 * secants[-1] - inner[-1]) / 2]


def read(x: Sequence[float], y: Sequence[float], at: float) -> Reading:
    """The curve's value at `at`. `x` must rise strictly; outside [x[0], x[-1]] there is a reason, not a number.

    Results below zero are clamped to zero: the end slopes may undershoot, and no metric of ours is negative.
    """
    if not x:
        return Reading(None, "the curve has no points")
    if not x[0] <= at <= x[-1]:
        return Reading(None, f"{at:g} is outside the measured range {x[0]:g} to {x[-1]:g}")
    if len(x) == 1:
        return Reading(float(y[0]))
    i = min(bisect_right(x, at) - 1, len(x) - 2)
    if at in (x[i], x[i + 1]):  # a knot reads exactly as measured
        return Reading(float(y[i] if at == x[i] else y[i + 1]))
    m, width = slopes(x, y), x[i + 1] - x[i]
    t = (at - x[i]) / width
    value = (
        (1 + 2 * t) * (1 - t) ** 2 * y[i]
        + t * (1 - t) ** 2 * width * m[i]
        + t * t * (3 - 2 * t) * y[i + 1]
        + t * t * (t - 1) * width * m[i + 1]
    )
    return Reading(max(0.0, value))


def _sign(value: float) -> int:
    return -1 if value < 0 else 1
