"""Student's t: distribution and quantile, for real degrees of freedom.

Hand-written because nothing else here needs scipy, whose import costs more than a whole comparison. In: t or a
probability, and degrees of freedom > 0. Out: the two-sided tail, or the quantile.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300


def two_sided(t: float, df: float) -> float:
    """P(|T| >= |t|) = I_x(df/2, 1/2) with x = df/(df + t^2) (DLMF 8.17)."""
    if math.isinf(t):
        return 0.0
    return _incomplete_beta(df / 2, 0.5, df / (df + t * t))


@lru_cache(4096)
def quantile(tail: float, df: float) -> float:
    """The t > 0 with P(|T| >= t) = `tail` (0 < tail < 1)."""
    low, high = 0.0, 1.0
    while two_sided(high, df) > tail:
        low, high = high, high * 2
        if high > 1e12:
            return math.inf
    # Regula falsi on the logarithm of the tail, the stale end halved (Illinois): a handful of steps.
    goal = math.log(tail)
    at_low, at_high = (math.log(max(two_sided(t, df), _TINY)) - goal for t in (low, high))
    for _ in range(60):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = math.log(max(two_sided(middle, df), _TINY)) - goal
        if abs(value) < 1e-13 or high - low < 1e-13 * high:
            return middle
        if value > 0:
            low, at_low, at_high = middle, value, at_high / 2
        else:
            high, at_high, at_low = middle, value, at_low / 2
    return middle


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function, by its continued fraction (DLMF 8.17.22) after Lentz."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b)) / a
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, 300):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            c = 1.0 + numerator / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return front * value


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
