"""M8: host memory of all ranks together."""

from __future__ import annotations

from ridgeline.core.units import GB, GIB
from ridgeline.engine.hosting import offloaded_bytes
from ridgeline.engine.launch import Launch
from ridgeline.plan.checks.rule import Rule, Said, fails, gib, passes, unknown
from ridgeline.plan.checks.subject import Subject


def host(subject: Subject, launch: Launch) -> Said:
    """M8: host memory of all ranks together."""
    services = subject.deployment.services if subject.deployment else ()
    asked, ranks, fleet = offloaded_bytes(launch, services), launch.ranks, subject.fleet
    if asked is None:
        return
    sums = f"{gib(asked)} over {ranks} engine{'s' if ranks > 1 else ''} ({asked / GB:.0f} GB)"
    nodes = -(-launch.topology.gpus // fleet.gpus_per_node) if fleet else 1
    times = f" on {nodes} nodes" if nodes > 1 else ""
    budgets = []
    if own := subject.cell.arm.cpu_dram_gb:
        budgets.append((own * GB * nodes, f"the cell's budget of {own} GB{times}"))
    if fleet and fleet.host_memory_gib:
        whole = round(fleet.host_memory_gib * GIB) * nodes
        budgets.append((whole, f"the fleet's {fleet.host_memory_gib:g} GiB a node{times}"))
    if not budgets:
        hint = "fleets: host-memory-gib in ridgeline.yaml, or a runner file with hardware"
        yield unknown("the host memory of this fleet is not recorded", sums, hint)
        return
    limit, text = min(budgets)
    if asked > limit:
        each = f"at most {limit // ranks / GIB:.0f}"
        native = launch.native_offload_gib
        hint = f"--kv-offloading-size is GiB per engine: {each} for {ranks}" if native else f"{each} GiB an engine"
        yield fails(f"more host memory is asked for than {text}", f"{sums} > {limit / GB:.0f} GB", hint)
    else:
        yield passes("host memory for offloading is within its budget", f"{sums}; {text}")


RULES = (
    Rule("M8", "Host memory of all ranks", host,
         "vLLM sizes its offload per engine and in GiB; budgets are per node and in decimal GB.",
         "vLLM, read", "--kv-offloading-size 1000 on eight data-parallel ranks pins 8,000 GiB.",
         at=("kv-offloading-size", "kv-transfer-config", "hicache-size")),
)  # fmt: skip
