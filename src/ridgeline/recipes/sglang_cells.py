"""Cells with SGLang: any model on any GPU, whole or split into prefill and decode, and DeepSeek-V4-Pro."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Service
from ridgeline.engine.formats import formats_run
from ridgeline.engine.weights import weights
from ridgeline.recipes.limits import admitted, context, redundant_experts
from ridgeline.recipes.origin import Value, asked, here
from ridgeline.recipes.placement import Ranks, Worker, place, ranks_of
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.router import SglangRouter, session_header, sglang_router
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.recipes.sglang import Drafting, Sglang, Tier, service
from ridgeline.recipes.single import single_node, timeout
from ridgeline.recipes.speculation import Speculation, speculation

TRANSFERS = ("mooncake", "nixl", "mori")
CHUNK = 8192  # prefill tokens a rank takes in one step
NARROW, LEAST_CACHE = 0.95, 0.02  # of a GPU: the share where the usual one leaves the cache less than this


@dataclass(frozen=True, slots=True)
class Choices:
    """What a family of cells sets differently."""

    memory: Value[float]
    a2a: Value[str] | None = None
    parser: Value[str] | None = None


def generic_sglang(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """Kernels are left to the engine. Raises CannotRender for what it has no flags for."""
    return _deployment(cell, facts, settings, Choices(memory=here(0.85)))


def dsv4_sglang(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """DeepSeek-V4-Pro: experts spread over data-parallel ranks meet in the fused kernel where the GPU has it."""
    topology = cell.arm.topology
    ranks = ranks_of(topology) if topology else None
    fused = ranks is not None and ranks.dp > 1 and ranks.expert_parallel and facts.gpu.vendor == "nvidia"
    memory = here(0.85) if facts.gpu.vendor == "amd" else here(0.88)
    choices = Choices(memory, here("megamoe") if fused else None, here("deepseek-v4"))
    return _deployment(cell, facts, settings, choices)


def _deployment(cell: Cell, facts: Facts, settings: RecipeSettings, choices: Choices) -> Deployment:
    drafting = drafting_of(cell, facts, settings)
    if cell.arm.topology is None:
        return _pools(cell, facts, settings, choices, drafting)
    options = engine_options(cell, facts, ranks_of(cell.arm.topology), choices, drafting)
    choices = _roomy(cell, facts, choices)
    options = replace(options, mem_fraction_static=choices.memory)
    engine = service(
        replace(options, tier=_hicache(cell, facts, choices)),
        env=drafting.sglang_env(cell.benchmark.image) if drafting else {},
        timeout_s=timeout(settings),
    )
    return single_node(cell, engine, settings, kind="sglang")


def engine_options(cell: Cell, facts: Facts, ranks: Ranks, choices: Choices, drafting: Speculation | None) -> Sglang:
    """One engine. SGLang divides the running requests and the prefill chunk by the ranks: both are given for all."""
    total = max(admitted(cell), ranks.dp)
    gpus = ranks.tp * ranks.dp * ranks.pcp
    spare = redundant_experts(facts.arch, gpus) if ranks.expert_parallel else 0
    return Sglang(
        model_path=asked(cell.benchmark.model, cell),
        served_model_name=asked(cell.benchmark.model, cell),
        trust_remote_code=here(True),
        tp_size=asked(gpus, cell),
        pp_size=asked(ranks.pp, cell) if ranks.pp > 1 else None,
        dp_size=asked(ranks.dp, cell) if ranks.dp > 1 else None,
        enable_dp_attention=asked(True, cell) if ranks.dp > 1 else None,
        ep_size=asked(gpus, cell) if ranks.expert_parallel else None,
        ep_num_redundant_experts=asked(spare, cell) if spare else None,
        mem_fraction_static=choices.memory,
        context_length=context(cell, facts.arch),
        max_running_requests=asked(total, cell),
        chunked_prefill_size=here(CHUNK * ranks.dp),
        cuda_graph_max_bs=asked(max(1, total // ranks.dp), cell),
        disable_radix_cache=None if cell.scenario.kind == "agentic-coding" else here(True),
        moe_a2a_backend=choices.a2a,
        drafting=Drafting.chain(drafting.drafts, drafting.origin) if drafting else Drafting(),
        reasoning_parser=choices.parser,
    )


def drafting_of(cell: Cell, facts: Facts, settings: RecipeSettings) -> Speculation | None:
    if cell.arm.spec_decoding not in ("none", "mtp") or (cell.arm.spec_decoding == "mtp" and not facts.arch.mtp):
        raise CannotRender(
            cell, f"`{cell.arm.spec_decoding}` speculation of {cell.benchmark.model} without a named draft model"
        )
    return speculation(cell, settings, "mtp", here(3))


def _held(cell: Cell, facts: Facts) -> float:
    """Bytes of weights on one GPU of a single-node cell."""
    assert cell.arm.topology is not None
    formats = formats_run(facts.arch, cell.benchmark.precision, facts.gpu)
    return weights(facts.arch, cell.arm.topology, formats, mtp=cell.arm.spec_decoding == "mtp").total


def _roomy(cell: Cell, facts: Facts, choices: Choices) -> Choices:
    """The same, with a larger share where weights would take nearly all of the usual one."""
    room = choices.memory.of * facts.gpu.memory_bytes - _held(cell, facts)
    return choices if room > LEAST_CACHE * facts.gpu.memory_bytes else replace(choices, memory=here(NARROW))


def _hicache(cell: Cell, facts: Facts, choices: Choices) -> Tier:
    """The device pool is not known before start, so its upper bound is taken: what the static fraction leaves beside
    the weights. A host pool sized for less would not fit the host's budget."""
    arm = cell.arm
    if arm.kv_offloading == "none" or arm.topology is None:
        return Tier()
    name = arm.kv_offload_backend.name if arm.kv_offload_backend else "hicache"
    if name != "hicache":
        raise CannotRender(cell, f"KV offload backend `{name}` with SGLang", hint="known: hicache")
    if arm.cpu_dram_gb <= 0:
        hint = "give --runner-config, which says how much host memory the runner has"
        raise CannotRender(cell, "KV offloading without a host-memory budget", hint=hint)
    held = _held(cell, facts)
    device = choices.memory.of * facts.gpu.memory_bytes - held
    budget = arm.cpu_dram_gb * 10**9 / cell.gpus
    ratio = int(budget / device * 10) / 10 if device > 0 else 0.0
    if ratio <= 0:
        raise CannotRender(cell, f"a host pool of {arm.cpu_dram_gb} GB beside {held / 2**30:.1f} GiB of weights a GPU")
    return Tier(
        enable_hierarchical_cache=asked(True, cell),
        hicache_ratio=asked(ratio, cell),
        hicache_write_policy=here("write_through"),
    )


