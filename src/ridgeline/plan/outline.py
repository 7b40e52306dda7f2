"""The outline of a plan: each cell once, with what will be done to it.

In: selected arms, runners, how evals are chosen. Out: `Planned` cells in order. Machines are not told apart here: a
node filter repeats rows, not cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.plan import rows as rows_
from ridgeline.plan.evals import EvalMode, mark
from ridgeline.plan.expand import arm_cells, named
from ridgeline.plan.select import Selected
from ridgeline.spec.runners import Runners


class Planned(NamedTuple):
    """A cell; whether its performance is measured, and whether an accuracy evaluation runs on it."""

    cell: Cell
    measured: bool
    evaluated: bool


def outline(arms: Iterable[Selected], runners: Runners | None, mode: EvalMode) -> tuple[Planned, ...]:
    """Planned cells of the arms. Raises `InputError` for missing hardware facts."""
    every_row: list[rows_.Row] = []
    every_cell: dict[Cell, bool] = {}
    parts = []
    for arm in arms:
        one = arm._replace(machines=arm.machines[:1])
        rows = rows_.rows_of([one], runners)
        every_row += rows
        parts.append((arm_cells(one, runners), rows))
    mark(every_row, mode)
    for cells, rows in parts:
        evaluated = {value for row in rows for value in _evaluated(row)}
        for cell in cells:
            every_cell[cell] = every_cell.get(cell, False) or cell.concurrency in evaluated
    measured = mode in (EvalMode.DEFAULT, EvalMode.NONE)
    planned = [Planned(cell, measured, every_cell[cell]) for cell in named(every_cell)]
    return tuple(item for item in planned if item.measured or item.evaluated)


def _evaluated(row: rows_.Row) -> list[int]:
    """Concurrencies of a row that are evaluated."""
    if not row.get("run-eval"):
        return []
    if row.get("eval-all-concs"):
        return list(row["conc"])
    return [row["eval-conc"] if "eval-conc" in row else row["conc"]]
