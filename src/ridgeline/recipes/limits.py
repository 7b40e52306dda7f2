"""Limits that every recipe derives from the cell and its fleet: how much memory an engine may ask for, how many
sequences it admits, how long one may be, how many experts it must add so that they divide."""

from __future__ import annotations

from ridgeline.core.cell import Cell
from ridgeline.core.units import GIB
from ridgeline.engine.memory import roomy
from ridgeline.recipes.origin import Value, asked
from ridgeline.recipes.settings import Facts
from ridgeline.spec.facts.model import Experts, ModelArch

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


def memory_share(facts: Facts, most: Value[float]) -> Value[float]:
    """`most` of a GPU's memory, or less where the fleet's GPUs were seen to have less free when an engine starts."""
    free = facts.fleet.free_memory_gib if facts.fleet else None
    room = most.of if free is None else roomy(free, facts.gpu.memory_bytes / GIB)
    return most if most.of <= room else Value(room, facts.fleet.where if facts.fleet else None)


def redundant_experts(arch: ModelArch, ranks: int) -> int:
    """Experts to be held twice so that all of them divide over `ranks`; 0 where they do."""
    count = max((block.ffn.count for block in arch.blocks if isinstance(block.ffn, Experts)), default=0)
    return -count % ranks
