"""Which cells to run again, the cheapest first, and which one as a control.

In: judged pairs. Out: cells with the number of further repeats a side that would settle them and what that costs in
GPU-seconds. The control is a cell that did not move: when it moves with the others, node or day did it, not the change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.results.compare.estimate import LEAST, Estimate
from ridgeline.results.compare.match import Pair
from ridgeline.results.compare.student import quantile
from ridgeline.results.compare.verdict import ALPHA, Verdict, margin

MOST = 20  # repeats a side; beyond that other nodes or days are needed
SHOWN = 5


class Again(NamedTuple):
    """A cell to run `repeats` more times on each side. `gpu_seconds`: both sides together, None when the duration of a
    repeat is not known."""

    name: str
    repeats: int
    gpu_seconds: float | None
    why: str
    control: bool = False


class Candidate(NamedTuple):
    pair: Pair
    verdict: Verdict
    worst: Estimate | None  # the judged measure that is least clear


def plan(candidates: Sequence[Candidate]) -> tuple[Again, ...]:
    """Unclear cells and single-run regressions, the cheapest first, then the control."""
    found = []
    for item in candidates:
        few = min(len(item.pair.a), len(item.pair.b)) < LEAST
        if item.worst is None or not item.pair.b:
            continue
        if item.verdict is Verdict.UNCLEAR or (item.verdict is Verdict.WORSE and few):
            repeats = _needed(item.worst, len(item.pair.a), len(item.pair.b))
            why = "settles whether it changed" if item.verdict is Verdict.UNCLEAR else "a second look before red"
            if repeats > MOST:
                repeats, why = LEAST, "on another node or day: repeats here cannot settle it"
            found.append(Again(item.pair.name, repeats, _cost(item.pair, repeats), why))
    found.sort(key=lambda item: (item.gpu_seconds is None, item.gpu_seconds or 0.0, item.name))
    chosen = found[:SHOWN]
    if not chosen:
        return ()
    names = {item.name for item in chosen}
    steady = [c for c in candidates if c.pair.name not in names and c.pair.b and c.verdict is Verdict.SAME]
    others = [c for c in candidates if c.pair.name not in names and c.pair.b]
    repeats = max(1, min(item.repeats for item in chosen))
    for pool, why in (
        (steady, "control: it did not move; if it does now, node or day did it"),
        (others, "control: no cell stayed the same, so this one only shows node and day"),
    ):
        if pool:
            first = min(pool, key=lambda c: (_cost(c.pair, 1) is None, _cost(c.pair, 1) or 0.0, c.pair.name))
            return (*chosen, Again(first.pair.name, repeats, _cost(first.pair, repeats), why, control=True))
    return tuple(chosen)


def _needed(item: Estimate, a: int, b: int) -> int:
    """Further repeats a side until the interval is narrower than the difference, or than half of what matters."""
    if item.noise is None:
        return max(1, LEAST - min(a, b))
    aim = max(abs(item.log_ratio), margin(item) / 2)
    t = quantile(ALPHA, max(4.0, min(item.df, 60.0)))
    room = (aim / t) ** 2 - item.noise.between**2
    if room <= 0:
        return MOST + 1
    within = max(item.noise.within, _within(item))
    total = math.ceil(2 * within**2 / room)
    return max(1, LEAST - min(a, b), total - min(a, b))


def _within(item: Estimate) -> float:
    """Spread of one repeat as the estimate had it."""
    between = item.noise.between if item.noise else 0.0
    left = max(0.0, item.error**2 - between**2)
    return math.sqrt(left / (1 / item.runs[0] + 1 / item.runs[1]))


def _cost(pair: Pair, repeats: int) -> float | None:
    """GPU-seconds of `repeats` on both sides, by the durations measured."""
    total = 0.0
    for side in (pair.a, pair.b):
        seconds = [value for point in side for value in [point.value("duration")] if value is not None]
        if not seconds or not side[0].gpus:
            return None
        total += repeats * side[0].gpus * sum(seconds) / len(seconds)
    return total
