"""What a launch script is told about its cell: the environment variables that scripts of this kind read."""

from __future__ import annotations

from ridgeline.core.cell import Cell
from ridgeline.core.topology import Topology

PORT = "8888"


def environment_of(cell: Cell) -> dict[str, str]:
    """The variables of a single-node cell, by the names InferenceX's launch scripts use. Topology sizes that a
    multi-node cell has per pool come with the pool's name before them."""
    benchmark, arm, scenario = cell.benchmark, cell.arm, cell.scenario
    found = {
        "MODEL": benchmark.model,
        "MODEL_NAME": benchmark.model,
        "MODEL_PREFIX": benchmark.model_prefix,
        "IMAGE": benchmark.image,
        "FRAMEWORK": benchmark.framework,
        "PRECISION": benchmark.precision,
        "RUNNER_TYPE": benchmark.runner.removeprefix("cluster:"),
        "CONC": str(cell.concurrency),
        "SPEC_DECODING": arm.spec_decoding,
        "KV_OFFLOADING": arm.kv_offloading,
        "KV_OFFLOAD_BACKEND": arm.kv_offload_backend.name if arm.kv_offload_backend else "none",
        "TOTAL_CPU_DRAM_GB": str(arm.cpu_dram_gb),
        "DISAGG": _flag(benchmark.disagg),
        "SCENARIO_TYPE": scenario.kind,
        "EVAL_ONLY": "false",
        "RUN_EVAL": "false",
        "PORT": PORT,
        "RESULT_FILENAME": "result",
        "RESULT_DIR": "/results",
    }
    if scenario.kind == "fixed-seq-len":
        isl, osl = scenario.isl or 0, scenario.osl or 0
        found |= {"ISL": str(isl), "OSL": str(osl), "MAX_MODEL_LEN": str(isl + osl + 256), "RANDOM_RANGE_RATIO": "0.8"}
    else:
        found |= {"DURATION": str(scenario.duration_s or 3600)}
    if arm.router is not None:
        found |= {"ROUTER_NAME": arm.router.name, "ROUTER_VERSION": arm.router.version or ""}
    if arm.topology is not None:
        found |= _sizes(arm.topology)
    for pool in arm.pools:
        prefix = pool.role.upper()
        found |= {f"{prefix}_{name}": value for name, value in _sizes(pool.topology).items()}
        found[f"{prefix}_NUM_WORKERS"] = str(pool.workers)
        pairs = (setting.partition("=") for setting in pool.settings)
        found |= {name: value for name, equals, value in pairs if equals and name.isidentifier() and name.isupper()}
    return found


def _sizes(topology: Topology) -> dict[str, str]:
    return {
        "TP": str(topology.tp),
        "PP_SIZE": str(topology.pp),
        "DCP_SIZE": str(topology.dcp),
        "PCP_SIZE": str(topology.pcp),
        "EP_SIZE": str(topology.ep),
        "DP_ATTENTION": _flag(topology.dp_attn),
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"
