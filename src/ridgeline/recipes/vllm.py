"""vLLM as a service: typed options whose names are vLLM's own flags.

In: `Vllm` and a place. Out: a `Service`. Limits are per data-parallel rank, as in vLLM. It decides nothing: recipes do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Item, Readiness, Service
from ridgeline.core.where import Where
from ridgeline.recipes.argv import Env, environment, flags, items
from ridgeline.recipes.capture import Capture
from ridgeline.recipes.checked import refuse_wrong
from ridgeline.recipes.origin import Option, Value, asked, plain
from ridgeline.recipes.placement import Ranks, Worker, ranks_of

HERE = Where("recipes/vllm.py")
STOP_GRACE_S = 60.0
NEGATABLE = ("async_scheduling", "enable_prefix_caching")
POSITIVE = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "prefill_schedule_interval")
MODES = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """How ranks are laid out. Experts spread over tensor x data x prefill-context ranks: vLLM takes no size for it."""

    tensor_parallel_size: Option[int] = None
    pipeline_parallel_size: Option[int] = None
    data_parallel_size: Option[int] = None
    data_parallel_size_local: Option[int] = None
    data_parallel_start_rank: Option[int] = None
    data_parallel_address: Option[str] = None
    data_parallel_rpc_port: Option[str] = None
    data_parallel_hybrid_lb: Option[bool] = None
    decode_context_parallel_size: Option[int] = None
    prefill_context_parallel_size: Option[int] = None
    enable_expert_parallel: Option[bool] = None
    nnodes: Option[int] = None
    node_rank: Option[int] = None
    master_addr: Option[str] = None
    master_port: Option[str] = None
    headless: Option[bool] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KvStore:
    """Where KV goes beside the GPU."""

    kv_offloading_backend: Option[str] = None
    kv_offloading_size: Option[int] = None  # GiB, per engine
    kv_transfer_config: Option[Mapping[str, Any]] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vllm:
    """One vLLM server. `extra`: flags this has no name for, each once."""

    model: Option[str] = field(metadata={"positional": True})
    served_model_name: Option[str]
    parallel: Parallel
    host: Option[str] = "127.0.0.1"
    port: Option[str] = "{port:http}"
    trust_remote_code: Option[bool] = None
    tokenizer_mode: Option[str] = None
    gpu_memory_utilization: Option[float] = None
    kv_cache_dtype: Option[str] = None
    block_size: Option[int] = None
    max_model_len: Option[int] = None
    max_num_seqs: Option[int] = None
    max_num_batched_tokens: Option[int] = None
    async_scheduling: Option[bool] = None
    enable_prefix_caching: Option[bool] = None
    prefill_schedule_interval: Option[int] = None
    capture: Capture = field(default_factory=Capture)
    compilation_config: Option[Mapping[str, Any]] = None
    moe_backend: Option[str] = None
    all2all_backend: Option[str] = None
    enable_eplb: Option[bool] = None
    eplb_config: Option[Mapping[str, Any]] = None
    attention_backend: Option[str] = None
    speculative_config: Option[Mapping[str, Any]] = None
    store: KvStore = field(default_factory=KvStore)
    reasoning_parser: Option[str] = None
    tool_call_parser: Option[str] = None
    enable_auto_tool_choice: Option[bool] = None
    enable_prompt_tokens_details: Option[bool] = True
    extra: tuple[tuple[str, str | None], ...] = ()

    def __post_init__(self) -> None:
        refuse_wrong(self, positive=POSITIVE, fractions=("gpu_memory_utilization",))


def graphs(mode: Value[str]) -> Value[Mapping[str, Any]]:
    """`--compilation-config` with a graph mode."""
    return Value({"cudagraph_mode": mode.of}, mode.origin)


def parallel_of(cell: Cell) -> Parallel:
    """The layout a single-node cell asks for."""
    assert cell.arm.topology is not None, "pools are laid out per worker"
    return laid_out(ranks_of(cell.arm.topology), cell)


def laid_out(ranks: Ranks, cell: Cell) -> Parallel:
    """The layout of one engine on one node. Sizes of 1 are left out, except for tensor parallelism."""

    def above_one(size: int) -> Value[int] | None:
        return asked(size, cell) if size > 1 else None

    return Parallel(
        tensor_parallel_size=asked(ranks.tp, cell),
        pipeline_parallel_size=above_one(ranks.pp),
        data_parallel_size=above_one(ranks.dp),
        decode_context_parallel_size=above_one(ranks.dcp),
        prefill_context_parallel_size=above_one(ranks.pcp),
        enable_expert_parallel=asked(True, cell) if ranks.expert_parallel else None,
    )


def service(
    options: Vllm,
    *,
    name: str = "engine",
    env: Env = {},  # noqa: B006  # read only
    after: tuple[str, ...] = (),
    timeout_s: float,
    ports: tuple[str, ...] = ("http",),
    spans: tuple[tuple[str, int], ...] | None = None,
    program: tuple[str, ...] = ("vllm", "serve"),
    readiness: Readiness | None = None,
    worker: Worker | None = None,
    seat: int | None = None,
) -> Service:
    """`vllm serve`, or another program that takes its options. `worker` and `seat` place it in a pool; a node that
    only lends ranks has no port that answers. One that answers is told to offer its development paths: the cache is
    emptied between cells by one of them."""
    model = options.model if isinstance(options.model, Value) else Value(options.model)
    served = options.served_model_name
    words = (*items(program, HERE), Item(str(model.of), model.origin or HERE))
    words += flags(options, HERE, negatable=NEGATABLE)
    own: Env = {"VLLM_ENGINE_READY_TIMEOUT_S": str(int(timeout_s))}
    place = worker.seats[seat or 0] if worker else None
    lends = bool(options.parallel.headless)
    return Service(
        name=name,
        argv=words,
        env=environment(HERE, own, env, {"VLLM_SERVER_DEV_MODE": "1"} if options.port and not lends else {}),
        ports=ports,
        spans=spans,
        readiness=None if lends else readiness or Readiness(served_model=plain(served), timeout_s=timeout_s),
        after=after,
        role=worker.role if worker else "engine",
        stop_grace_s=STOP_GRACE_S,
        pool=worker.role if worker else None,
        worker=worker.index if worker else None,
        node=place.node if place else None,
        gpus=place.gpus if place else None,
    )
