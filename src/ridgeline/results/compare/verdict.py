"""Better, same, worse or unclear: for every measure, every point, and the comparison as a whole.

In: estimates. Out: verdicts that keep one promise: two equal runs are called different in at most 5 % of comparisons,
however many points and measures they have. Each point and measure is one look; looks are corrected by Holm's method.
A shift that all points share is one more look a measure, and gets half of the 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from ridgeline.core.units import Better
from ridgeline.results.compare.estimate import Estimate
from ridgeline.results.compare.noise import COMMON
from ridgeline.results.compare.student import quantile, two_sided

ALPHA = 0.05
SHIFT_FROM = 3  # points from which a shared shift is looked at
LEAST_EFFECT = 0.001  # as ln(B/A): less than a thousandth is never worth a verdict
SAME_SHARE = 0.8  # of the judged points must be the same for the whole to be


class Verdict(StrEnum):
    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    UNCLEAR = "unclear"


class Judged(NamedTuple):
    """A verdict with the reason it is not another."""

    verdict: Verdict
    reason: str
    edge: bool = False  # unclear because it lies outside its own interval, not because that is wide


class Shift(NamedTuple):
    """What all points of a comparison have in common in one measure: mean of B/A - 1 with its interval."""

    measure: str
    change: float
    interval: tuple[float, float]
    points: int
    verdict: Verdict


Look = tuple[str, str]  # key of a pair, measure


def judge(
    looks: Mapping[Look, Estimate], better: Mapping[str, Better], *, alpha: float = ALPHA
) -> tuple[dict[Look, Judged], tuple[Shift, ...]]:
    """Verdict of every look, and the shared shifts. Looks with `why_not` are unclear and take no part."""
    judged = {look: item for look, item in looks.items() if item.why_not is None}
    shifts = _shifts(judged, better, alpha / 2)
    rejected = _holm({look: item.p for look, item in judged.items()}, alpha / 2 if shifts else alpha)
    found = {}
    for look, item in looks.items():
        if item.why_not is not None:
            found[look] = Judged(Verdict.UNCLEAR, f"not judged: {item.why_not}")
        elif look in rejected and abs(item.log_ratio) >= LEAST_EFFECT:
            found[look] = Judged(_direction(item.log_ratio, better[look[1]]), "beyond noise")
        else:
            found[look] = _same_or_unclear(item, len(judged))
    return found, shifts


def _direction(log_ratio: float, better: Better) -> Verdict:
    return Verdict.BETTER if (log_ratio > 0) == (better == "higher") else Verdict.WORSE


def margin(item: Estimate) -> float:
    """How large a difference may be and still not matter, as ln(B/A): twice the noise gate, at least 0.1 %."""
    return max(LEAST_EFFECT, 2 * item.noise.gate) if item.noise is not None else 0.1


def _same_or_unclear(item: Estimate, looks: int) -> Judged:
    half = quantile(ALPHA, item.df) * item.error if item.error > 0 else 0.0
    room = margin(item)
    # The gate of the stored model is two sigma by definition, whatever its degrees of freedom say.
    counted = min(half, item.noise.gate) if item.noise is not None and item.runs == (1, 1) else half
    if abs(item.log_ratio) + counted <= room * (1 + 1e-9):
        return Judged(Verdict.SAME, f"a difference, if any, is below {math.expm1(room):.1%}")
    if abs(item.log_ratio) > counted:
        many = f"beyond its own interval, but one of {looks} looks: equal runs do that too"
        return Judged(Verdict.UNCLEAR, many if looks > 1 else "at the edge of its interval", edge=True)
    return Judged(Verdict.UNCLEAR, f"the interval is wider than {math.expm1(room):.1%}: more repeats would settle it")


def _holm(p: Mapping[Look, float], alpha: float) -> set[Look]:
    """Looks whose p stays below alpha/(looks left), from the smallest on (Holm 1979)."""
    found = set()
    for rank, look in enumerate(sorted(p, key=lambda look: (p[look], look))):
        if p[look] > alpha / (len(p) - rank):
            break
        found.add(look)
    return found


def _shifts(judged: Mapping[Look, Estimate], better: Mapping[str, Better], alpha: float) -> tuple[Shift, ...]:
    groups: dict[str, list[Estimate]] = {}
    for (_, measure), item in judged.items():
        groups.setdefault(measure, []).append(item)
    groups = {measure: items for measure, items in groups.items() if len(items) >= SHIFT_FROM}
    found = []
    for measure, items in sorted(groups.items()):
        mean = sum(item.log_ratio for item in items) / len(items)
        # Half of the variance is common to the run and does not average out over its points.
        average = sum(item.error**2 for item in items) / len(items)
        error = math.sqrt(average * (COMMON + (1 - COMMON) / len(items)))
        df = min(item.df for item in items)
        p = two_sided(mean / error, df) if error > 0 else float(mean == 0)
        half = quantile(ALPHA, df) * error if error > 0 else 0.0
        beyond = p <= alpha / len(groups) and abs(mean) >= LEAST_EFFECT
        verdict = _direction(mean, better[measure]) if beyond else Verdict.SAME
        interval = (math.expm1(mean - half), math.expm1(mean + half))
        found.append(Shift(measure, math.expm1(mean), interval, len(items), verdict))
    return tuple(found)


def of_point(verdicts: Sequence[Verdict]) -> Verdict:
    """Of all judged measures of one point: worse wins, then better, then unclear."""
    for verdict in (Verdict.WORSE, Verdict.BETTER, Verdict.UNCLEAR):
        if verdict in verdicts:
            return verdict
    return Verdict.SAME if verdicts else Verdict.UNCLEAR


def expected_edges(points: int, measures: int) -> int:
    """How many of so many points may lie outside their own 95 % interval when nothing changed (upper 5 % limit of the
    binomial, by its normal approximation)."""
    share = 1 - (1 - ALPHA) ** max(1, measures)
    return math.floor(points * share + 1.645 * math.sqrt(points * share * (1 - share)))


def overall(points: Sequence[Verdict], shifts: Sequence[Shift], *, edges: int = 0, measures: int = 1) -> Judged:
    """The comparison as a whole: worse if anything is beyond noise for the worse, so that a gate can trust it.

    `edges`: unclear points that merely lie outside their own interval; as many as chance gives do not make the whole
    unclear. `measures`: judged a point.
    """
    counts = {verdict: sum(item is verdict for item in points) for verdict in Verdict}
    moved = {verdict: [s.measure for s in shifts if s.verdict is verdict] for verdict in Verdict}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "no matched points"
    if moved[Verdict.WORSE] or moved[Verdict.BETTER]:
        told += "; all points together: " + ", ".join(
            f"{shift.measure} {shift.change:+.1%}" for shift in shifts if shift.verdict is not Verdict.SAME
        )
    if counts[Verdict.WORSE] or moved[Verdict.WORSE]:
        mixed = " (mixed: some are better)" if counts[Verdict.BETTER] or moved[Verdict.BETTER] else ""
        return Judged(Verdict.WORSE, told + mixed)
    if counts[Verdict.BETTER] or moved[Verdict.BETTER]:
        return Judged(Verdict.BETTER, told)
    by_chance = edges if edges <= expected_edges(len(points), measures) else 0
    if not points or counts[Verdict.SAME] + by_chance < SAME_SHARE * len(points):
        return Judged(Verdict.UNCLEAR, told)
    if by_chance:
        told += f" ({edges} outside their own interval, as chance has it)"
    return Judged(Verdict.SAME, told)
