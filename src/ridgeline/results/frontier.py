"""The frontier: which points nobody beats, who beats the others, and what is not plotted and why.

In: points and two axes with directions. Out: one `Frontier`, the same for command line, report, interface, gate and
chart. Membership is by point id. A missing value excludes a point and is counted; it is never read as zero. Nothing
is interpolated here (`Series.read` in plane.py reads a curve between its knots).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ridgeline.core.errors import InputError
from ridgeline.core.point import Axis, Point, Source, Validity
from ridgeline.results import sweepline
from ridgeline.results.plane import Plane, Series, sign, solve


class Exclusion(NamedTuple):
    """A point that is not plotted. `code`: missing, not-finite, invalid, degraded, failed or other-source."""

    id: str
    name: str
    code: str
    reason: str


@dataclass(frozen=True)
class Frontier:
    """Frontiers of every group, and the points that take no part. Series come in the order of their keys."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    excluded: tuple[Exclusion, ...]
    sources: tuple[Source, ...]

    @cached_property
    def members(self) -> frozenset[str]:
        """Ids on a frontier."""
        return frozenset(id for series in self.series for id in series.frontier)

    @cached_property
    def dominated_by(self) -> dict[str, str]:
        """Id of every dominated point -> id of its witness."""
        return {id: by for series in self.series for id, by in series.dominated_by.items()}

    @property
    def excluded_counts(self) -> dict[str, int]:
        """How many points are not plotted, by code."""
        counts: dict[str, int] = {}
        for item in self.excluded:
            counts[item.code] = counts.get(item.code, 0) + 1
        return counts

    def hypervolume(self, key: str, reference: tuple[float, float]) -> float:
        """Area between the frontier of `key` and a declared reference point, in units of x times y.

        One number that a regression can be read from, comparable only under the same axes and reference.
        Raises KeyError for an unknown key.
        """
        series = next((series for series in self.series if series.key == key), None)
        if series is None:
            raise KeyError(key)
        sx, sy = sign(self.x), sign(self.y)
        x = np.array([knot.x for knot in series.knots], dtype=np.float64)
        y = np.array([knot.y for knot in series.knots], dtype=np.float64)
        return sweepline.hypervolume(sx * x, sy * y, (sx * reference[0], sy * reference[1]))

    def to_json(self) -> dict[str, Any]:
        """Plain data: axes, series with frontier, dominated and within-noise ids, excluded with reasons."""
        axes = {
            name: {"measure": axis.measure, "unit": axis.unit, "better": axis.better}
            for name, axis in (("x", self.x), ("y", self.y))
        }
        series = [
            {
                "key": item.key,
                "sources": [str(source) for source in item.sources],
                "frontier": [{"id": knot.id, "x": knot.x, "y": knot.y} for knot in item.knots],
                "dominated": [
                    {
                        "id": id,
                        "by": by,
                        "on": "north star" if id in item.off_north_star else "axes",
                        "within_noise": id in item.within_noise,
                    }
                    for id, by in item.dominated_by.items()
                ],
            }
            for item in self.series
        ]
        return {"axes": axes, "series": series, "excluded": [item._asdict() for item in self.excluded]}


Interval = Callable[[Point, Axis], tuple[float, float] | None]


def frontier(
    points: Iterable[Point],
    x: Axis,
    y: Axis,
    *,
    group: Callable[[Point], Hashable] = lambda point: point.series,
    epsilon: float | tuple[float, float] = 0.0,
    interval: Interval | None = None,
    north_star: Axis | None = None,
    source: Source | None = None,
    mix_sources: bool = False,
    failed: Sequence[Exclusion] = (),
) -> Frontier:
    """Frontiers of `points` on the axes `x` and `y`, one for each value of `group`.

    A point is dominated when another of its group is at least as good on both axes and better on one; exact
    duplicates are all kept. Valid and unproven points take part; invalid, degraded, missing and non-finite ones are
    excluded with their reason, and `failed` cells are listed beside them.

    `epsilon`: relative half width of the error bars (for both axes, or one each): dominated points that nobody
    beats beyond both bars are also listed in `within_noise`. `interval(point, axis)` may give absolute (low, high)
    instead where repeats exist; None falls back to epsilon. Membership itself never depends on noise.

    `north_star`: a second x axis for agentic points, whose decode speed alone hides queueing. An agentic point then
    stays on the drawn frontier only if it is on the frontier of (north_star, y) as well; other points are untouched.

    Points of several sources are refused unless one is chosen with `source` (the others are excluded) or
    `mix_sources` is set (every series then names its sources).

    Raises InputError for an axis without direction, mixed sources, and two different points under one id.
    """
    for name, axis in (("x", x), ("y", y), ("north star", north_star)):
        if axis is not None and axis.better is None:
            raise InputError(
                f"`{axis.measure}` has no better direction, so there is no frontier on it ({name} axis)",
                hint="plot it over concurrency, or choose a metric with a direction (docs/reference/metrics.md)",
            )
    unique = _unique(points)
    chosen, excluded = _admit(unique, source)
    sources = tuple(sorted({point.source for point in chosen}))
    if len(sources) > 1 and not mix_sources:
        raise InputError(
            f"points are {' and '.join(sources)}; a frontier does not mix sources unasked",
            hint="choose one source, or ask for all of them to be shown with their labels",
        )
    kept, columns, missing = _values(chosen, [x.measure, y.measure])
    if north_star is not None:
        kept, columns, gone = _with_north(kept, columns, x, north_star)
        missing += gone
    plane = Plane(
        [point.id for point in kept], [str(group(point)) for point in kept], [point.source for point in kept], *columns
    )
    wide = epsilon if isinstance(epsilon, tuple) else (epsilon, epsilon)
    bars = None
    if interval is not None or any(wide):
        bars = (*_bars(kept, x, plane.x, wide[0], interval), *_bars(kept, y, plane.y, wide[1], interval))
    order = sorted([*excluded, *missing], key=lambda item: item.id)
    series = solve(plane, x, y, north_star=north_star, bars=bars)
    return Frontier(x=x, y=y, series=series, excluded=(*order, *failed), sources=sources)


