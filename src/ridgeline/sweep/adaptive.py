"""Cells to run for a budget, before a sweep or during it: the planner picks, the sweep measures, the planner learns."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from ridgeline.core.cell import Cell
from ridgeline.core.point import Point
from ridgeline.plan.budget import Candidate, Choice, Seen
from ridgeline.sweep.groups import HasDeployment
from ridgeline.sweep.predict import Prediction
from ridgeline.sweep.spending import Budget, Series, Spending, Told, candidate_of, seen_of, together
from ridgeline.sweep.times import Times

_NOTHING: Told = {}


class Pick(NamedTuple):
    """A chosen cell in the order to run: why, what it costs, and what is expected of it."""

    cell: Cell
    gain: float  # expected gain of the frontier, a share
    gpu_hours: float
    expected: Seen


def picks(
    predictions: Sequence[Prediction],
    budget: Budget,
    known: Told = _NOTHING,
    poor: Callable[[Cell, float, float], None] = lambda cell, cost, left: None,
) -> list[Pick]:
    """The plan before the first start: cells in the order to run them, predictions being believed as far as `known`
    (by series, what was measured of its engine before: sweep/told.py) does not correct them. `poor` is told of the
    cheapest cell of a series that cannot pay for any: its GPU-hours, and those that are left."""
    members: list[tuple[Cell, Candidate, int]] = []
    for number, prediction in enumerate(predictions):
        point, engine = prediction.point, prediction.engine or prediction.cell.line
        found = candidate_of(prediction.cell, point, engine) if point is not None else None
        if found is not None:
            members.append((prediction.cell, found, number))
    spending = Spending.of(members, budget, known)
    chosen: list[Pick] = []

    def told(series: Series, cheapest: int) -> None:
        poor(predictions[series.places[cheapest][0]].cell, series.planner.cost(cheapest), series.left)

    while (choice := spending.choice(told)) is not None:
        series, made = choice
        expected = series.planner.expected(made.at)
        series.tell(made.at, expected)
        chosen.append(Pick(predictions[series.places[made.at][0]].cell, made.gain, made.cost, expected))
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
    _spending: Spending = field(init=False)
    _next: tuple[Series, Choice] | None = field(default=None, init=False)
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
        self._spending = Spending.of(members, self.budget, self.known)
        for series in self._spending.series:
            for place, own in enumerate(series.places):
                if all(at in self.found for at in own):
                    self._spending.settle_stored(series, place, together([self._stored(at) for at in own]))

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

    def _poor(self, series: Series, cheapest: int) -> None:
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
                self._spending.settle(series, made, together(self._seen))
        elif (found := self._spending.find(index)) is not None and found[1] not in found[0].planner.seen:
            self._spending.settle_stored(*found, seen)

    def failed(self, index: int) -> None:
        if index in self._tasks:
            self._tasks.remove(index)
        elif self._next is not None and index in self._queue:
            series, made = self._next
            self._next, self._queue = None, []
            self._spending.settle(series, made, together(self._seen))  # repeats before it count
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
