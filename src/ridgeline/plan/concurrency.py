"""Which concurrencies of an arm are run.

In: what a search-space entry says and the bounds of the filters. Out: a list; empty means the arm is left out. The
rules differ by kind of arm, as they do in InferenceX's generator (single-node ranges restart at the lower bound and
collapse to the upper bound, agentic arms never do): equal rows are what the exchange format promises.
"""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.spec.config import Space


def ladder(start: int, end: int, step: int) -> list[int]:
    """start, start*step, ... and always end, once: ladder(4, 100, 2) = 4 8 16 32 64 100."""
    values = []
    while start < end:
        values.append(start)
        start *= step
    return [*values, end]


def written(space: Space, step: int, *, list_wins: bool = False) -> list[int]:
    """The values of the entry without bounds. With `list_wins` an empty list beside a range means no values."""
    if space.conc_list or (list_wins and space.conc_list is not None):
        return list(space.conc_list)
    assert space.conc_range is not None, "validation guarantees a list or a range"
    return ladder(*space.conc_range, step)


def single_fixed(space: Space, step: int, low: int | None, high: int | None) -> list[int]:
    """Bounds of single-node fixed-seq-len arms. A bound of 0 or less leaves the arm out."""
    if (low is not None and low <= 0) or (high is not None and high <= 0):
        return []
    if space.conc_list:
        return _bounded(list(space.conc_list), low, high)
    assert space.conc_range is not None
    start, end = space.conc_range
    if low is not None:
        if end < low:
            return []
        start = max(start, low)
    if high is not None:
        if start > high:
            return [high]
        end = min(end, high)
    return ladder(start, end, step)


def multi_fixed(space: Space, step: int, low: int | None, high: int | None) -> list[int]:
    """Bounds of multi-node fixed-seq-len arms: the range is walked first, then cut."""
    if low is not None and low <= 0:
        return []
    return _bounded(written(space, step), low, high)


def agentic(space: Space, step: int, low: int | None, high: int | None) -> list[int]:
    """Bounds of agentic arms: plain cuts."""
    values = written(space, step)
    return [v for v in values if (low is None or v >= low) and (high is None or v <= high)]


def chosen(values: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The values that are wanted, in their own order; all when nothing is wanted in particular."""
    return [value for value in values if value in wanted] if wanted else list(values)


def _bounded(values: list[int], low: int | None, high: int | None) -> list[int]:
    """Keep low..high; a list wholly above `high` becomes [high]."""
    if low is not None:
        values = [value for value in values if value >= low]
    if high is None or not values:
        return values
    below = [value for value in values if value <= high]
    return below or ([high] if high > 0 else [])
