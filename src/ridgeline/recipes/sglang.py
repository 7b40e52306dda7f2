"""SGLang as a service: typed options whose names are SGLang's own flags.

Unlike vLLM's, its limits are of the whole engine: `max_running_requests` and, under data-parallel attention,
`chunked_prefill_size` are divided by the number of ranks. It reaches its ranks at ports counted on from one base.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.core.deployment import Readiness, Service
from ridgeline.core.where import Where
from ridgeline.recipes.argv import Env, environment, flags, items
from ridgeline.recipes.checked import refuse_wrong
from ridgeline.recipes.origin import Option, Value, plain
from ridgeline.recipes.placement import Worker

HERE = Where("recipes/sglang.py")
STOP_GRACE_S = 60.0
CONTROL_PORTS = 8  # tokenizer, detokenizer, scheduler, metrics, ... before the ranks' own


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Speculation in SGLang's words: it counts the token before the drafts too."""

    speculative_algorithm: Option[str] = None
    speculative_num_steps: Option[int] = None
    speculative_eagle_topk: Option[int] = None
    speculative_num_draft_tokens: Option[int] = None

    @classmethod
    def chain(cls, count: int, origin: Where | None) -> Drafting:
        """`count` drafts one after the other."""
        return cls(
            speculative_algorithm=Value("EAGLE", origin),
            speculative_num_steps=Value(count, origin),
            speculative_eagle_topk=Value(1, origin),
            speculative_num_draft_tokens=Value(count + 1, origin),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """KV in host memory (HiCache). `hicache_ratio`: host pool over device pool."""

    enable_hierarchical_cache: Option[bool] = None
    hicache_ratio: Option[float] = None
    hicache_write_policy: Option[str] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sglang:
    """One SGLang server."""

    model_path: Option[str]
    served_model_name: Option[str]
    host: Option[str] = "127.0.0.1"
    port: Option[str] = "{port:http}"
    trust_remote_code: Option[bool] = None
    tp_size: Option[int]
    pp_size: Option[int] = None
    dp_size: Option[int] = None
    enable_dp_attention: Option[bool] = None
    ep_size: Option[int] = None
    ep_num_redundant_experts: Option[int] = None
    dist_init_addr: Option[str] = "127.0.0.1:{port:ranks}"
    nnodes: Option[int] = None
    node_rank: Option[int] = None
    mem_fraction_static: Option[float] = None
    context_length: Option[int] = None
    max_running_requests: Option[int] = None
    chunked_prefill_size: Option[int] = None
    cuda_graph_max_bs: Option[int] = None
    disable_radix_cache: Option[bool] = None
    kv_cache_dtype: Option[str] = None
    moe_a2a_backend: Option[str] = None
    moe_runner_backend: Option[str] = None
    attention_backend: Option[str] = None
    drafting: Drafting = field(default_factory=Drafting)
    tier: Tier = field(default_factory=Tier)
    disaggregation_mode: Option[str] = None
    disaggregation_transfer_backend: Option[str] = None
    disaggregation_bootstrap_port: Option[str] = None
    reasoning_parser: Option[str] = None
    tool_call_parser: Option[str] = None
    enable_metrics: Option[bool] = True
    enable_cache_report: Option[bool] = True
    extra: tuple[tuple[str, str | None], ...] = field(default=())

    def __post_init__(self) -> None:
        refuse_wrong(
            self,
            positive=("tp_size", "max_running_requests", "chunked_prefill_size", "cuda_graph_max_bs", "context_length"),
            fractions=("mem_fraction_static",),
        )


def service(
    options: Sglang,
    *,
    name: str = "engine",
    env: Env = {},  # noqa: B006  # read only
    timeout_s: float,
    program: tuple[str, ...] = ("python3", "-m", "sglang.launch_server"),
    worker: Worker | None = None,
    seat: int = 0,
    bootstrap: bool = False,
    ports: tuple[str, ...] = ("http", "ranks"),
    readiness: Readiness | None = None,
) -> Service:
    """`sglang.launch_server`. Its ranks' ports are a range of its own, so that no other service can sit in it."""
    served = plain(options.served_model_name)
    place = worker.seats[seat] if worker else None
    return Service(
        name=name,
        argv=items(program, HERE) + flags(options, HERE),
        env=environment(HERE, env),
        ports=(*ports, *(("bootstrap",) if bootstrap else ())),
        spans=(("ranks", CONTROL_PORTS + (plain(options.dp_size) or 1)),),
        readiness=(readiness or Readiness(served_model=served, timeout_s=timeout_s)) if seat == 0 else None,
        role=worker.role if worker else "engine",
        stop_grace_s=STOP_GRACE_S,
        pool=worker.role if worker else None,
        worker=worker.index if worker else None,
        node=place.node if place else None,
        gpus=place.gpus if place else None,
    )