def _unique(points: Iterable[Point]) -> list[Point]:
    """Points by id; one given twice counts once. Raises InputError when one id names two different points."""
    listed = list(points)
    if len({point.id for point in listed}) == len(listed):
        return listed
    found = {point.id: point for point in listed}
    clash = sorted({point.id for point in listed if point != found[point.id]})
    if clash:
        raise InputError(f"{len(clash)} ids name two different points: {', '.join(clash[:3])}")
    return list(found.values())


def _admit(points: list[Point], source: Source | None) -> tuple[list[Point], list[Exclusion]]:
    def why_not(point: Point) -> Exclusion | None:
        if source is not None and point.source is not source:
            return Exclusion(point.id, point.name, "other-source", f"{point.source}, not {source}")
        if point.validity in (Validity.VALID, Validity.UNPROVEN):
            return None
        reason = "; ".join(point.reasons) or "no reason was recorded"
        return Exclusion(point.id, point.name, str(point.validity), reason)

    excluded = [item for item in map(why_not, points) if item is not None]
    out = {item.id for item in excluded}
    return [point for point in points if point.id not in out] if out else points, excluded


def _values(points: list[Point], names: list[str]) -> tuple[list[Point], list[sweepline.Floats], list[Exclusion]]:
    """Points that have every named measure, their values, and the exclusions of the others."""
    columns = []
    for name in names:
        found = [point.measures.get(name) for point in points]
        values = [math.nan if measure is None or measure.value is None else measure.value for measure in found]
        columns.append(np.array(values, dtype=np.float64))
    if not points:
        return [], columns, []
    bad = ~np.isfinite(np.stack(columns)).all(axis=0)
    missing = [_why_missing(points[i], names) for i in np.flatnonzero(bad)]
    good = np.flatnonzero(~bad)
    kept = points if len(good) == len(points) else [points[i] for i in good]
    return kept, [column[good] for column in columns], missing


def _with_north(
    points: list[Point], columns: list[sweepline.Floats], x: Axis, north: Axis
) -> tuple[list[Point], list[sweepline.Floats], list[Exclusion]]:
    """The north star beside x and y. Points that are not agentic repeat their x there, which decides nothing."""
    agentic = np.array([point.facts.get("scenario") == "agentic-coding" for point in points], dtype=bool)
    found = [point.value(north.measure) for point in points]
    star = np.array([math.nan if value is None else value for value in found], dtype=np.float64)
    star = np.where(agentic, star, sign(x) * sign(north) * columns[0])
    good = np.flatnonzero(np.isfinite(star))
    gone = [_why_missing(points[i], [north.measure]) for i in np.flatnonzero(~np.isfinite(star))]
    return [points[i] for i in good], [column[good] for column in (*columns, star)], gone


def _why_missing(point: Point, names: list[str]) -> Exclusion:
    for name in names:
        measure = point.measures.get(name)
        if measure is None:
            return Exclusion(point.id, point.name, "missing", f"no {name}: not measured")
        if measure.value is None:
            return Exclusion(point.id, point.name, "missing", f"no {name}: {measure.reason}")
        if not math.isfinite(measure.value):
            return Exclusion(point.id, point.name, "not-finite", f"{name} is {measure.value}")
    raise AssertionError("called for a point that has every value")


def _bars(
    points: list[Point], axis: Axis, values: sweepline.Floats, epsilon: float, interval: Interval | None
) -> tuple[sweepline.Floats, sweepline.Floats]:
    """(low, high) of every value in "higher is better" orientation."""
    half = np.abs(values) * epsilon
    low, high = values - half, values + half
    if interval is not None:
        for i, point in enumerate(points):
            bar = interval(point, axis)
            if bar is not None:
                low[i], high[i] = bar
    return (low, high) if sign(axis) > 0 else (-high, -low)
