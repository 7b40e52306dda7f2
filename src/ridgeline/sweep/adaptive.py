"""Cells to run for a budget: predicted points, their costs, and the planner that picks.

The budget is a number of cells, GPU-hours (`12h`) or a share of running everything (`40%`); it is spent series by
series (same benchmark, scenario and speculation), in proportion to what running all of a series would cost.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Point
from ridgeline.plan.budget import Candidate, Planner, Seen
from ridgeline.sweep.predict import Prediction

START_S = 600.0  # from an empty node to a warm engine, when nothing else is known
_X, _Y = "interactivity.p50", "throughput_per_gpu.total"


class Budget(NamedTuple):
    """What may be spent; one of the three is set."""

    cells: int | None = None
    hours: float | None = None
    share: float | None = None


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


def candidate_of(cell: Cell, point: Point, start_s: float = START_S) -> Candidate | None:
    """A predicted cell with its costs in GPU-hours; None when the prediction has no frontier values."""
    x, y = point.value(_X), point.value(_Y)
    topology = cell.arm.topology
    if not x or not y or topology is None:
        return None
    seconds = point.value("duration") or float(cell.scenario.duration_s or 600)
    gpus = topology.gpus
    arm = f"{cell.benchmark.key}/{cell.scenario.name}/{topology.label}/{cell.arm.spec_decoding}"
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
        planner.tell(index, seen or Seen(1e-9, 1e-9))
        chosen.append(Pick(cells[index], choice.gain, choice.cost, expected))
    return chosen


def _all_hours(candidates: Sequence[Candidate]) -> float:
    """GPU-hours of running everything, one start an arm."""
    starts = {candidate.arm: candidate.start_cost for candidate in candidates}
    return sum(candidate.run_cost for candidate in candidates) + sum(starts.values())
