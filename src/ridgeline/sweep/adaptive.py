"""Cells to run for a budget: predicted points, their costs, and the planner that picks, before a run or during it.

The budget is a number of cells, GPU-hours (`12h`) or a share of running everything (`40%`); it is spent series by
series (same benchmark, scenario and speculation), in proportion to what running all of a series would cost.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import NamedTuple, Protocol

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Point, Validity
from ridgeline.plan.belief import Known
from ridgeline.plan.budget import Candidate, Choice, Planner, Seen
from ridgeline.recipes.placement import occupied
from ridgeline.sweep.groups import HasDeployment
from ridgeline.sweep.predict import Prediction
from ridgeline.sweep.times import Times

START_S = 600.0  # from an empty node to a warm engine, when nothing else is known
_X, _Y = "interactivity.p50", "throughput_per_gpu.total"

Told = Mapping[tuple[object, ...], Sequence[Known]]
_NOTHING: Told = {}


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


def picks(
    predictions: Sequence[Prediction],
    budget: Budget,
    measure: Callable[[Cell], Seen | None] | None = None,
    known: Told = _NOTHING,
) -> list[Pick]:
    """Cells in the order to run them. `measure` runs a cell and tells what was seen (None: it failed, and is not asked
    again); without it predictions are believed, which gives the plan before the first start. `known`: by series, what
    was measured of its engine before (sweep/told.py)."""
    members: list[tuple[Cell, Candidate, int]] = []
    for number, prediction in enumerate(predictions):
        point, engine = prediction.point, prediction.engine or prediction.cell.line
        found = candidate_of(prediction.cell, point, engine) if point is not None else None
        if found is not None:
            members.append((prediction.cell, found, number))
    spending = _Spending.of(members, budget, known)
    chosen: list[Pick] = []
    while (choice := spending.choice()) is not None:
        series, made = choice
        cell, expected = predictions[series.places[made.at][0]].cell, series.planner.expected(made.at)
        if measure is None:
            series.tell(made.at, expected)
        else:
            spending.settle(series, made, measure(cell))
        chosen.append(Pick(cell, made.gain, made.cost, expected))
    return chosen


@dataclass(slots=True)
class AdaptiveOrder:
    """The order of a sweep that picks its next cell from what was measured so far, series after series.

    `planned`: the cells, in the sweep's order; repeats of one cell are run after each other. `found`: what is stored of
    them already. It counts against the budget as if it had just been run, so that a sweep that is gone on with spends
    no more than one that was not interrupted. Cells without a prediction cannot be judged and are left out. `said`
    tells why a cell comes next. Results may come for cells that were not asked for: they teach all the same.
    """

    planned: Sequence[HasCell]
    predictions: Sequence[Prediction]
    budget: Budget
    times: Callable[[int], Times]  # of a cell by its place from 1, real seconds
    found: Mapping[int, Point | None] = field(default_factory=dict)  # None: scored
    known: Told = field(default_factory=dict)  # of each series' engine, from points measured before
    fits: Callable[[int, bool], bool] = lambda index, starts: True
    said: Callable[[int, str], None] = lambda index, text: None
    _spending: _Spending = field(init=False)
    _next: tuple[_Series, Choice] | None = field(default=None, init=False)
    _queue: list[int] = field(default_factory=list, init=False)  # of what was chosen last: its repeats
    _seen: list[Seen] = field(default_factory=list, init=False)  # of those that are done
    _tasks: list[int] = field(default_factory=list, init=False)  # what is scored comes last

    def __post_init__(self) -> None:
        by_name = {prediction.cell.name: prediction for prediction in self.predictions}
        repeats: dict[str, list[int]] = defaultdict(list)
        for at, item in enumerate(self.planned, 1):
            if not item.task:
                repeats[item.cell.name].append(at)
            elif at not in self.found:
                self._tasks.append(at)
        members: list[tuple[Cell, Candidate, int]] = []
        for name, own in repeats.items():
            prediction, cell = by_name.get(name), self.planned[own[0] - 1].cell
            if prediction is None or prediction.point is None:
                why = prediction.refusal if prediction else "unknown"
                self.said(own[0], f"left out, it cannot be predicted: {why}")
                continue
            times = self.times(own[0])
            digest = self.planned[own[0] - 1].deployment.digest
            candidate = candidate_of(cell, prediction.point, digest, times.start_s, times.cell_s)
            if candidate is None:
                self.said(own[0], "left out, too few answers were predicted to place it")
                continue
            candidate = replace(candidate, run_cost=candidate.run_cost * len(own))
            members += [(cell, candidate, at) for at in own]
        self._spending = _Spending.of(members, self.budget, self.known)
        for series in self._spending.series:
            for place, own in enumerate(series.places):
                if all(at in self.found for at in own):
                    self._spending.settle_stored(series, place, _together([self._stored(at) for at in own]))

    def next(self) -> int | None:
        while not self._queue and (choice := self._spending.choice(self._poor)) is not None:
            series, made = choice
            left = [at for at in series.places[made.at] if at not in self.found]
            if not self.fits(left[0], made.cost > made.candidate.run_cost):
                series.planner.exclude(made.at)
                continue
            self._next, self._queue = choice, left
            stored = [self._stored(at) for at in series.places[made.at] if at in self.found]
            self._seen = [seen for seen in stored if seen is not None]
            of = f" of {series.hours:.3g}" if math.isfinite(series.hours) else ""
            spent = f"{made.cost:.3g} GPU-hours; {series.planner.spent:.3g}{of} are spent"
            self.said(left[0], f"gain {made.gain:.1%} of the frontier, {spent}")
        if self._queue:
            return self._queue[0]
        while self._tasks and not self.fits(self._tasks[0], True):
            self._tasks.pop(0)
        return self._tasks[0] if self._tasks else None

    def _stored(self, at: int) -> Seen | None:
        point = self.found[at]
        return seen_of(point) if point is not None else None

    def _poor(self, series: _Series, cheapest: int) -> None:
        cost = series.planner.cost(cheapest)
        text = f"left out, with its start it costs {cost:.3g} GPU-hours and {series.left:.3g} are left"
        self.said(series.places[cheapest][0], text)

    def done(self, index: int, point: Point | None) -> None:
        seen = seen_of(point) if point is not None else None
        if index in self._tasks:
            self._tasks.remove(index)
        elif self._next is not None and index in self._queue:
            self._queue.remove(index)
            self._seen += [seen] if seen is not None else []
            if not self._queue:
                series, made = self._next
                self._next = None
                self._spending.settle(series, made, _together(self._seen))
        elif (found := self._spending.find(index)) is not None and found[1] not in found[0].planner.seen:
            self._spending.settle_stored(*found, seen)

    def failed(self, index: int) -> None:
        if index in self._tasks:
            self._tasks.remove(index)
        elif self._next is not None and index in self._queue:
            series, made = self._next
            self._next, self._queue = None, []
            self._spending.settle(series, made, _together(self._seen))  # repeats before it count
            series.planner.stopped()
        elif (found := self._spending.find(index)) is not None:
            found[0].planner.exclude(found[1])

    def drop(self, index: int) -> list[int]:
        """Others on the same deployment are left out; nothing is to be noted for them: nobody had chosen them."""
        digest = self.planned[index - 1].deployment.digest
        for series in self._spending.series:
            for place, own in enumerate(series.places):
                if index not in own and self.planned[own[0] - 1].deployment.digest == digest:
                    series.planner.exclude(place)
        return []


class HasCell(HasDeployment, Protocol):
    @property
    def cell(self) -> Cell: ...

    @property
    def task(self) -> str: ...


@dataclass(slots=True)
class _Series:
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
class _Spending:
    """A budget over several series: each has its share, and what one leaves the next may spend. What they spend
    together never passes the whole: shares follow costs, which an interrupted sweep may have learned better."""

    series: list[_Series]
    hours: float
    most: float
    _at: int = 0

    @classmethod
    def of(cls, members: Sequence[tuple[Cell, Candidate, int]], budget: Budget, known: Told) -> _Spending:
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
                _Series(
                    engine_of(first),
                    first.scenario.name,
                    Planner([candidate for _, candidate, _ in cells.values()], known=known.get(series_of(first), ())),
                    [places for _, _, places in cells.values()],
                    hours * budget.share if budget.share else budget.hours * share if budget.hours else math.inf,
                    budget.cells * share if budget.cells else math.inf,
                )
            )
        return cls(found, sum(series.hours for series in found), float(budget.cells or math.inf))

    def choice(
        self, poor: Callable[[_Series, int], None] = lambda series, cheapest: None
    ) -> tuple[_Series, Choice] | None:
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

    def settle(self, series: _Series, made: Choice, seen: Seen | None) -> None:
        """A choice was run: its series learns, and so do those of the same engine under other lengths."""
        series.tell(made.at, seen)
        self._share(series, made.at, seen)

    def settle_stored(self, series: _Series, place: int, seen: Seen | None) -> None:
        """A cell was run without having been chosen: before an interruption, or out of order."""
        arm = series.planner.candidates[place].arm
        started = any(series.planner.candidates[other].arm == arm for other in series.planner.seen)
        if started:
            series.planner.runs(place)
        series.tell(place, seen)
        series.planner.stopped()
        self._share(series, place, seen)

    def find(self, index: int) -> tuple[_Series, int] | None:
        """Where a cell of the sweep is."""
        for series in self.series:
            for place, own in enumerate(series.places):
                if index in own:
                    return series, place
        return None

    def _share(self, series: _Series, place: int, seen: Seen | None) -> None:
        if seen is None:
            return
        known = Known(
            series.planner.candidates[place].place._replace(lengths=series.lengths), *series.planner.error(place)
        )
        for other in self.series:
            if other is not series and other.engine == series.engine:
                other.planner.learn(known)


def _together(seen: Sequence[Seen | None]) -> Seen | None:
    """Repeats of one cell: their medians; None when none has values."""
    own = [one for one in seen if one is not None]
    return Seen(median(one.x for one in own), median(one.y for one in own)) if own else None


def seen_of(point: Point) -> Seen | None:
    """A point where the planner looks; None when it has no value there, or none that may be shown."""
    if point.validity is Validity.INVALID:
        return None
    x, y = point.value(_X), point.value(_Y)
    return Seen(x, y) if x and y and math.isfinite(x) and math.isfinite(y) and min(x, y) > 0 else None


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
