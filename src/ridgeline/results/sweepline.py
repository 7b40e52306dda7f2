"""The arithmetic of dominance on arrays: no points, no names, no IO.

In: coordinates that are all "higher is better", a group number per row. Out: for every row its witness (the row that
dominates it) or -1. One sort and one running maximum, O(n log n) for any number of groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def witnesses(x: Floats, y: Floats, group: Ints) -> Ints:
    """Shape (n,): index of a row of the same group that dominates the row, -1 where there is none.

    q dominates p when q is at least as good on both axes and better on one; equal pairs do not dominate each other.
    The witness is the frontier row with the nearest better-or-equal x; of exact duplicates, any one.
    """
    n = len(x)
    if n == 0:
        return np.empty(0, dtype=np.int64)
    rank = _dense_rank(y)
    # Rows by group, falling x, falling y. One argsort of whole numbers is several times faster than a sort by three
    # keys; ranks keep the numbers below n * n.
    place = _dense_rank(group * np.int64(n) + (n - 1 - _dense_rank(x)))
    order = np.argsort(place * np.int64(n) + (n - 1 - rank))
    xs, ys = x[order], y[order]
    # By falling x, a row is dominated by whoever holds the best y so far. Ranks shifted by the group make one running
    # maximum restart at every group: a later group's ranks are above all of an earlier one's.
    best = np.maximum.accumulate(rank[order] + group[order] * np.int64(n))
    raised = np.empty(n, dtype=bool)
    raised[0] = True
    np.greater(best[1:], best[:-1], out=raised[1:])
    holder = np.maximum.accumulate(np.where(raised, np.arange(n), 0))
    equal = (xs[holder] == xs) & (ys[holder] == ys)
    result = np.empty(n, dtype=np.int64)
    result[order] = np.where(equal, -1, order[holder])
    return result


def clearly_dominated(x_low: Floats, x_high: Floats, y_low: Floats, y_high: Floats, group: Ints) -> NDArray[np.bool_]:
    """Shape (n,): True where a row of the same group beats the row beyond both error bars on both axes.

    q clearly dominates p when q's worst x and y are at least as good as p's best, and better on one. With bars of
    zero width this is plain dominance.
    """
    n = len(x_low)
    if n == 0:
        return np.empty(0, dtype=bool)
    # One dense rank over lows and highs keeps comparisons exact and makes (group, value) one integer key.
    x_rank = _dense_rank(np.concatenate((x_low, x_high)))
    y_rank = _dense_rank(np.concatenate((y_low, y_high)))
    span = np.int64(2 * n + 1)
    key_low = group * span + (span - 1 - x_rank[:n])  # rises by group, then by falling x
    order = np.argsort(key_low, kind="stable")
    keys = key_low[order]
    best = np.maximum.accumulate(y_rank[:n][order] + group[order] * span)
    key_high = group * span + (span - 1 - x_rank[n:])

    def best_before(side: str) -> Ints:
        """Best low y among rows of the group whose low x is >= (side right) or > (side left) the row's high x."""
        at = np.searchsorted(keys, key_high, side=side) - 1  # type: ignore[call-overload]
        found = np.where(at >= 0, best[at], -1)
        same = (at >= 0) & (found >= group * span)
        return np.where(same, found - group * span, -1)

    beats_x, ties_x = best_before("left"), best_before("right")
    return (beats_x >= y_rank[n:]) | (ties_x > y_rank[n:])


def hypervolume(x: Floats, y: Floats, reference: tuple[float, float]) -> float:
    """Area dominated by the rows above `reference` (both axes higher is better); 0.0 when no row is above it.

    The two-dimensional hypervolume indicator: the union of the rectangles between the reference and each row.
    """
    keep = (x > reference[0]) & (y > reference[1])
    if not keep.any():
        return 0.0
    order = np.lexsort((-y[keep], -x[keep]))
    xs, ys = x[keep][order], np.maximum.accumulate(y[keep][order])
    widths = xs - np.append(xs[1:], reference[0])
    return float(np.sum(widths * (ys - reference[1])))


def _dense_rank(values: Floats | Ints) -> Ints:
    """0 for the smallest value, equal values sharing a rank."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
