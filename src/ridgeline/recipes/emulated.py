"""The embedded engine: a cell on the engine model, as `ridgeline emulate` serves it.

    engines of the model --deployed--> one `ridgeline emulate` each, and a router before several

What the engines are is told from outside: assumed.py reads it out of the recipe that would launch the cell. By itself
this knows a cell's own words (topology, precision, drafts, host memory) and takes the engine's defaults for the rest.
With a decode pool, prefill workers hand the KV of their prompts over, whose bytes are counted and whose way takes time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.topology import Topology
from ridgeline.core.units import GB
from ridgeline.core.where import Where
from ridgeline.engine.emulated_argv import words_of
from ridgeline.engine.formats import formats_run
from ridgeline.engine.launched import hosted_tokens
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.recipes.placement import place
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.library import find_gpu

HERE = Where(f"recipes/{Path(__file__).name}")
STOP_GRACE_S = 3.0
DRAFTS = 3  # configs say how tokens are drafted, not how many; three is what public recipes use


@dataclass(frozen=True, slots=True)
class Modelled:
    """One engine of a cell. Its place is that of the worker's first GPUs; None on one node."""

    name: str
    role: str  # "engine" | "prefill" | "decode"
    options: EngineOptions
    pool: str | None = None
    worker: int | None = None
    node: int | None = None
    gpus: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Assumed:
    """The engines of a cell, and what they rest on. `policy`: of the router before several; `recipe`: which recipe
    would start them and why it was chosen, or why none was asked; `notes`: how their memory is known, and what is left
    out."""

    engines: tuple[Modelled, ...]
    policy: str = "session"
    recipe: str = ""
    notes: tuple[str, ...] = ()

    @property
    def split(self) -> bool:
        """Prompts are computed by other engines than answers."""
        return {"prefill", "decode"} <= {engine.role for engine in self.engines}

    @property
    def decoding(self) -> EngineOptions:
        """The options of an engine that answers."""
        wanted = [engine for engine in self.engines if engine.role == "decode" or not self.split]
        return wanted[0].options


def defaults(cell: Cell, facts: Facts, settings: RecipeSettings) -> Assumed:
    """The engines that a cell asks for in its own words. Raises EnvironmentFailed for what is not modelled (by name)
    and InputError for a topology that the model cannot have."""
    if cell.arm.topology is not None:
        return Assumed((Modelled("engine", "engine", _options(cell, facts, cell.arm.topology, settings)),))
    engines = []
    for worker in place(cell, facts.gpus_per_node(cell)):
        ranks = worker.ranks
        if ranks.dp > 1 and ranks.tp > 1:
            raise uncovered(cell, f"{ranks.dp} data-parallel ranks of {ranks.tp} GPUs each ({worker.role})")
        wide = ranks.dp > 1
        width = ranks.dp if wide else ranks.tp
        topology = Topology(
            tp=width, pp=ranks.pp, dcp=ranks.dcp, pcp=ranks.pcp, ep=width if ranks.expert_parallel else 1, dp_attn=wide
        )
        options, seat = _options(cell, facts, topology, settings), worker.seats[0]
        name = f"{worker.role}{worker.index}"
        engines.append(Modelled(name, worker.role, options, worker.role, worker.index, seat.node, seat.gpus))
    return Assumed(tuple(engines))


def uncovered(cell: Cell, what: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"the engine model does not cover {what} yet (cell {cell.name})", hint="leave such cells out with `--cells`"
    )


def _options(cell: Cell, facts: Facts, topology: Topology, settings: RecipeSettings) -> EngineOptions:
    arm, benchmark = cell.arm, cell.benchmark
    sglang = "sglang" in benchmark.framework
    options = options_from(
        facts.arch,
        facts.gpu,
        topology,
        benchmark.precision,
        engine=build_name(benchmark.framework),
        num_speculative_tokens=0 if arm.spec_decoding == "none" else DRAFTS,
        prefill_first=sglang,
        seed=settings.seed,
    )
    options = replace(options, formats=formats_run(facts.arch, benchmark.precision, facts.gpu))
    if options.num_speculative_tokens and not settings.accuracy:
        options = replace(options, acceptance_length=options.accepted_per_step)
    return with_budget(cell, facts, options) if arm.kv_offloading != "none" else options


