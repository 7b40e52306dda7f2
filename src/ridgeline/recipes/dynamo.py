"""Dynamo: its frontend before vLLM or SGLang workers, which find each other over etcd and NATS.

Workers are the engines themselves under another program, with the engines' own options, so every check of an engine
applies to them. TensorRT-LLM's workers are not written: their options lie in files that the config only names.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Readiness, Service
from ridgeline.core.where import Where
from ridgeline.recipes import sglang, vllm
from ridgeline.recipes.argv import Env, environment, items
from ridgeline.recipes.generic_vllm import engine_options as vllm_options
from ridgeline.recipes.generic_vllm import hand_over, side_channel
from ridgeline.recipes.origin import asked, here
from ridgeline.recipes.placement import Worker, place
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.recipes.sglang_cells import TRANSFERS, Choices, drafting_of
from ridgeline.recipes.sglang_cells import engine_options as sglang_options
from ridgeline.recipes.single import timeout
from ridgeline.recipes.vllm import KvStore, laid_out

HERE = Where("recipes/dynamo.py")
DISCOVERY: Env = {
    "ETCD_ENDPOINTS": "http://{host:etcd}:{port:etcd.client}",
    "NATS_SERVER": "nats://{host:nats}:{port:nats.client}",
}
WORKER: Env = {**DISCOVERY, "DYN_SYSTEM_PORT": "{port:system}", "DYN_SYSTEM_ENABLED": "true"}


def dynamo_vllm(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """vLLM workers: one process a node, each serving the ranks it holds."""
    return _deployment(cell, facts, settings, "vllm")


def dynamo_sglang(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """SGLang workers."""
    return _deployment(cell, facts, settings, "sglang")


def _deployment(cell: Cell, facts: Facts, settings: RecipeSettings, kind: str) -> Deployment:
    if not cell.arm.pools:
        raise CannotRender(cell, "Dynamo on one node", hint="such cells name the engine's own framework")
    if cell.arm.kv_offloading != "none":
        raise CannotRender(cell, "KV offloading under Dynamo")
    router = cell.arm.router
    if router is not None and router.name != "dynamo-router":
        raise CannotRender(cell, f"router `{router.name}` before Dynamo workers")
    workers = place(cell, facts.gpus_per_node(cell))
    split = any(worker.role == "decode" for worker in workers)
    write = _vllm_worker if kind == "vllm" else _sglang_worker
    engines = [engine for worker in workers for engine in write(cell, facts, settings, worker, split)]
    frontend = Service(
        name="frontend",
        argv=items(
            ("python3", "-m", "dynamo.frontend", "--http-host", "{host:frontend}", "--http-port", "{port:http}"), HERE
        )
        + items(("--router-mode", "kv"), cell.where),
        env=environment(HERE, DISCOVERY),
        readiness=Readiness(served_model=cell.benchmark.model, timeout_s=timeout(settings)),
        after=tuple(engine.name for engine in engines if engine.readiness),
        role="router",
        node=0,
    )
    after = ("etcd", "nats")
    return Deployment(
        services=(_etcd(), _nats(), *(replace(engine, after=after) for engine in engines), frontend),
        entry="frontend",
        served_model=cell.benchmark.model,
        kind=kind,
        metrics=tuple(engine.name for engine in engines if engine.readiness),
        endpoint=settings.endpoint,
    )


def _vllm_worker(cell: Cell, facts: Facts, settings: RecipeSettings, worker: Worker, split: bool) -> list[Service]:
    name, nodes = f"{worker.role}{worker.index}", len(worker.seats)
    if nodes > 1 and worker.ranks.dp % nodes:
        raise CannotRender(cell, f"a Dynamo worker whose rank spans {nodes} nodes")
    store = KvStore(kv_transfer_config=hand_over(cell)) if split else KvStore()
    local = worker.ranks.dp // nodes
    found = []
    for seat in range(nodes):
        own = name if seat == 0 else f"{name}-{seat}"
        layout = laid_out(worker.ranks, cell)
        if nodes > 1:
            layout = replace(
                layout,
                data_parallel_size_local=asked(local, cell),
                data_parallel_start_rank=asked(seat * local, cell),
                data_parallel_address=f"{{host:{name}}}",
                data_parallel_rpc_port=f"{{port:{name}.rendezvous}}",
                data_parallel_hybrid_lb=asked(True, cell),
            )
        options = vllm_options(cell, facts, settings, worker.ranks, layout, store)
        mode = _mode(cell, worker.role) if split else ()
        found.append(
            vllm.service(
                replace(options, host=None, port=None, enable_prompt_tokens_details=None, extra=mode),
                name=own,
                env={**WORKER, **(side_channel(cell, own) if split else {})},
                timeout_s=timeout(settings),
                ports=("system", "rendezvous", *(("side_channel",) if split else ())),
                spans=(("side_channel", local),) if split else None,
                program=("python3", "-m", "dynamo.vllm", "--model"),
                worker=worker,
                seat=seat,
                readiness=Readiness(answers=False, timeout_s=timeout(settings)),
            )
        )
    return found


def _sglang_worker(cell: Cell, facts: Facts, settings: RecipeSettings, worker: Worker, split: bool) -> list[Service]:
    name, nodes = f"{worker.role}{worker.index}", len(worker.seats)
    transfer = cell.arm.kv_p2p_transfer or "nixl"
    if split and transfer not in TRANSFERS:
        raise CannotRender(cell, f"KV transfer `{transfer}`", hint=f"known: {', '.join(TRANSFERS)}")
    drafting = drafting_of(cell, facts, settings)
    base = sglang_options(cell, facts, worker.ranks, Choices(memory=here(0.85)), drafting)
    prefill = split and worker.role == "prefill"
    found = []
    for seat in range(nodes):
        own = name if seat == 0 else f"{name}-{seat}"
        options = replace(
            base,
            host=None,
            port=None,
            dist_init_addr=f"{{host:{name}}}:{{port:{name}.ranks}}",
            nnodes=asked(nodes, cell) if nodes > 1 else None,
            node_rank=asked(seat, cell) if nodes > 1 else None,
            disaggregation_mode=asked(worker.role, cell) if split else None,
            disaggregation_transfer_backend=asked(transfer, cell) if split else None,
            disaggregation_bootstrap_port="{port:bootstrap}" if prefill else None,
        )
        env: Env = {**WORKER, **(drafting.sglang_env(cell.benchmark.image) if drafting else {})}
        found.append(
            sglang.service(
                options,
                name=own,
                env=env,
                timeout_s=timeout(settings),
                program=("python3", "-m", "dynamo.sglang"),
                worker=worker,
                seat=seat,
                bootstrap=prefill,
                ports=("system", "ranks"),
                readiness=Readiness(answers=False, timeout_s=timeout(settings)),
            )
        )
    return [*found[1:], found[0]]


def _mode(cell: Cell, role: str) -> tuple[tuple[str, str | None], ...]:
    """Before 1.0 a worker was told by a flag that it prefills; decoding was the default."""
    version = re.match(r"v?(\d+)\.", (cell.arm.router.version or "") if cell.arm.router else "")
    if version and int(version[1]) < 1:
        return (("--is-prefill-worker", None),) if role == "prefill" else ()
    return (("--disaggregation-mode", role),)


def _etcd() -> Service:
    client, peer = "http://{host:etcd}:{port:client}", "http://{host:etcd}:{port:peer}"
    words = ["etcd", "--data-dir", "etcd.data", "--listen-client-urls", client, "--advertise-client-urls", client]
    words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    ready = Readiness(answers=False, timeout_s=60.0)
    return Service("etcd", items(words, HERE), ports=("client", "peer"), readiness=ready, role="cache", node=0)


def _nats() -> Service:
    words = ["nats-server", "-js", "-sd", "nats.data", "-a", "{host:nats}", "-p", "{port:client}", "-m", "{port:watch}"]
    ready = Readiness(path="/healthz", answers=False, timeout_s=60.0)
    return Service("nats", items(words, HERE), ports=("watch", "client"), readiness=ready, role="cache", node=0)
