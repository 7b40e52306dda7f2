"""Selected rows → cells, with the place of the search-space entry each comes from, and what they cost.

Rows are the exchange format and do not know their config; cells do. Both are brought to one signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.topology import Topology
from ridgeline.plan import estimate
from ridgeline.plan.estimate import Hours
from ridgeline.plan.expand import cells as expand
from ridgeline.plan.filters import Filters
from ridgeline.plan.outline import Planned
from ridgeline.publish.changelog.rows import concurrencies
from ridgeline.spec.config import ConfigSet
from ridgeline.spec.runners import Runners

Signature = tuple[Any, ...]


def planned(
    throughput: Iterable[Mapping[str, Any]],
    evals: Iterable[Mapping[str, Any]],
    keys: Sequence[str],
    configs: ConfigSet,
    runners: Runners | None,
) -> tuple[Planned, ...]:
    """The cells of `keys` that the rows ask for, with what is done to each. Raises InputError."""
    if not keys:
        return ()
    measured = {one for row in throughput for one in _of_row(row)}
    evaluated = {one for row in evals for one in _of_row(row, evaluated=True)}
    found = []
    for cell in expand(configs, runners, Filters(keys=tuple(keys))):
        signature = _of_cell(cell)
        if signature in measured or signature in evaluated:
            found.append(Planned(cell, signature in measured, signature in evaluated))
    return tuple(found)


def gpu_hours(cells: Iterable[Planned]) -> Hours:
    """GPU-hours by phase under the default assumptions of `ridgeline plan`."""
    return estimate.total(estimate.arm_plans(cells))


def _of_cell(cell: Cell) -> Signature:
    benchmark, arm, scenario = cell.benchmark, cell.arm, cell.scenario
    layout: object = arm.topology or tuple(
        (pool.role, pool.workers, pool.topology, pool.hardware, pool.settings) for pool in arm.pools
    )
    identity = (benchmark.image, benchmark.model, benchmark.model_prefix, benchmark.precision, benchmark.framework)
    backend = (arm.kv_offload_backend.name, arm.kv_offload_backend.version) if arm.kv_offload_backend else None
    router = (arm.router.name, arm.router.version) if arm.router else None
    options = (arm.spec_decoding, arm.kv_offloading, backend, router, arm.kv_p2p_transfer)
    return (*identity, benchmark.runner, scenario.isl, scenario.osl, layout, *options, cell.concurrency)


def _of_row(row: Mapping[str, Any], *, evaluated: bool = False) -> list[Signature]:
    pools = [(name, row[name]) for name in ("prefill", "decode") if name in row]
    layout: object = tuple(
        (
            role,
            pool["num-worker"],
            _topology(pool),
            pool.get("hardware"),
            tuple(pool.get("additional-settings") or ()),
        )
        for role, pool in pools
    ) or _topology(row)
    identity = tuple(row[name] for name in ("image", "model", "model-prefix", "precision", "framework", "runner"))
    options = (
        row.get("spec-decoding") or "none",
        row.get("kv-offloading") or "none",
        _component(row.get("kv-offload-backend")),
        _component(row.get("router")),
        row.get("kv-p2p-transfer"),
    )
    values = concurrencies(row)
    if evaluated and "eval-conc" in row and not row.get("eval-all-concs"):
        values = (row["eval-conc"],)
    return [(*identity, row.get("isl"), row.get("osl"), layout, *options, value) for value in values]


def _topology(row: Mapping[str, Any]) -> Topology:
    sizes = (row["tp"], row.get("pp", 1), row.get("dcp-size", 1), row.get("pcp-size", 1), row.get("ep") or 1)
    return Topology(*sizes, dp_attn=bool(row.get("dp-attn")))


def _component(written: Mapping[str, str] | None) -> tuple[str, str | None] | None:
    return None if written is None else (written["name"], written.get("version"))
