"""Cells: what Ridgeline itself runs, predicts and checks.

In: configs, runners (only needed where host memory for KV must be worked out), filters. Out: cells in row order, with
unique names and the place of their search-space entry. A point that is written twice is one cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario, canonical, digest
from ridgeline.core.topology import Pool, Topology
from ridgeline.plan import select
from ridgeline.plan.filters import ALL, Filters
from ridgeline.plan.memory import cpu_dram_gb
from ridgeline.plan.rows import AGENTIC_SECONDS
from ridgeline.plan.select import Selected
from ridgeline.spec.config import ConfigSet, Entry, Worker
from ridgeline.spec.runners import Runners


def cells(configs: ConfigSet, runners: Runners | None = None, filters: Filters = ALL) -> tuple[Cell, ...]:
    """All cells that the filters let through, in the order of the files; with `filters.keys` only those configs, in
    the order of the keys. Raises `InputError` for unknown keys or runner types and for missing hardware facts."""
    if filters.keys:
        configs = select.only(configs, filters.keys)
    return named(cell for arm in select.full_sweep(configs, runners, filters) for cell in arm_cells(arm, runners))


def arm_cells(arm: Selected, runners: Runners | None) -> tuple[Cell, ...]:
    """The cells of one arm, one for each concurrency, not yet named apart from those of other arms."""
    benchmark = _benchmark(arm.entry)
    shape = _arm(arm, runners)
    if arm.fixed is not None:
        scenario = Scenario("fixed-seq-len", arm.fixed.isl, arm.fixed.osl)
    else:
        scenario = Scenario("agentic-coding", duration_s=AGENTIC_SECONDS)
    return tuple(Cell(benchmark, scenario, shape, value, arm.space.where) for value in arm.values)


def named(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells without repeats and with unique names.

    Arms whose labels are equal (they differ in router, host memory, settings of a worker, ...) get a mark made of what
    they are, so that it does not depend on the order of the file.
    """
    found = list(dict.fromkeys(cells))
    namesakes: dict[str, set[tuple[object, ...]]] = {}
    for cell in found:
        namesakes.setdefault(cell.line, set()).add(_kind(cell))
    return tuple(
        replace(cell, variant=digest(canonical(_kind(cell)))[:6]) if len(namesakes[cell.line]) > 1 else cell
        for cell in found
    )


def _kind(cell: Cell) -> tuple[object, ...]:
    """What a cell is apart from its concurrency."""
    return cell.benchmark, cell.scenario, cell.arm


def _benchmark(entry: Entry) -> Benchmark:
    return Benchmark(
        entry.key,
        entry.image,
        entry.model,
        entry.model_prefix,
        entry.precision,
        entry.framework,
        entry.runner,
        entry.multinode,
        entry.disagg,
    )


def _arm(arm: Selected, runners: Runners | None) -> Arm:
    entry, space = arm.entry, arm.space
    router = space.router if space.router is not None else entry.router
    utilization = arm.agentic.dram_utilization if arm.agentic is not None else None
    return Arm(
        topology=None
        if entry.multinode
        else Topology(space.tp or 0, space.pp, space.dcp, space.pcp, arm.ep, bool(space.dp_attn)),
        pools=_pools(space.prefill, space.decode) if entry.multinode else (),
        spec_decoding=space.spec_decoding,
        kv_offloading=space.kv_offloading or "none",
        kv_offload_backend=_component(space.kv_offload_backend),
        router=_component(router),
        kv_p2p_transfer=space.kv_p2p_transfer if space.kv_p2p_transfer is not None else entry.kv_p2p_transfer,
        cpu_dram_gb=cpu_dram_gb(entry, space, utilization, runners),
    )


def _pools(prefill: Worker | None, decode: Worker | None) -> tuple[Pool, ...]:
    sides = (("prefill", prefill), ("decode", decode))
    return tuple(_pool(role, side) for role, side in sides if side is not None)


def _pool(role: str, side: Worker) -> Pool:
    layout = Topology(side.tp, side.pp, side.dcp, side.pcp, side.ep, side.dp_attn)
    return Pool(role, side.workers, layout, side.hardware, tuple(side.written.get("additional-settings") or ()))


def _component(written: Mapping[str, str] | None) -> Component | None:
    return None if written is None else Component(written["name"], written.get("version"))