def with_budget(cell: Cell, facts: Facts, options: EngineOptions) -> EngineOptions:
    """The same with a host tier of the cell's whole budget. Raises EnvironmentFailed where the cell has none."""
    share = host_share(cell, facts)
    if share <= 0:
        hint = "give --runner-config, which says how much host memory the runner has"
        raise EnvironmentFailed(f"KV offloading without a host-memory budget (cell {cell.name})", hint=hint)
    backend = cell.arm.kv_offload_backend.name if cell.arm.kv_offload_backend else ""
    return replace(options, host_kv_tokens=hosted_tokens(options, share, backend))


def host_share(cell: Cell, facts: Facts) -> float:
    """Bytes of host memory that each GPU of a cell may fill with KV. The budget is one replica's on its node: that of a
    prefill worker where there are pools."""
    gpus = cell.gpus
    if cell.arm.pools:
        gpus = min(place(cell, facts.gpus_per_node(cell))[0].ranks.gpus, facts.gpus_per_node(cell))
    return cell.arm.cpu_dram_gb * GB / gpus


def build_name(framework: str) -> str:
    """The engine build whose costs and rules apply."""
    if framework == "emulated":
        return "vllm"
    return framework.removeprefix("dynamo-").removeprefix("mori-").removeprefix("llmd-").removesuffix("-disagg")


def emulated(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """The deployment of a cell whose framework is the embedded engine."""
    return deployed(cell, defaults(cell, facts, settings), facts, settings)


def deployed(cell: Cell, assumed: Assumed, facts: Facts, settings: RecipeSettings) -> Deployment:
    """`ridgeline emulate` for every engine, told all that its options hold; a router where there are several."""
    split = assumed.split
    several = len(assumed.engines) > 1 or assumed.engines[0].pool is not None
    roles = {"prefill": "producer", "decode": "consumer"} if split else {}
    engines = []
    for engine in assumed.engines:
        more = ("--kv-role", roles.get(engine.role, "both")) if several else ()
        engines.append(_engine(cell, engine, facts, settings, more))
    if several:
        router = _router(cell, assumed, engines, settings)
        services, entry = (*engines, router), "router"
    else:
        services, entry = tuple(engines), engines[0].name
    return Deployment(
        services=services,
        entry=entry,
        served_model=cell.benchmark.model,
        kind="emulated",
        metrics=tuple(service.name for service in services),
        endpoint=settings.endpoint,
        session_header="X-Session-ID" if several else None,
    )


def _router(cell: Cell, assumed: Assumed, engines: list[Service], settings: RecipeSettings) -> Service:
    """The router, on the first node."""
    words = ["{python}", "-m", "ridgeline.simulate.server.relay", "--host", "{host:router}", "--port", "{port:http}"]
    words += ["--policy", assumed.policy] if assumed.policy != "session" else []
    for engine in engines:
        words += [
            f"--{engine.role if assumed.split else 'worker'}",
            f"http://{{host:{engine.name}}}:{{port:{engine.name}.http}}",
        ]
    return Service(
        name="router",
        argv=tuple(Item(word, HERE) for word in words),
        readiness=Readiness(served_model=cell.benchmark.model, timeout_s=settings.start_timeout_s),
        after=tuple(engine.name for engine in engines),
        role="router",
        stop_grace_s=STOP_GRACE_S,
        node=0,
    )


def _engine(
    cell: Cell, engine: Modelled, facts: Facts, settings: RecipeSettings, more: tuple[str, ...] = ()
) -> Service:
    model = cell.benchmark.model
    words = ["{python}", "-m", "ridgeline.cli.main", "emulate"]
    words += ["--host", "127.0.0.1" if engine.node is None else f"{{host:{engine.name}}}", "--port", "{port:http}"]
    words += ["--served-model-name", model]
    words += words_of(engine.options, facts.model_file or model, _gpu_name(cell, facts))
    words += [*more, "--seed", str(engine.options.seed), "--speed", f"{settings.speed:g}"]
    return Service(
        name=engine.name,
        argv=tuple(Item(word, cell.where if word in (model, cell.benchmark.precision) else HERE) for word in words),
        readiness=Readiness(served_model=model, timeout_s=settings.start_timeout_s),
        role=engine.role,
        stop_grace_s=STOP_GRACE_S,
        pool=engine.pool,
        worker=engine.worker,
        node=engine.node,
        gpus=engine.gpus,
    )


def _gpu_name(cell: Cell, facts: Facts) -> str:
    """The runner's label where it names the GPU, else the GPU of the fleet."""
    try:
        return cell.benchmark.runner if find_gpu(cell.benchmark.runner) == facts.gpu else facts.gpu.name
    except InputError:
        return facts.gpu.name
