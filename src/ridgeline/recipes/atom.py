"""ATOM (AMD's engine) on one node. Sequence and token limits are the engine's as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Readiness, Service
from ridgeline.core.where import Where
from ridgeline.recipes.argv import environment, flags, items
from ridgeline.recipes.capture import listed
from ridgeline.recipes.checked import refuse_wrong
from ridgeline.recipes.limits import admitted, context, memory_share
from ridgeline.recipes.origin import Option, Value, asked, here
from ridgeline.recipes.placement import ranks_of
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.recipes.single import single_node, timeout
from ridgeline.recipes.speculation import speculation

HERE = Where("recipes/atom.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """One ATOM server, named as its flags are."""

    model: Option[str]
    host: Option[str] = "127.0.0.1"
    server_port: Option[str] = "{port:http}"
    trust_remote_code: Option[bool] = None
    tensor_parallel_size: Option[int]
    enable_dp_attention: Option[bool] = None
    enable_expert_parallel: Option[bool] = None
    gpu_memory_utilization: Option[float] = None
    kv_cache_dtype: Option[str] = None
    max_model_len: Option[int] = None
    max_num_seqs: Option[int] = None
    max_num_batched_tokens: Option[int] = None
    cudagraph_capture_sizes: Option[str] = None
    method: Option[str] = None
    num_speculative_tokens: Option[int] = None
    spec_decode_acceptance_length: Option[float] = None

    def __post_init__(self) -> None:
        refuse_wrong(self, positive=("max_num_seqs", "max_num_batched_tokens"), fractions=("gpu_memory_utilization",))


def atom(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """`atom.entrypoints.openai_server`. Raises CannotRender for pools and KV offloading, whose flags are not known."""
    topology = cell.arm.topology
    if topology is None or cell.arm.kv_offloading != "none" or topology.pp > 1:
        raise CannotRender(cell, "pools, pipeline stages or KV offloading with ATOM")
    if cell.arm.spec_decoding not in ("none", "mtp"):
        raise CannotRender(cell, f"`{cell.arm.spec_decoding}` speculation with ATOM")
    ranks = ranks_of(topology)
    drafting = speculation(cell, settings, "mtp", here(3))
    seqs = admitted(cell)
    sizes = ",".join(map(str, listed(seqs, 1)))
    options = Atom(
        model=asked(cell.benchmark.model, cell),
        trust_remote_code=here(True),
        tensor_parallel_size=asked(topology.tp, cell),
        enable_dp_attention=asked(True, cell) if ranks.dp > 1 else None,
        enable_expert_parallel=asked(True, cell) if ranks.expert_parallel else None,
        gpu_memory_utilization=memory_share(facts, here(0.88)),
        kv_cache_dtype=here("fp8"),
        max_model_len=context(cell, facts.arch),
        max_num_seqs=asked(seqs, cell),
        max_num_batched_tokens=here(16384),
        cudagraph_capture_sizes=Value(f"[{sizes}]", cell.where),
        method=Value(drafting.method, drafting.origin) if drafting else None,
        num_speculative_tokens=Value(drafting.drafts, drafting.origin) if drafting else None,
        spec_decode_acceptance_length=Value(drafting.golden.length, drafting.origin)
        if drafting and drafting.golden
        else None,
    )
    engine = Service(
        name="engine",
        argv=items(("python3", "-m", "atom.entrypoints.openai_server"), HERE) + flags(options, HERE),
        env=environment(HERE, {}),
        readiness=Readiness(served_model=cell.benchmark.model, timeout_s=timeout(settings)),
        stop_grace_s=60.0,
    )
    return single_node(cell, engine, settings, kind="atom")
