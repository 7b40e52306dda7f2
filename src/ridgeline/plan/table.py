"""A plan as text for people and as JSON data for programs.

In: arm plans. Out: text, or plain data in our own shape (`ridgeline-plan/1`). Prices are optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from ridgeline.core.cell import Cell, canonical
from ridgeline.plan.estimate import DEFAULTS, PHASES, ArmPlan, Assumptions, total

FORMAT = "ridgeline-plan/1"
Price = Callable[[str], float | None]  # runner -> US dollars per GPU-hour


def text(arms: Sequence[ArmPlan], price: Price | None = None, given: Assumptions = DEFAULTS) -> str:
    """The table: a heading for each benchmark, a line for each arm, totals."""
    if not arms:
        return "no cells: the filters let nothing through\n"
    lines: list[str] = []
    heading = None
    widths = (max(len(_arm_name(arm)) for arm in arms), max(len(arm.cells[0].cell.scenario.name) for arm in arms))
    for arm in arms:
        cell = arm.cells[0].cell
        if cell.benchmark != heading:
            heading = cell.benchmark
            lines += [
                "",
                f"{heading.key}",
                f"  {heading.model}, {heading.precision}, {heading.framework}, {heading.runner}",
            ]
        lines.append(_arm_line(arm, widths))
    return "\n".join([*lines[1:], "", *_totals(arms, price, given), ""])


def _arm_line(arm: ArmPlan, widths: tuple[int, int]) -> str:
    cell = arm.cells[0].cell
    evals = f"  evals {arm.evals}" if arm.evals else ""
    unit = "GPU " if arm.gpus == 1 else "GPUs"
    concurrencies = " ".join(str(item.cell.concurrency) for item in arm.cells)
    return (
        f"    {cell.scenario.name:<{widths[1]}}  {_arm_name(arm):<{widths[0]}}  {arm.gpus:>4} {unit}"
        f"  {arm.hours.total:>8.1f} GPU-h  {_count(len(arm.cells), 'cell'):>9}{evals}  c {concurrencies}"
    )


def _arm_name(arm: ArmPlan) -> str:
    return arm.cells[0].cell.line.rsplit("/", 1)[1]


def _totals(arms: Sequence[ArmPlan], price: Price | None, given: Assumptions) -> list[str]:
    hours = total(arms)
    cells, evals = sum(len(arm.cells) for arm in arms), sum(arm.evals for arm in arms)
    share = ", ".join(f"{phase} {getattr(hours, phase):.1f}" for phase in PHASES)
    most = max(arm.gpus for arm in arms)
    lines = [
        f"{_count(cells, 'cell')} in {_count(len(arms), 'arm')}, {_count(evals, 'eval')}; "
        f"largest arm {most} GPUs, longest {max(arm.wall_hours for arm in arms):.1f} h",
        f"estimated {hours.total:.1f} GPU-hours: {share}",
    ]
    money = _cost(arms, price)
    lines += [money] if money else []
    return [*lines, _assumed(given)]


def _cost(arms: Sequence[ArmPlan], price: Price | None) -> str | None:
    if price is None:
        return None
    known = [(arm.hours.total, price(arm.cells[0].cell.benchmark.runner)) for arm in arms]
    cost = sum(hours * dollars for hours, dollars in known if dollars is not None)
    without = sum(hours for hours, dollars in known if dollars is None)
    missing = f" (without {without:.1f} GPU-hours that have no price)" if without else ""
    return f"about {cost:.0f} US dollars{missing}"


def _assumed(given: Assumptions) -> str:
    return (
        "assumed, not learned: one engine start an arm "
        f"({given.allocation_s:g} s allocation, {given.image_s:g} s image, {given.load_s:g} s load or "
        f"{given.load_multi_node_s:g} s over several nodes); fixed sequences {given.requests_per_lane} requests a lane "
        f"at {given.decode_tokens_per_second:g} tokens/s; {given.eval_s:g} s an eval"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def data(arms: Sequence[ArmPlan], price: Price | None = None, given: Assumptions = DEFAULTS) -> dict[str, Any]:
    """The plan as JSON data: cells with names, fingerprints and places, arms with their hours, totals."""
    hours = total(arms)
    return {
        "format": FORMAT,
        "cells": [
            cell_data(item.cell) | {"measured": item.measured, "evaluated": item.evaluated}
            for arm in arms
            for item in arm.cells
        ],
        "arms": [
            {
                "name": arm.cells[0].cell.line,
                "gpus": arm.gpus,
                "concurrencies": [item.cell.concurrency for item in arm.cells],
                "evals": arm.evals,
                "gpu_hours": _hours(arm),
                "wall_hours": round(arm.wall_hours, 4),
                "usd_per_gpu_hour": price(arm.cells[0].cell.benchmark.runner) if price else None,
            }
            for arm in arms
        ],
        "totals": {
            "cells": sum(len(arm.cells) for arm in arms),
            "arms": len(arms),
            "evals": sum(arm.evals for arm in arms),
            "gpu_hours": {phase: round(getattr(hours, phase), 4) for phase in (*PHASES, "total")},
        },
        "assumptions": asdict(given),
    }


def _hours(arm: ArmPlan) -> dict[str, float]:
    return {phase: round(getattr(arm.hours, phase), 4) for phase in (*PHASES, "total")}


def cell_data(cell: Cell) -> dict[str, Any]:
    """One cell as JSON data; what is not set is left out."""
    body: dict[str, Any] = canonical(cell)
    return {
        "name": cell.name,
        "fingerprint": cell.fingerprint,
        "gpus": cell.gpus,
        "where": str(cell.where) if cell.where else None,
        **body,
    }