def _pools(
    cell: Cell, facts: Facts, settings: RecipeSettings, choices: Choices, drafting: Speculation | None
) -> Deployment:
    """Prefill and decode workers behind SGLang's router, each over its nodes."""
    workers = place(cell, facts.gpus_per_node(cell))
    split = any(worker.role == "decode" for worker in workers)
    if cell.arm.kv_offloading != "none":
        raise CannotRender(cell, "KV offloading of SGLang pools")
    transfer = cell.arm.kv_p2p_transfer or "mooncake"
    if split and transfer not in TRANSFERS:
        raise CannotRender(cell, f"KV transfer `{transfer}`", hint=f"known: {', '.join(TRANSFERS)}")
    engines: list[Service] = []
    for worker in workers:
        engines += _worker(cell, facts, settings, choices, drafting, worker, transfer if split else None)
    leading = [engine for engine in engines if engine.readiness is not None]
    router = _router(cell, leading, settings, split=split)
    return Deployment(
        services=(*engines, *((router,) if router else ())),
        entry="router" if router else leading[0].name,
        served_model=cell.benchmark.model,
        kind="sglang",
        metrics=tuple(engine.name for engine in leading),
        endpoint=settings.endpoint,
        session_header=session_header(cell),
    )


def _worker(
    cell: Cell,
    facts: Facts,
    settings: RecipeSettings,
    choices: Choices,
    drafting: Speculation | None,
    worker: Worker,
    transfer: str | None,
) -> list[Service]:
    name = f"{worker.role}{worker.index}"
    nodes = len(worker.seats)
    base = engine_options(cell, facts, worker.ranks, choices, drafting)
    found = []
    for seat in range(nodes):
        own = name if seat == 0 else f"{name}-{seat}"
        prefill = transfer is not None and worker.role == "prefill"
        options = replace(
            base,
            host=f"{{host:{own}}}",
            dist_init_addr=f"{{host:{name}}}:{{port:{name}.ranks}}",
            nnodes=asked(nodes, cell) if nodes > 1 else None,
            node_rank=asked(seat, cell) if nodes > 1 else None,
            disaggregation_mode=asked(worker.role, cell) if transfer else None,
            disaggregation_transfer_backend=asked(transfer, cell) if transfer else None,
            disaggregation_bootstrap_port="{port:bootstrap}" if prefill else None,
        )
        found.append(
            service(
                options,
                name=own,
                env=drafting.sglang_env(cell.benchmark.image) if drafting else {},
                timeout_s=timeout(settings),
                worker=worker,
                seat=seat,
                bootstrap=prefill,
            )
        )
    return [*found[1:], found[0]]


def _router(cell: Cell, leading: list[Service], settings: RecipeSettings, *, split: bool) -> Service | None:
    router = cell.arm.router
    if router is None:
        if len(leading) > 1:
            raise CannotRender(cell, f"{len(leading)} workers without a router", hint="name one in the arm: `router:`")
        return None
    if router.name != "sglang-router":
        raise CannotRender(cell, f"router `{router.name}` before SGLang workers", hint="known: sglang-router")
    urls = {engine.name: f"http://{{host:{engine.name}}}:{{port:{engine.name}.http}}" for engine in leading}
    before = [engine for engine in leading if engine.role == "prefill"]
    options = SglangRouter(
        host="{host:router}",
        worker_urls=None if split else asked(tuple(urls.values()), cell),
        pd_disaggregation=here(True) if split else None,
        prefill=tuple((urls[e.name], f"{{port:{e.name}.bootstrap}}") for e in before) if split else (),
        decode=tuple(urls[e.name] for e in leading if e.role == "decode") if split else (),
        worker_startup_timeout_secs=asked(int(timeout(settings)), cell),
        disable_health_check=here(True),
    )
    after = tuple(engine.name for engine in leading)
    return sglang_router(cell, options, after=after, model=cell.benchmark.model, timeout_s=timeout(settings))
