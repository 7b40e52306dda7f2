"""A budget over the series of a search space: what cells cost, which share a frontier, what is left for each.

In: predicted cells with the times they take, what was measured. Out: the next cell and the series it is of. The budget
is a number of cells, GPU-hours (`12h`) or a share of running everything (`40%`); it is spent series by series (same
benchmark and scenario), in proportion to what running all of a series would cost.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Point, Validity
from ridgeline.plan.belief import Known
from ridgeline.plan.budget import Candidate, Choice, Planner, Seen
from ridgeline.recipes.placement import occupied

START_S = 600.0  # from an empty node to a warm engine, when nothing else is known
_X, _Y = "interactivity.p50", "throughput_per_gpu.total"

Told = Mapping[tuple[object, ...], Sequence[Known]]  # by series, what was measured of its engine before


class Budget(NamedTuple):
    """What may be spent; at most one of the three is set."""

    cells: int | None = None
    hours: float | None = None
    share: float | None = None


def unlimited() -> Budget:
    """As much as adds anything."""
    return Budget()


def series_among(cells: Iterable[Cell]) -> dict[tuple[object, ...], Cell]:
    """The series of cells, with the first cell of each."""
    found: dict[tuple[object, ...], Cell] = {}
    for cell in cells:
        found.setdefault(series_of(cell), cell)
    return found


def parse_budget(text: str) -> Budget:
    """`20`, `12.5h` or `40%`. Raises InputError."""
    number, unit = text.strip(), ""
    if number[-1:] in ("h", "%"):
        number, unit = number[:-1], number[-1]
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0) or (not unit and value != int(value)):
        hint = "a number of cells (20), GPU-hours (12.5h), or a share of the whole (40%)"
        raise InputError([Problem(f"`{text}` is not understood", key="--budget", hint=hint)])
    if unit == "h":
        return Budget(hours=value)
    return Budget(share=value / 100) if unit == "%" else Budget(cells=int(value))


def candidate_of(
    cell: Cell, point: Point, engine: str, start_s: float = START_S, cell_s: float | None = None
) -> Candidate | None:
    """A predicted cell with its costs in GPU-hours; None when the prediction has no frontier values. `engine`: cells of
    one share its start. `cell_s`: how long it takes on a running engine; None: its predicted duration."""
    found = seen_of(point)
    if found is None:
        return None
    seconds = cell_s or point.value("duration") or float(cell.scenario.duration_s or 600)
    gpus = sum(occupied(cell).values())
    topologies = [cell.arm.topology] if cell.arm.topology else [pool.topology for pool in cell.arm.pools]
    return Candidate(
        cell.name, engine, cell.concurrency, *found, gpus * seconds / 3600, gpus * start_s / 3600,
        cell.arm.label, any(topology.dp_attn for topology in topologies),
    )  # fmt: skip


def engine_of(cell: Cell) -> tuple[object, ...]:
    """Series of one engine under other lengths err alike."""
    benchmark = cell.benchmark
    return (benchmark.model, benchmark.precision, benchmark.framework, benchmark.runner, cell.scenario.kind)


def series_of(cell: Cell) -> tuple[object, ...]:
    """Cells that share a frontier."""
    benchmark = cell.benchmark
    return (benchmark.model, benchmark.precision, benchmark.framework, benchmark.runner, cell.scenario.name)


def seen_of(point: Point) -> Seen | None:
    """A point where the planner looks; None when it has no value there, or none that may be shown."""
    if point.validity is Validity.INVALID:
        return None
    x, y = point.value(_X), point.value(_Y)
    return Seen(x, y) if x and y and math.isfinite(x) and math.isfinite(y) and min(x, y) > 0 else None


@dataclass(slots=True)
class Series:
    """Cells that share a frontier: their planner, their places in the sweep (all repeats), and what may be spent."""

    engine: tuple[object, ...]
    lengths: str
    planner: Planner
    places: list[list[int]]
    hours: float
    most: float  # cells
    ran: int = 0

    @property
    def left(self) -> float:
        """GPU-hours."""
        return self.hours - self.planner.spent

    def tell(self, place: int, seen: Seen | None) -> None:
        """A cell was run, or tried: then it is not asked for again and only its cost is learned."""
        self.ran += len(self.places[place])
        if seen is None:
            cost = self.planner.cost(place)
            self.planner.exclude(place, cost)
            self.planner.runs(place)
        else:
            self.planner.tell(place, seen)


@dataclass(slots=True)
class Spending:
    """A budget over several series: each has its share, and what one leaves the next may spend. What they spend
    together never passes the whole: shares follow costs, which an interrupted sweep may have learned better."""

    series: list[Series]
    hours: float
    most: float
    _at: int = 0

    @classmethod
    def of(cls, members: Sequence[tuple[Cell, Candidate, int]], budget: Budget, known: Told) -> Spending:
        """`members`: cells with their costs and their places in the sweep; repeats of one cell are one choice."""
        own: dict[tuple[object, ...], dict[str, tuple[Cell, Candidate, list[int]]]] = defaultdict(dict)
        for cell, candidate, at in members:
            own[series_of(cell)].setdefault(cell.name, (cell, candidate, []))[2].append(at)
        whole = [_all_hours([candidate for _, candidate, _ in cells.values()]) for cells in own.values()]
        total = sum(whole) or 1.0
        found = []
        for cells, hours in zip(own.values(), whole, strict=True):
            first = next(iter(cells.values()))[0]
            share = hours / total
            found.append(
                Series(
                    engine_of(first),
                    f"{first.scenario.isl}/{first.scenario.osl}" if first.scenario.isl else first.scenario.name,
                    Planner([candidate for _, candidate, _ in cells.values()], known=known.get(series_of(first), ())),
                    [places for _, _, places in cells.values()],
                    hours * budget.share if budget.share else budget.hours * share if budget.hours else math.inf,
                    budget.cells * share if budget.cells else math.inf,
                )
            )
        return cls(found, sum(series.hours for series in found), float(budget.cells or math.inf))

    def choice(
        self, poor: Callable[[Series, int], None] = lambda series, cheapest: None
    ) -> tuple[Series, Choice] | None:
        """What to run next and for which series; None when nothing is worth it or can be paid. `poor` is told of a
        series whose cheapest cell cannot be paid."""
        while self._at < len(self.series):
            series = self.series[self._at]
            planner = series.planner
            left = min(series.left, self.hours - sum(each.planner.spent for each in self.series))
            cells = min(series.most - series.ran, self.most - sum(each.ran for each in self.series)) + 1e-9
            made = planner.best(left) if cells >= 1 else None
            if made is not None and len(series.places[made.at]) <= cells:
                return series, made
            if not planner.seen and not planner.excluded and math.isfinite(series.hours):
                cheapest = min(range(len(series.places)), key=planner.cost)
                if planner.cost(cheapest) > left:
                    poor(series, cheapest)
            self._at += 1
            if self._at < len(self.series):
                self.series[self._at].hours += max(0.0, series.left)
                self.series[self._at].most += max(0.0, series.most - series.ran)
        return None

    def settle(self, series: Series, made: Choice, seen: Seen | None) -> None:
        """A choice was run: its series learns, and so do those of the same engine under other lengths."""
        series.tell(made.at, seen)
        self._share(series, made.at, seen)

    def settle_stored(self, series: Series, place: int, seen: Seen | None) -> None:
        """A cell was run without having been chosen: before an interruption, or out of order."""
        arm = series.planner.candidates[place].arm
        started = any(series.planner.candidates[other].arm == arm for other in series.planner.seen)
        if started:
            series.planner.runs(place)
        series.tell(place, seen)
        series.planner.stopped()
        self._share(series, place, seen)

    def find(self, index: int) -> tuple[Series, int] | None:
        """Where a cell of the sweep is."""
        for series in self.series:
            for place, own in enumerate(series.places):
                if index in own:
                    return series, place
        return None

    def _share(self, series: Series, place: int, seen: Seen | None) -> None:
        if seen is None:
            return
        known = Known(
            series.planner.candidates[place].place._replace(lengths=series.lengths), *series.planner.error(place)
        )
        for other in self.series:
            if other is not series and other.engine == series.engine:
                other.planner.learn(known)


def together(seen: Sequence[Seen | None]) -> Seen | None:
    """Repeats of one cell: their medians; None when none has values."""
    own = [one for one in seen if one is not None]
    return Seen(median(one.x for one in own), median(one.y for one in own)) if own else None


def _all_hours(candidates: Sequence[Candidate]) -> float:
    """GPU-hours of running everything, one start an arm."""
    starts = {candidate.arm: candidate.start_cost for candidate in candidates}
    return sum(candidate.run_cost for candidate in candidates) + sum(starts.values())
