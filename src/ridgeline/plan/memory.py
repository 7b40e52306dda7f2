"""How much host memory KV may overflow to: the `total-cpu-dram-gb` of agentic rows.

In: an entry, an arm, its utilization and the hardware facts of runners. Out: whole GB, or an `InputError` that names
the missing facts or the topology that does not fit a node.
"""

from __future__ import annotations

from ridgeline.core.errors import InputError, Problem
from ridgeline.spec.config import Entry, Space
from ridgeline.spec.runners import Hardware, Runners

MAX_MIB = 2_861_022  # the peer's cap: 3 TB (3e12 bytes) in whole MiB
_MIB, _GB = 1 << 20, 10**9


def cpu_dram_gb(entry: Entry, space: Space, utilization: float | None, runners: Runners | None) -> int:
    """floor(min(MiB, cap) * 2^20 * utilization * g / gpus-per-node / 1e9), exact, cut off at the end; 0 without dram.

    g is the GPUs of one replica on a node; only the prefill worker counts in multi-node arms, and num-worker and dcp
    never do. The node filter does not matter: facts belong to the config's runner.
    """
    if space.kv_offloading != "dram" or utilization is None:
        return 0
    facts = _facts(entry, space, runners)
    gpus = _multi_node_gpus(entry, space, facts) if entry.multinode else _single_node_gpus(entry, space, facts)
    from fractions import Fraction

    mib = min(facts.available_cpu_dram_mib, MAX_MIB)
    exact = Fraction(str(utilization)) * mib * _MIB * gpus / (facts.gpus_per_node * _GB)
    return int(exact)


def _facts(entry: Entry, space: Space, runners: Runners | None) -> Hardware:
    key = f"{entry.key}.runner"
    if runners is None:
        message = f"kv-offloading: dram needs the hardware facts of `{entry.runner}`, and no runners file is given"
        raise InputError([Problem(message, space.where, key, "give --runner-config FILE")])
    facts = runners.hardware.get(entry.runner)
    if facts is None:
        known = ", ".join(sorted(runners.hardware)) or "none"
        message = (
            f"kv-offloading: dram needs available-cpu-dram-mib and gpus-per-node of `{entry.runner}`, "
            f"and {runners.file} has no hardware entry for it"
        )
        raise InputError([Problem(message, space.where, key, f"hardware entries: {known}")])
    return facts


def _single_node_gpus(entry: Entry, space: Space, facts: Hardware) -> int:
    gpus = (space.tp or 0) * space.pp * space.pcp
    if gpus < 0:
        raise InputError([Problem(f"tp must not be negative: {space.tp}", space.where, f"{entry.key}.tp")])
    if gpus > facts.gpus_per_node:
        message = (
            f"tp x pp x pcp-size = {space.tp} x {space.pp} x {space.pcp} needs {gpus} GPUs, "
            f"and `{entry.runner}` has {facts.gpus_per_node} gpus-per-node"
        )
        raise InputError([Problem(message, space.where, entry.key)])
    return gpus


def _multi_node_gpus(entry: Entry, space: Space, facts: Hardware) -> int:
    worker, node = space.prefill, facts.gpus_per_node
    assert worker is not None, "validation guarantees prefill in multi-node arms"
    gpus = worker.tp * worker.pp * worker.pcp
    fits = gpus > 0 and (gpus % node == 0 if gpus > node else node % gpus == 0)
    if not fits:
        message = (
            f"a prefill replica of tp x pp x pcp-size = {worker.tp} x {worker.pp} x {worker.pcp} = {gpus} GPUs "
            f"neither divides nor fills whole nodes of `{entry.runner}` ({node} gpus-per-node)"
        )
        raise InputError([Problem(message, space.where, f"{entry.key}.prefill")])
    return min(gpus, node)
