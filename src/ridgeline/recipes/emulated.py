"""The embedded engine: any single-node cell runs on the engine model of its own framework, model and GPU."""

from __future__ import annotations

from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.where import Where
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.recipes.settings import Facts, RecipeSettings

STOP_GRACE_S = 3.0
DRAFTS = 3  # configs say how tokens are drafted, not how many; three is what public recipes use


def options_of(cell: Cell, facts: Facts, *, seed: int = 0) -> EngineOptions:
    """The engine a cell asks for, as the model of it understands it.

    Raises EnvironmentFailed for what is not modelled (by name) and InputError for a topology that the
    model cannot have.
    """
    arm, benchmark = cell.arm, cell.benchmark
    missing = [
        text
        for text, asked in (
            ("multi-node and disaggregated pools", arm.topology is None),
            (f"KV offloading `{arm.kv_offloading}`", arm.kv_offloading != "none"),
        )
        if asked
    ]
    if missing or arm.topology is None:
        raise EnvironmentFailed(
            f"the engine model does not cover {' and '.join(missing)} yet (cell {cell.name})",
            hint="leave such cells out with `--cells`",
        )
    sglang = "sglang" in benchmark.framework
    return options_from(
        facts.arch,
        facts.gpu,
        arm.topology,
        benchmark.precision,
        engine="vllm" if benchmark.framework == "emulated" else benchmark.framework,
        num_speculative_tokens=0 if arm.spec_decoding == "none" else DRAFTS,
        prefill_first=sglang,
        scheduler_reserve_full_isl=not sglang,
        seed=seed,
    )


def emulated(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """`ridgeline emulate` as a service, told everything that the options hold, nothing by default."""
    options = options_of(cell, facts, seed=settings.seed)  # refuses here, before anything is started
    topology = options.topology
    name = cell.benchmark.model
    words = ["{python}", "-m", "ridgeline.cli.main", "emulate"]
    words += ["--host", "127.0.0.1", "--port", "{port:http}", "--served-model-name", name]
    words += ["--model", name, "--gpu", cell.benchmark.runner, "--precision", cell.benchmark.precision]
    words += ["--tp", str(topology.tp), "--ep", str(topology.ep)] + (["--dp-attn"] if topology.dp_attn else [])
    words += ["--max-num-seqs", str(options.max_num_seqs)]
    words += ["--max-num-batched-tokens", str(options.max_num_batched_tokens)]
    if options.engine != "vllm":
        words += ["--engine", options.engine]
    if options.num_speculative_tokens:
        words += ["--num-speculative-tokens", str(options.num_speculative_tokens)]
        words += ["--acceptance-length", f"{options.accepted_per_step:g}"]
    if options.prefill_first:
        words += ["--prefill-first"]
    words += ["--seed", str(settings.seed), "--speed", f"{settings.speed:g}"]
    here = Where(f"recipes/{Path(__file__).name}")
    engine = Service(
        name="engine",
        argv=tuple(Item(word, cell.where if word in (name, cell.benchmark.precision) else here) for word in words),
        readiness=Readiness(served_model=name, timeout_s=settings.start_timeout_s),
        stop_grace_s=STOP_GRACE_S,
    )
    return Deployment(
        services=(engine,),
        entry="engine",
        served_model=name,
        kind="emulated",
        metrics=("engine",),
        endpoint=settings.endpoint,
    )
