"""Limits that every recipe derives from the cell: how many sequences an engine admits, how long one may be."""

from __future__ import annotations

from ridgeline.core.cell import Cell
from ridgeline.recipes.origin import Value, asked
from ridgeline.spec.facts.model import ModelArch

HEADROOM = 256  # tokens a chat template and special tokens may add to a fixed-length prompt


def context(cell: Cell, arch: ModelArch) -> Value[int]:
    """Agentic sessions must fit as they were recorded: the model's native length. Fixed lengths need only their own."""
    if cell.scenario.kind == "agentic-coding":
        return asked(arch.max_len, cell)
    isl, osl = cell.scenario.isl or 0, cell.scenario.osl or 0
    return asked(min(arch.max_len, isl + osl + HEADROOM), cell)


def admitted(cell: Cell) -> int:
    """Sequences in flight at most: a lane of an agentic session runs subagents beside it, so twice the concurrency;
    a fixed-length lane holds one request."""
    return 2 * cell.concurrency if cell.scenario.kind == "agentic-coding" else cell.concurrency


def per_rank(total: int, ranks: int) -> int:
    """An even share of `total` over `ranks`, rounded up."""
    return -(-total // ranks)
