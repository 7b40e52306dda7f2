"""TensorRT-LLM's server on one node: a few flags, and a YAML file for the rest.

Its KV fraction is of the memory that is free after loading, unlike vLLM's, which is of the total.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.where import Where
from ridgeline.recipes.argv import environment, flags, items
from ridgeline.recipes.capture import listed
from ridgeline.recipes.checked import refuse_wrong
from ridgeline.recipes.limits import admitted, context, per_rank
from ridgeline.recipes.origin import Option, asked, here
from ridgeline.recipes.placement import ranks_of
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.recipes.single import single_node, timeout
from ridgeline.recipes.speculation import Speculation, speculation

HERE = Where("recipes/trt.py")
CONFIG = "llm_api.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trt:
    """`trtllm-serve`, whose flags have underscores."""

    model: Option[str] = field(metadata={"positional": True})
    host: Option[str] = "127.0.0.1"
    port: Option[str] = "{port:http}"
    backend: Option[str] = "pytorch"
    tp_size: Option[int]
    pp_size: Option[int] = None
    ep_size: Option[int] = None
    max_batch_size: Option[int] = None
    max_num_tokens: Option[int] = None
    max_seq_len: Option[int] = None
    trust_remote_code: Option[bool] = None
    extra_llm_api_options: Option[str] = CONFIG

    def __post_init__(self) -> None:
        refuse_wrong(self, positive=("tp_size", "max_batch_size", "max_num_tokens", "max_seq_len"))


def trt(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """Raises CannotRender for pools and KV offloading, whose settings are not known."""
    topology = cell.arm.topology
    if topology is None or cell.arm.kv_offloading != "none" or topology.dcp > 1 or topology.pcp > 1:
        raise CannotRender(cell, "pools, context parallelism or KV offloading with TensorRT-LLM")
    if cell.arm.spec_decoding not in ("none", "mtp") or (cell.arm.spec_decoding == "mtp" and not facts.arch.mtp):
        raise CannotRender(cell, f"`{cell.arm.spec_decoding}` speculation of {cell.benchmark.model} with TensorRT-LLM")
    ranks = ranks_of(topology)
    drafting = speculation(cell, settings, "mtp", here(3))
    batch = per_rank(admitted(cell), ranks.dp)
    options = Trt(
        model=asked(cell.benchmark.model, cell),
        tp_size=asked(topology.tp, cell),
        pp_size=asked(topology.pp, cell) if topology.pp > 1 else None,
        ep_size=asked(topology.ep, cell),
        max_batch_size=asked(batch, cell),
        max_num_tokens=here(16384),
        max_seq_len=context(cell, facts.arch),
        trust_remote_code=here(True),
    )
    file = yaml.safe_dump(_file(cell, batch, drafting), sort_keys=False)
    engine = Service(
        name="engine",
        argv=(
            *items(("trtllm-serve",), HERE),
            Item(cell.benchmark.model, cell.where),
            *flags(options, HERE, spell=lambda name: f"--{name}"),
        ),
        env=environment(HERE, drafting.trt_env() if drafting else {}),
        readiness=Readiness(served_model=cell.benchmark.model, timeout_s=timeout(settings)),
        stop_grace_s=60.0,
        files=((CONFIG, Item(file, HERE)),),
    )
    return single_node(cell, engine, settings, kind="trt")


def _file(cell: Cell, batch: int, drafting: Speculation | None) -> dict[str, Any]:
    """Graphs for every batch up to the largest: none is left without one."""
    topology = cell.arm.topology
    assert topology is not None
    config: dict[str, Any] = {
        "enable_attention_dp": topology.dp_attn,
        "cuda_graph_config": {"enable_padding": True, "batch_sizes": list(listed(batch, 1))},
        "kv_cache_config": {
            "dtype": "fp8",
            "free_gpu_memory_fraction": 0.9,
            "enable_block_reuse": cell.scenario.kind == "agentic-coding",
        },
        "print_iter_log": True,
        "stream_interval": 1,
    }
    if drafting:
        config["speculative_config"] = {"decoding_type": "MTP", "num_nextn_predict_layers": drafting.drafts}
    return config
