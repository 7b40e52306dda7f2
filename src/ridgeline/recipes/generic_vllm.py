"""Any model on any GPU with vLLM, on one node or several, whole or split into prefill and decode.

It says everything the engine would otherwise decide from the machine it meets, so that a preflight can judge it, and
leaves kernels to the engine's own choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Service
from ridgeline.recipes.capture import covering
from ridgeline.recipes.limits import admitted, context, memory_share, per_rank, redundant_experts
from ridgeline.recipes.offload import Offload, offload
from ridgeline.recipes.origin import Value, asked, here
from ridgeline.recipes.placement import Ranks, Worker, place, ranks_of
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.router import VllmRouter, session_header, vllm_router
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.recipes.single import single_node, timeout
from ridgeline.recipes.speculation import Speculation, speculation
from ridgeline.recipes.vllm import KvStore, Parallel, Vllm, graphs, laid_out, parallel_of, service

# Models that draft with another model, by prefix: method, draft model, golden curve.
DRAFTERS = {"kimik3": ("dspark", "Inferact/Kimi-K3-DSpark", "kimik3_dspark")}
# KV hand-over by name: vLLM's connector, and the variable that gives its ranks a base port.
CONNECTORS = {
    "nixl": ("NixlConnector", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
    "mooncake": ("MooncakeConnector", "VLLM_MOONCAKE_BOOTSTRAP_PORT"),
}


def generic_vllm(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """Raises CannotRender for what it has no flags for, by name."""
    if cell.arm.topology is None:
        return _pools(cell, facts, settings)
    ranks = ranks_of(cell.arm.topology)
    stores = offload(cell, ranks.dp)
    options = engine_options(cell, facts, settings, ranks, parallel_of(cell), stores.store)
    engine = service(options, env=stores.env, timeout_s=timeout(settings))
    return single_node(cell, engine, settings, kind="vllm", stores=stores)


def engine_options(
    cell: Cell, facts: Facts, settings: RecipeSettings, ranks: Ranks, parallel: Parallel, store: KvStore
) -> Vllm:
    """The options of one engine of a cell."""
    drafting = _drafting(cell, facts, settings)
    seqs = per_rank(admitted(cell), ranks.dp)
    batched = here(8192)
    spare = redundant_experts(facts.arch, ranks.tp * ranks.dp * ranks.pcp) if ranks.expert_parallel else 0
    return Vllm(
        model=asked(cell.benchmark.model, cell),
        served_model_name=asked(cell.benchmark.model, cell),
        parallel=parallel,
        trust_remote_code=here(True),
        gpu_memory_utilization=memory_share(facts, here(0.9)),
        max_model_len=context(cell, facts.arch),
        max_num_seqs=asked(seqs, cell),
        max_num_batched_tokens=batched,
        enable_prefix_caching=here(True) if cell.scenario.kind == "agentic-coding" else here(False),
        capture=covering(seqs, drafting.query if drafting else 1, batched.of, cell.where),
        compilation_config=graphs(here("FULL_AND_PIECEWISE")),
        speculative_config=drafting.vllm() if drafting else None,
        enable_eplb=asked(True, cell) if spare else None,
        eplb_config=asked({"num_redundant_experts": spare}, cell) if spare else None,
        store=store,
    )


def _drafting(cell: Cell, facts: Facts, settings: RecipeSettings) -> Speculation | None:
    """Models with prediction layers draft by themselves; others need a draft model, which nobody named here."""
    if cell.arm.spec_decoding == "none":
        return None
    if cell.arm.spec_decoding == "mtp" and cell.benchmark.model_prefix in DRAFTERS:
        method, model, curve = DRAFTERS[cell.benchmark.model_prefix]
        return speculation(cell, settings, method, here(3), curve=curve, draft_model=model)
    if cell.arm.spec_decoding != "mtp" or not facts.arch.mtp:
        raise CannotRender(
            cell,
            f"`{cell.arm.spec_decoding}` speculation of {cell.benchmark.model} without a named draft model",
            hint="write a recipe that names it (`recipes` in the settings)",
        )
    return speculation(cell, settings, "mtp", here(3))


def _pools(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """Workers on nodes. With a decode pool, prefill workers hand KV over; else they serve whole requests."""
    workers = place(cell, facts.gpus_per_node(cell))
    split = any(worker.role == "decode" for worker in workers)
    engines = [engine for worker in workers for engine in worker_services(cell, facts, settings, worker, split=split)]
    leading = [engine for engine in engines if engine.readiness is not None]
    router = _pool_router(cell, workers, leading, settings, split=split)
    return Deployment(
        services=(*engines, *((router,) if router else ())),
        entry="router" if router else leading[0].name,
        served_model=cell.benchmark.model,
        kind="vllm",
        metrics=tuple(engine.name for engine in leading),
        endpoint=settings.endpoint,
        session_header=session_header(cell),
    )


def worker_services(
    cell: Cell, facts: Facts, settings: RecipeSettings, worker: Worker, *, split: bool
) -> list[Service]:
    """One service a node. The first node answers requests; the others lend it their ranks or their GPUs."""
    name = f"{worker.role}{worker.index}"
    stores = Offload() if split else offload(cell, worker.ranks.dp)
    if stores.services:
        raise CannotRender(cell, "a KV store of its own for each worker", hint="native offloading needs none")
    env = dict(stores.env)
    store, spans = stores.store, None
    ports: tuple[str, ...] = ("http", "rendezvous")
    if split:
        store = KvStore(kv_transfer_config=hand_over(cell))
        ports += ("side_channel",)
        spans = (("side_channel", worker.ranks.dp),)  # each rank adds its number to the base
    found = []
    for seat in range(len(worker.seats)):
        own = name if seat == 0 else f"{name}-{seat}"
        layout = _over_nodes(laid_out(worker.ranks, cell), worker, seat, name, cell)
        options = engine_options(cell, facts, settings, worker.ranks, layout, store)
        options = replace(options, host=f"{{host:{own}}}")
        found.append(
            service(
                options,
                name=own,
                env={**env, **(side_channel(cell, own) if split else {})},
                timeout_s=timeout(settings),
                ports=ports,
                spans=spans,
                worker=worker,
                seat=seat,
            )
        )
    # the nodes that lend must be up for the first to become ready, and they wait for it by themselves
    return [*found[1:], found[0]]


def _over_nodes(layout: Parallel, worker: Worker, seat: int, name: str, cell: Cell) -> Parallel:
    """Ranks are counted on from node to node where whole ranks fit one; else one rank spans them."""
    nodes = len(worker.seats)
    if nodes == 1:
        return layout
    lends = asked(True, cell) if seat else None
    if worker.ranks.dp % nodes == 0:
        local = worker.ranks.dp // nodes
        return replace(
            layout,
            data_parallel_size_local=asked(local, cell),
            data_parallel_start_rank=asked(seat * local, cell) if seat else None,
            data_parallel_address=f"{{host:{name}}}",
            data_parallel_rpc_port=f"{{port:{name}.rendezvous}}",
            headless=lends,
        )
    return replace(
        layout,
        nnodes=asked(nodes, cell),
        node_rank=asked(seat, cell),
        master_addr=f"{{host:{name}}}",
        master_port=f"{{port:{name}.rendezvous}}",
        headless=lends,
    )


def side_channel(cell: Cell, name: str) -> dict[str, str]:
    """Where the service `name` is asked for KV by its peers."""
    variable = CONNECTORS[cell.arm.kv_p2p_transfer or "nixl"][1]
    host = {"VLLM_NIXL_SIDE_CHANNEL_HOST": f"{{host:{name}}}"} if "NIXL" in variable else {}
    return {**host, variable: "{port:side_channel}"}


def hand_over(cell: Cell) -> Value[Mapping[str, Any]]:
    transfer = cell.arm.kv_p2p_transfer or "nixl"
    if transfer not in CONNECTORS:
        raise CannotRender(cell, f"KV transfer `{transfer}`", hint=f"known: {', '.join(CONNECTORS)}")
    return asked({"kv_connector": CONNECTORS[transfer][0], "kv_role": "kv_both"}, cell)


def _pool_router(
    cell: Cell, workers: tuple[Worker, ...], leading: list[Service], settings: RecipeSettings, *, split: bool
) -> Service | None:
    router = cell.arm.router
    if router is None:
        if len(leading) > 1:
            raise CannotRender(cell, f"{len(leading)} workers without a router", hint="name one in the arm: `router:`")
        return None
    if router.name != "vllm-router":
        raise CannotRender(cell, f"router `{router.name}` before vLLM workers", hint="known: vllm-router")
    urls = {engine.name: f"http://{{host:{engine.name}}}:{{port:{engine.name}.http}}" for engine in leading}
    ranks = {worker.ranks.dp for worker in workers}
    expanded = ranks.pop() if len(ranks) == 1 else 1
    options = VllmRouter(
        host="{host:router}",
        worker_urls=None if split else asked(tuple(urls.values()), cell),
        vllm_pd_disaggregation=here(True) if split else None,
        prefill=tuple(urls[e.name] for e in leading if e.role == "prefill") if split else None,
        decode=tuple(urls[e.name] for e in leading if e.role == "decode") if split else None,
        intra_node_data_parallel_size=asked(expanded, cell) if expanded > 1 else None,
        worker_startup_timeout_secs=asked(int(timeout(settings)), cell),
    )
    after = tuple(engine.name for engine in leading)
    return vllm_router(
        cell, router.version, options, after=after, model=cell.benchmark.model, timeout_s=timeout(settings)
    )
