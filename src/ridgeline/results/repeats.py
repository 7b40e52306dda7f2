"""Repeats of one cell as one point: means over them, and how far they lie apart.

In: points, some of which measured the same cell (line, concurrency, series) several times in one run. Out: one point a
cell whose measures are means over its good repeats, with the lowest and highest value of each as its bar. Drawing every
repeat for itself would put the luckiest one on a frontier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ridgeline.core.point import Axis, Measure, Point, Validity

_GOOD = (Validity.VALID, Validity.UNPROVEN)


class Folded(NamedTuple):
    """`points`: one a cell, and every repeat that is not valid as it is; `bars`: id -> measure -> (lowest, highest)."""

    points: tuple[Point, ...]
    bars: Mapping[str, Mapping[str, tuple[float, float]]]

    def interval(self, point: Point, axis: Axis) -> tuple[float, float] | None:
        """The range of a point's repeats on an axis; None where there is one."""
        return self.bars.get(point.id, {}).get(axis.measure)


def folded(points: Iterable[Point]) -> Folded:
    """Points with their repeats put together, each where its first repeat was. The id is that of the first repeat;
    `facts.repeats` says how many."""
    cells: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        alone = () if point.validity in _GOOD else (point.id,)
        cells.setdefault((point.line, str(point.concurrency), point.series, *alone), []).append(point)
    found: list[Point] = []
    bars: dict[str, dict[str, tuple[float, float]]] = {}
    for repeats in cells.values():
        if len(repeats) == 1:
            found.append(repeats[0])
            continue
        first = repeats[0]
        values = {name: [v for p in repeats if (v := p.value(name)) is not None] for name in _names(repeats)}
        bars[first.id] = {name: (min(some), max(some)) for name, some in values.items() if len(some) > 1}
        measures = {name: _mean(name, repeats, some) for name, some in values.items()}
        cautions = {caution.code: caution for point in repeats for caution in point.cautions}
        unproven = any(point.validity is Validity.UNPROVEN for point in repeats)
        facts = {**first.facts, "repeats": len(repeats)}
        found.append(
            replace(
                first,
                measures=measures,
                facts=facts,
                cautions=tuple(cautions.values()),
                validity=Validity.UNPROVEN if unproven else Validity.VALID,
            )
        )
    return Folded(tuple(found), bars)


def _names(repeats: list[Point]) -> list[str]:
    return list(dict.fromkeys(name for point in repeats for name in point.measures))


def _mean(name: str, repeats: list[Point], values: list[float]) -> Measure:
    """The mean over repeats that have the measure, with all their samples; else why the first has none."""
    told = [point.measures[name] for point in repeats if name in point.measures]
    if not values:
        return told[0]
    counts = [measure.n for measure in told if measure.value is not None]
    n = None if any(count is None for count in counts) else sum(count or 0 for count in counts)
    return Measure(sum(values) / len(values), told[0].unit, n)
