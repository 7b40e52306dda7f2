"""Power and cost at one speed a user sees: what each series gives there, what that costs, and what power it took.

In: the points of one chart, a speed (tokens per second a user), prices of GPU-hours. Out: rows of plain data, cheapest
first. Throughput at a speed is read off the frontier's line between knots and never beyond its ends; a price makes
dollars of that reading (the price of a million tokens is not read off a curve of its own, which would be wrong between
knots). Power is not interpolated: it is that of the measured point that holds the speed and gives most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ridgeline.core.point import Point, Validity
from ridgeline.publish.charts import axes, slots
from ridgeline.publish.charts.axes import axis_of
from ridgeline.results import interpolate
from ridgeline.results.cost import PriceSheet
from ridgeline.results.frontier import frontier

SPEEDS = (10.0, 20.0, 40.0, 60.0, 100.0)  # what people ask for, in tokens/s/user
PARTS = ("total", "output", "input")
_POWER = ("avg_power_w", "joules_per_output_token", "joules_per_total_token")
NO_POWER = "no power was recorded over the measured window"


class Line(NamedTuple):
    """One series' frontier in rising interactivity."""

    series: str
    points: tuple[Point, ...]
    xs: tuple[float, ...]


def speed_measure(points: Sequence[Point]) -> str | None:
    """The interactivity a chart of these points opens with."""
    offered = [key for key in axes.offered(points).x if key.startswith("interactivity.")]
    usual = axes.usual(points)["x"]
    return usual if usual in offered else next(iter(offered), None)


def lines(points: Sequence[Point], x: str) -> list[Line]:
    """Frontiers of total throughput over `x`, one a series."""
    at = {point.id: point for point in points}
    found = frontier(points, axis_of(x), axis_of("throughput_per_gpu.total"), mix_sources=True)
    made = []
    for series in found.series:
        knots = [at[id] for id in series.frontier]
        if knots:
            made.append(Line(series.key, tuple(knots), tuple(point.value(x) or 0.0 for point in knots)))
    return made


def usual_speed(of: Sequence[Line]) -> float:
    """The offered speed that most series span; the slowest one of those."""
    return max(SPEEDS, key=lambda speed: (sum(line.xs[0] <= speed <= line.xs[-1] for line in of), -speed))


def rows(points: Sequence[Point], x: str, speed: float, prices: PriceSheet | None) -> list[dict[str, Any]]:
    """What each series gives at `speed`; the cheapest first, then those without a price by throughput, then those that
    were not measured there."""
    drawn = {one.key: one for one in slots.shown(points)}
    made = [_row(line, drawn[line.series], speed, prices) for line in lines(points, x)]
    return sorted(made, key=_order)


def _row(line: Line, shown: slots.Shown, speed: float, prices: PriceSheet | None) -> dict[str, Any]:
    readings = {part: _throughput(line, part, speed) for part in PARTS}
    hardware = str(line.points[0].facts.get("hardware") or "")
    price = prices.gpu_hour(hardware) if prices else None
    best = next((point for point, at in zip(line.points, line.xs, strict=True) if at >= speed), None)
    return {
        "series": line.series,
        "name": shown.name,
        "slot": shown.slot,
        "source": shown.source,
        "span": (line.xs[0], line.xs[-1]),
        "throughput": {part: reading.value for part, reading in readings.items()},
        "why": readings["total"].reason or "",
        "price": price,
        "hardware": hardware,
        "dollars_per_million": {part: _dollars(reading.value, price) for part, reading in readings.items()},
        "point": _point(best),
    }


def _throughput(line: Line, part: str, speed: float) -> interpolate.Reading:
    key = f"throughput_per_gpu.{part}"
    knots = [(x, value) for x, p in zip(line.xs, line.points, strict=True) if (value := p.value(key)) is not None]
    if len(knots) < len(line.points):
        return interpolate.Reading(None, f"not every point has {part} throughput")
    return interpolate.read([x for x, _ in knots], [value for _, value in knots], speed)


def _dollars(throughput: float | None, price: float | None) -> float | None:
    """Dollars for a million tokens: price x 10^6 / (3600 x tokens/s/GPU)."""
    return price * 1e6 / (3600 * throughput) if price is not None and throughput else None


def _point(point: Point | None) -> dict[str, Any] | None:
    """The measured point that holds the speed: where it is, and what power it took."""
    if point is None:
        return None
    power: dict[str, Any] = {}
    for name in _POWER:
        measure = point.measures.get(f"power.{name}")
        power[name] = {
            "value": measure.value if measure else None,
            "why": (measure.reason if measure else None) or NO_POWER,
        }
    return {"id": point.id, "arm": str(point.facts.get("arm") or point.line), "c": point.concurrency, **power}


def _order(row: dict[str, Any]) -> tuple[bool, bool, float, str]:
    cost, speed = row["dollars_per_million"]["total"], row["throughput"]["total"]
    return speed is None, cost is None, cost if cost is not None else -(speed or 0.0), row["name"]


def with_power(points: Sequence[Point]) -> int:
    """How many points have a power that was measured."""
    return sum(
        point.validity is not Validity.INVALID and any(point.value(f"power.{name}") is not None for name in _POWER)
        for point in points
    )


def sentence(found: Sequence[dict[str, Any]], speed: float) -> str:
    """The landing answer, from measured series."""
    there = [row for row in found if row["source"] == "measured" and row["throughput"]["total"] is not None]
    priced = [row for row in there if row["dollars_per_million"]["total"] is not None]
    if priced:
        first = priced[0]
        return f"{first['name']} is cheapest: ${first['dollars_per_million']['total']:.3g} for a million tokens."
    if there:
        best = max(there, key=lambda row: row["throughput"]["total"])
        return f"{best['name']} gives most: {best['throughput']['total']:,.0f} tokens a second and GPU."
    if not found:
        return "Nothing was run here yet."
    if not any(row["source"] == "measured" for row in found):
        return "Nothing here was measured; what the table says of this speed is a statement about an engine model."
    return f"No measured series spans {speed:g} tokens per second a user."
