"""Cells to run for a budget: predicted points, their costs, and the planner that picks, before a run or during it.

The budget is a number of cells, GPU-hours (`12h`) or a share of running everything (`40%`); it is spent series by
series (same benchmark, scenario and speculation), in proportion to what running all of a series would cost.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Point
from ridgeline.plan.budget import Candidate, Choice, Planner, Seen
from ridgeline.recipes.placement import occupied
from ridgeline.sweep.groups import HasDeployment
from ridgeline.sweep.predict import Prediction
from ridgeline.sweep.times import Times

START_S = 600.0  # from an empty node to a warm engine, when nothing else is known
_X, _Y = "interactivity.p50", "throughput_per_gpu.total"


class Budget(NamedTuple):
    """What may be spent; at most one of the three is set."""

    cells: int | None = None
    hours: float | None = None
    share: float | None = None


def unlimited() -> Budget:
    """As much as adds anything."""
    return Budget()


class Pick(NamedTuple):
    """A chosen cell in the order to run: why, what it costs, and what is expected of it."""

    cell: Cell
    gain: float  # expected gain of the frontier, a share
    gpu_hours: float
    expected: Seen


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


def candidate_of(cell: Cell, point: Point, start_s: float = START_S, cell_s: float | None = None) -> Candidate | None:
    """A predicted cell with its costs in GPU-hours; None when the prediction has no frontier values. `cell_s`: how long
    it takes on a running engine; None: its predicted duration."""
    x, y = point.value(_X), point.value(_Y)
    if not x or not y:
        return None
    seconds = cell_s or point.value("duration") or float(cell.scenario.duration_s or 600)
    gpus = sum(occupied(cell).values())
    arm = f"{cell.benchmark.key}/{cell.scenario.name}/{cell.arm.label}"
    return Candidate(cell.name, arm, cell.concurrency, x, y, gpus * seconds / 3600, gpus * start_s / 3600)


def series_of(cell: Cell) -> tuple[object, ...]:
    """Cells that share a frontier."""
    benchmark = cell.benchmark
    return (benchmark.model, benchmark.precision, benchmark.framework, benchmark.runner, cell.scenario.name)


def picks(
    predictions: Sequence[Prediction], budget: Budget, measure: Callable[[Cell], Seen | None] | None = None
) -> list[Pick]:
    """Cells in the order to run them. `measure` runs a cell and tells what was seen (None: it failed, and is not asked
    again); without it predictions are believed, which gives the plan before the first start."""
    series: dict[tuple[object, ...], list[tuple[Cell, Candidate]]] = defaultdict(list)
    for prediction in predictions:
        if prediction.point is not None:
            found = candidate_of(prediction.cell, prediction.point)
            if found is not None:
                series[series_of(prediction.cell)].append((prediction.cell, found))
    whole = {name: _all_hours([candidate for _, candidate in own]) for name, own in series.items()}
    total = sum(whole.values())
    chosen: list[Pick] = []
    for name, own in series.items():
        limit = whole[name] * (budget.share or (budget.hours / total if budget.hours and total else 1.0))
        most = math.inf if budget.cells is None else max(1.0, budget.cells * whole[name] / total)
        chosen += _spend(own, limit, most, measure)
    if budget.cells is not None:
        chosen = sorted(chosen, key=lambda pick: -pick.gain)[: budget.cells]
    return chosen


def _spend(
    own: list[tuple[Cell, Candidate]], limit: float, most: float, measure: Callable[[Cell], Seen | None] | None
) -> list[Pick]:
    cells = [cell for cell, _ in own]
    planner = Planner([candidate for _, candidate in own])
    chosen: list[Pick] = []
    while len(chosen) < most and (choice := planner.best(limit - planner.spent)) is not None:
        index = planner.candidates.index(choice.candidate)
        expected = Seen(choice.candidate.x, choice.candidate.y)
        seen = measure(cells[index]) if measure else expected
        if seen is None:
            planner.exclude(index, choice.cost)
        else:
            planner.tell(index, seen)
        chosen.append(Pick(cells[index], choice.gain, choice.cost, expected))
    return chosen


@dataclass(slots=True)
class AdaptiveOrder:
    """The order of a sweep that picks its next cell from what was measured so far, series after series.

    `planned`: the cells, in the sweep's order; `found`: what is stored of them already, which costs nothing again.
    Cells without a prediction cannot be judged and are left out. `said` tells why a cell comes next.
    """

    planned: Sequence[HasCell]
    predictions: Sequence[Prediction]
    budget: Budget
    times: Callable[[int], Times]  # of a cell by its place from 1, real seconds
    found: Mapping[int, Point] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()  # evaluations that are stored
    fits: Callable[[int, bool], bool] = lambda index, starts: True
    said: Callable[[int, str], None] = lambda index, text: None
    _series: list[_Series] = field(init=False)
    _next: tuple[_Series, int, float] | None = field(default=None, init=False)
    _tasks: list[int] = field(default_factory=list, init=False)  # what is scored comes last

    def __post_init__(self) -> None:
        by_name = {prediction.cell.name: prediction for prediction in self.predictions}
        members: dict[tuple[object, ...], list[tuple[int, Candidate]]] = defaultdict(list)
        for at, item in enumerate(self.planned, 1):
            if item.task:
                self._tasks += [at] if at not in self.finished else []
                continue
            prediction = by_name.get(item.cell.name)
            if prediction is None or prediction.point is None:
                self.said(at, f"left out, it cannot be predicted: {prediction.refusal if prediction else 'unknown'}")
                continue
            times = self.times(at)
            candidate = candidate_of(item.cell, prediction.point, times.start_s, times.cell_s)
            if candidate is None:
                self.said(at, "left out, too few answers were predicted to place it")
            else:
                members[series_of(item.cell)].append((at, candidate))
        whole = {name: _all_hours([candidate for _, candidate in own]) for name, own in members.items()}
        total = sum(whole.values()) or 1.0
        self._series = []
        for name, own in members.items():
            hours = whole[name] * (self.budget.share or (self.budget.hours / total if self.budget.hours else math.inf))
            most = None if self.budget.cells is None else max(1, round(self.budget.cells * whole[name] / total))
            series = _Series(Planner([candidate for _, candidate in own]), [at for at, _ in own], hours, most)
            for place, at in enumerate(series.places):
                if at in self.found and (seen := seen_of(self.found[at])) is not None:
                    series.planner.know(place, seen)
            self._series.append(series)

    def next(self) -> int | None:
        while self._next is None and self._series:
            series = self._series[0]
            choice = series.best()
            if choice is None:
                self._series.pop(0)
                continue
            place = series.planner.candidates.index(choice.candidate)
            if not self.fits(series.places[place], choice.cost > choice.candidate.run_cost):
                series.planner.exclude(place)
                continue
            self._next = (series, place, choice.cost)
            self.said(
                series.places[place],
                f"gain {choice.gain:.1%} of the frontier, {choice.cost:.2f} GPU-hours; {series.planner.spent:.2f}",
            )
        if self._next is not None:
            return self._next[0].places[self._next[1]]
        while self._tasks and not self.fits(self._tasks[0], True):
            self._tasks.pop(0)
        return self._tasks[0] if self._tasks else None

    def done(self, index: int, point: Point | None) -> None:
        taken = self._taken(index)
        if taken is None:
            return
        series, place, cost = taken
        seen = seen_of(point) if point is not None else None
        if seen is None:
            series.planner.exclude(place, cost)
        else:
            series.planner.tell(place, seen)

    def failed(self, index: int) -> None:
        taken = self._taken(index)
        if taken is not None:
            series, place, cost = taken
            series.planner.exclude(place, cost)
            series.planner.stopped()

    def _taken(self, index: int) -> tuple[_Series, int, float] | None:
        """The choice under way, which has ended."""
        if index in self._tasks:
            self._tasks.remove(index)
        if self._next is None or self._next[0].places[self._next[1]] != index:
            return None
        taken, self._next = self._next, None
        taken[0].ran += 1
        return taken

    def drop(self, index: int) -> list[int]:
        """Others on the same deployment are left out; nothing is to be noted for them: nobody had chosen them."""
        digest = self.planned[index - 1].deployment.digest
        for series in self._series:
            for place, at in enumerate(series.places):
                if at != index and self.planned[at - 1].deployment.digest == digest:
                    series.planner.exclude(place)
        return []


class HasCell(HasDeployment, Protocol):
    @property
    def cell(self) -> Cell: ...

    @property
    def task(self) -> str: ...


@dataclass(slots=True)
class _Series:
    """Cells that share a frontier: their planner, their places in the sweep, and what may be spent on them."""

    planner: Planner
    places: list[int]
    hours: float
    most: int | None
    ran: int = 0

    def best(self) -> Choice | None:
        if self.most is not None and self.ran >= self.most:
            return None
        return self.planner.best(self.hours - self.planner.spent)


def seen_of(point: Point) -> Seen | None:
    """A measured point where the planner looks; None when it has no value there."""
    x, y = point.value(_X), point.value(_Y)
    return Seen(x, y) if x and y else None


def refined(cells: Sequence[Cell]) -> list[Cell]:
    """The cells and, between neighbouring concurrencies of a line, one in the middle (geometric): places where a knee
    may lie that the search space does not name. The planner decides whether they are worth their hours."""
    lines: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        lines[cell.line].append(cell)
    found: list[Cell] = []
    for own in lines.values():
        ordered = sorted(own, key=lambda cell: cell.concurrency)
        for low, high in itertools.pairwise(ordered):
            found.append(low)
            middle = round(math.sqrt(low.concurrency * high.concurrency))
            if low.concurrency < middle < high.concurrency:
                found.append(replace(low, concurrency=middle))
        found.append(ordered[-1])
    return found


def _all_hours(candidates: Sequence[Candidate]) -> float:
    """GPU-hours of running everything, one start an arm."""
    starts = {candidate.arm: candidate.start_cost for candidate in candidates}
    return sum(candidate.run_cost for candidate in candidates) + sum(starts.values())
