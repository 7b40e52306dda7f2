"""Arms that pin their caps: every concurrency runs on the engine of the highest one.

Recipes derive caps (sequences, graphs) from a cell's concurrency, so each concurrency has an engine of its own. Pinned,
they share one start; the engine is another one than each alone would have, so cells, recipes and keys say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.spec.settings import Settings


def pinned(cells: Sequence[Cell], settings: Settings) -> tuple[Cell, ...]:
    """The cells, those of arms that share with their caps pinned. The highest concurrency is that of the arm's cells
    that are asked for here."""
    highest: dict[str, int] = {}
    for cell in cells:
        if any(fnmatchcase(cell.name, arm.cells) for arm in settings.arms):
            highest[cell.line] = max(highest.get(cell.line, 0), cell.concurrency)
    return tuple(
        replace(cell, arm=replace(cell.arm, pinned_caps=highest[cell.line]))
        if cell.line in highest and any(fnmatchcase(cell.name, arm.cells) for arm in settings.arms)
        else cell
        for cell in cells
    )


def as_capped(cell: Cell) -> Cell:
    """The cell that a recipe is asked for: at the concurrency whose caps it has."""
    return replace(cell, concurrency=cell.arm.pinned_caps) if cell.arm.pinned_caps else cell


def named(cell: Cell, deployment: Deployment) -> Deployment:
    """The deployment with what its recipe does differently, so that it has a digest of its own."""
    if cell.arm.pinned_caps is None:
        return deployment
    return replace(deployment, recipe=f"{deployment.recipe}, caps pinned at concurrency {cell.arm.pinned_caps}")
