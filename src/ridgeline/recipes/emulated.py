"""The embedded engine: any cell runs on the engine model of its own framework, model and GPU.

A cell with pools becomes one engine for each worker and a router before them; with a decode pool, prefill workers hand
the KV of their prompts over, whose bytes are counted and whose way takes time.
"""

from __future__ import annotations

from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.topology import Topology
from ridgeline.core.where import Where
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.recipes.placement import Worker, place
from ridgeline.recipes.settings import Facts, RecipeSettings

HERE = Where(f"recipes/{Path(__file__).name}")
STOP_GRACE_S = 3.0
DRAFTS = 3  # configs say how tokens are drafted, not how many; three is what public recipes use


def options_of(cell: Cell, facts: Facts, *, seed: int = 0) -> EngineOptions:
    """The engine a cell asks for, as the model of it understands it.

    Raises EnvironmentFailed for what is not modelled (by name) and InputError for a topology that the
    model cannot have.
    """
    arm = cell.arm
    if arm.topology is None:
        raise _uncovered(cell, "pools as one engine")
    return _options(cell, facts, arm.topology, seed)


def pool_options(cell: Cell, facts: Facts, *, seed: int = 0) -> dict[str, EngineOptions]:
    """The engine of each pool of a cell, by role. Raises as `options_of`."""
    found = {}
    for worker in place(cell, facts.gpus_per_node(cell)):
        ranks = worker.ranks
        if ranks.dp > 1 and ranks.tp > 1:
            raise _uncovered(cell, f"{ranks.dp} data-parallel ranks of {ranks.tp} GPUs each ({worker.role})")
        wide = ranks.dp > 1
        width = ranks.dp if wide else ranks.tp
        topology = Topology(
            tp=width, pp=ranks.pp, dcp=ranks.dcp, pcp=ranks.pcp, ep=width if ranks.expert_parallel else 1, dp_attn=wide
        )
        found[worker.role] = _options(cell, facts, topology, seed)
    return found


def _uncovered(cell: Cell, what: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"the engine model does not cover {what} yet (cell {cell.name})", hint="leave such cells out with `--cells`"
    )


def _options(cell: Cell, facts: Facts, topology: Topology, seed: int) -> EngineOptions:
    arm, benchmark = cell.arm, cell.benchmark
    if arm.kv_offloading != "none":
        raise _uncovered(cell, f"KV offloading `{arm.kv_offloading}`")
    for name, size in (("decode-context", topology.dcp), ("prefill-context", topology.pcp)):
        if size > 1:  # the server has no option for it, and must not leave it out
            raise _uncovered(cell, f"{name} parallelism of {size}")
    sglang = "sglang" in benchmark.framework
    return options_from(
        facts.arch,
        facts.gpu,
        topology,
        benchmark.precision,
        engine=_build(benchmark.framework),
        num_speculative_tokens=0 if arm.spec_decoding == "none" else DRAFTS,
        prefill_first=sglang,
        scheduler_reserve_full_isl=not sglang,
        seed=seed,
    )


def _build(framework: str) -> str:
    """The engine build whose costs and rules apply."""
    if framework == "emulated":
        return "vllm"
    return framework.removeprefix("dynamo-").removesuffix("-disagg")


def emulated(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """`ridgeline emulate` as a service, told everything that the options hold, nothing by default."""
    if cell.arm.pools:
        return _pools(cell, facts, settings)
    options = options_of(cell, facts, seed=settings.seed)  # refuses here, before anything is started
    engine = _engine(cell, options, settings, "engine")
    return Deployment(
        services=(engine,),
        entry="engine",
        served_model=cell.benchmark.model,
        kind="emulated",
        metrics=("engine",),
        endpoint=settings.endpoint,
    )


def _pools(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """One engine a worker where its first GPUs are, and the router on the first node."""
    options = pool_options(cell, facts, seed=settings.seed)
    workers = place(cell, facts.gpus_per_node(cell))
    split = {"prefill", "decode"} <= options.keys()
    engines = []
    for worker in workers:
        role = {"prefill": "producer", "decode": "consumer"}[worker.role] if split else "both"
        more = ("--kv-role", role)
        engines.append(_engine(cell, options[worker.role], settings, f"{worker.role}{worker.index}", more, worker))
    words = ["{python}", "-m", "ridgeline.simulate.server.relay", "--host", "{host:router}", "--port", "{port:http}"]
    for engine in engines:
        words += [
            f"--{engine.role if split else 'worker'}",
            f"http://{{host:{engine.name}}}:{{port:{engine.name}.http}}",
        ]
    router = Service(
        name="router",
        argv=tuple(Item(word, HERE) for word in words),
        readiness=Readiness(served_model=cell.benchmark.model, timeout_s=settings.start_timeout_s),
        after=tuple(engine.name for engine in engines),
        role="router",
        stop_grace_s=STOP_GRACE_S,
        node=0,
    )
    return Deployment(
        services=(*engines, router),
        entry="router",
        served_model=cell.benchmark.model,
        kind="emulated",
        metrics=(*(engine.name for engine in engines), "router"),
        endpoint=settings.endpoint,
        session_header="X-Session-ID",
    )


def _engine(
    cell: Cell,
    options: EngineOptions,
    settings: RecipeSettings,
    name: str,
    more: tuple[str, ...] = (),
    worker: Worker | None = None,
) -> Service:
    topology = options.topology
    model = cell.benchmark.model
    words = ["{python}", "-m", "ridgeline.cli.main", "emulate"]
    words += ["--host", f"{{host:{name}}}" if worker else "127.0.0.1", "--port", "{port:http}"]
    words += ["--served-model-name", model]
    words += ["--model", model, "--gpu", cell.benchmark.runner, "--precision", cell.benchmark.precision]
    words += ["--tp", str(topology.tp), "--ep", str(topology.ep)] + (["--dp-attn"] if topology.dp_attn else [])
    words += ["--pp", str(topology.pp)] if topology.pp > 1 else []
    words += ["--max-num-seqs", str(options.max_num_seqs)]
    words += ["--max-num-batched-tokens", str(options.max_num_batched_tokens)]
    if options.engine != "vllm":
        words += ["--engine", options.engine]
    if options.num_speculative_tokens:
        words += ["--num-speculative-tokens", str(options.num_speculative_tokens)]
        if not settings.accuracy:
            words += ["--acceptance-length", f"{options.accepted_per_step:g}"]
    if options.prefill_first:
        words += ["--prefill-first"]
    words += [*more, "--seed", str(settings.seed), "--speed", f"{settings.speed:g}"]
    return Service(
        name=name,
        argv=tuple(Item(word, cell.where if word in (model, cell.benchmark.precision) else HERE) for word in words),
        readiness=Readiness(served_model=model, timeout_s=settings.start_timeout_s),
        role=worker.role if worker else "engine",
        stop_grace_s=STOP_GRACE_S,
        pool=worker.role if worker else None,
        worker=worker.index if worker else None,
        node=worker.seats[0].node if worker else None,
        gpus=worker.seats[0].gpus if worker else None,
    )
