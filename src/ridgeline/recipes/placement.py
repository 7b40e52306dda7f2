"""Where the workers of a cell run: ranks, nodes and GPUs of each, by role.

InferenceX writes a worker as tp, ep and dp-attn; how many ranks that means depends on how they relate:

- dp-attn with ep above tp (`tp: 1, ep: 8`): tp is the attention's width and ep spans the engine, so ep / tp ranks;
- dp-attn else (`tp: 8, ep: 8`): attention is data-parallel over the tp GPUs, one rank a GPU;
- as many workers as ranks, together as wide as ep (`num-worker: 2, tp: 16, ep: 32`): one engine whose ranks they are.

`PREFILL_NODES`, `DECODE_NODES` and `GPUS_PER_NODE` of `additional-settings` place them; other settings are not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.topology import Pool, Topology

MANY = 1 << 20  # GPUs of one node, where only their number matters


class Ranks(NamedTuple):
    """An engine's layout: `dp` ranks, each over `tp` x `pp` x `pcp` GPUs."""

    tp: int
    dp: int
    pp: int = 1
    pcp: int = 1
    dcp: int = 1
    expert_parallel: bool = False

    @property
    def gpus(self) -> int:
        return self.tp * self.dp * self.pp * self.pcp


class Seat(NamedTuple):
    """GPUs of one worker on one node."""

    node: int
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Worker:
    """One engine of a pool and where it sits, its first seat leading."""

    role: str
    index: int
    ranks: Ranks
    seats: tuple[Seat, ...]


def ranks_of(topology: Topology) -> Ranks:
    """The layout of one worker."""
    wide = topology.dp_attn and topology.ep > topology.tp * topology.pcp
    tp = topology.tp if wide or not topology.dp_attn else 1
    dp = topology.ep // (topology.tp * topology.pcp) if wide else topology.dp_ranks
    return Ranks(tp, dp, topology.pp, topology.pcp, topology.dcp, topology.ep > 1)


def place(cell: Cell, gpus_per_node: int) -> tuple[Worker, ...]:
    """Workers of a cell's pools, prefill first, on nodes counted from 0. Pools do not share nodes.

    Raises InputError for a pool that does not fit the nodes that its settings name.
    """
    workers: list[Worker] = []
    node = 0
    for pool in cell.arm.pools:
        found, node = _pool(cell, pool, node, gpus_per_node)
        workers += found
    return tuple(workers)


def occupied(cell: Cell) -> dict[str, int]:
    """GPUs a cell occupies, by role: those of its workers' ranks. A worker written as tp 1 with ep 8 has eight."""
    if cell.arm.topology is not None:
        return {"engine": cell.arm.topology.gpus}
    found: dict[str, int] = {}
    for worker in place(cell, MANY):
        found[worker.role] = found.get(worker.role, 0) + worker.ranks.gpus
    return found


def ranks_in(cell: Cell) -> int:
    """Data-parallel ranks of all workers of a cell: independent schedulers, each with its own KV pool."""
    if cell.arm.topology is not None:
        return ranks_of(cell.arm.topology).dp
    return sum(worker.ranks.dp for worker in place(cell, MANY))


def _pool(cell: Cell, pool: Pool, first: int, gpus_per_node: int) -> tuple[list[Worker], int]:
    if pool.workers == 0:
        return [], first
    ranks, count = ranks_of(pool.topology), pool.workers
    if ranks.dp == count > 1 and count * pool.topology.tp == pool.topology.ep:
        count = 1  # the workers are the ranks of one engine
    named = pool_settings(pool)
    per_node = named.get("GPUS_PER_NODE", gpus_per_node)
    together = max(1, per_node // ranks.gpus)  # workers that share a node
    apart = -(-ranks.gpus // per_node)  # nodes of one worker
    needed = count * apart if ranks.gpus > per_node else -(-count // together)
    nodes = named.get(f"{pool.role.upper()}_NODES", needed)
    if nodes < needed:
        message = (
            f"{count} x {ranks.gpus} GPUs need {needed} nodes of {per_node}, and {pool.role.upper()}_NODES says {nodes}"
        )
        raise InputError([Problem(message, cell.where, f"{pool.role}.additional-settings")])
    if nodes > needed:  # spread as far as the nodes go
        together = max(1, -(-count // nodes))
        apart = nodes // count if nodes >= count and ranks.gpus % (nodes // count) == 0 else apart
    workers = []
    for index in range(count):
        if apart > 1:
            width = -(-ranks.gpus // apart)
            seats = tuple(Seat(first + index * apart + k, tuple(range(width))) for k in range(apart))
        else:
            offset = index % together * ranks.gpus
            seats = (Seat(first + index // together, tuple(range(offset, offset + ranks.gpus))),)
        workers.append(Worker(pool.role, index, ranks, seats))
    return workers, first + nodes


def pool_settings(pool: Pool) -> Mapping[str, int]:
    """The whole-number settings of a pool, by name."""
    pairs = (setting.partition("=") for setting in pool.settings)
    return {name.strip(): int(value) for name, _, value in pairs if value.strip().isdecimal() and int(value) > 0}
