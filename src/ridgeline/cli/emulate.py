"""`ridgeline emulate`: the emulated engine as a server. Imports little before it listens: a sweep starts many."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ridgeline import __version__
from ridgeline.core.errors import InputError, Problem
from ridgeline.engine.emulated_argv import add_engine, options_given


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ridgeline emulate",
        description="Serve an emulated engine: OpenAI-compatible endpoints whose timing, caching and memory follow a "
        "model of the engine, the GPU and the model. Options carry vLLM's names and defaults.",
    )
    add_engine(parser)
    add = parser.add_argument
    add(
        "--kv-role",
        choices=("both", "producer", "consumer"),
        default="both",
        help="producer: computes prompts for another engine; consumer: fetches them (default both: neither)",
    )
    add(
        "--kv-bandwidth",
        type=float,
        metavar="GB/S",
        help="of one GPU, for KV from another engine (default: its scale-out link)",
    )
    add("--metric-names", choices=("vllm", "sglang"), default="vllm", help="names on /metrics (default vllm)")
    add("--served-model-name", help="name clients use (default: the model as given)")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000, help="0 takes a free one (default 8000)")
    add("--port-file", type=Path, help="file that receives the port once listening")
    add("--speed", type=float, default=1.0, help="simulated seconds per real second (default 1)")
    add("--fault", action="append", default=[], metavar="KIND[=N]", help="seed a defect, to see that runs notice it")
    return parser


def run(argv: list[str]) -> int | None:
    """Serve until SIGTERM. Exit 2: options or memory do not fit; exit 3: the port cannot be had."""
    try:
        given = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed what is wrong, or the help
        return int(stop.code or 0)
    problems = [Problem("must be above 0", key="--speed")] if not given.speed > 0 else []
    problems += [Problem("must be above 0", key="--kv-bandwidth")] if (given.kv_bandwidth or 1.0) <= 0 else []
    problems += [Problem("must be 0 to 65535", key="--port")] if not 0 <= given.port < 65536 else []
    if problems:
        raise InputError(problems)

    from ridgeline.core.units import GB
    from ridgeline.engine.memory import memory_of, startup_lines
    from ridgeline.simulate.costparams import parameters_for
    from ridgeline.simulate.engine import engine_of
    from ridgeline.simulate.faults import degraded, parse_faults, seed_faults
    from ridgeline.simulate.graphlog import CountedSteps, capture_lines, configuration_line, step_table

    faults = parse_faults(given.fault)
    options = options_given(given)
    options = degraded(options, faults)
    memory = memory_of(options)
    link = given.kv_bandwidth * GB if given.kv_bandwidth else None
    engine = engine_of(options, memory=memory, kv_bandwidth=link)
    seed_faults(engine, faults)
    engine.price = steps = CountedSteps(options, parameters_for(options.gpu.name, options.engine))
    ladder = steps.ladder
    _say([configuration_line(options, ladder, __version__), *startup_lines(options, memory), *capture_lines(ladder)])

    import gc

    import uvloop

    from ridgeline.simulate.server.app import serve

    gc.freeze()  # what is loaded stays: no use in looking at it again
    uvloop.run(
        serve(
            engine,
            model=given.served_model_name or given.model,
            root=options.arch.name,
            host=given.host,
            port=given.port,
            port_file=given.port_file,
            speed=given.speed,
            router=options.router,
            seed=given.seed,
            offers_kv=given.kv_role == "producer",
            metric_names=given.metric_names,
        )
    )
    _say(step_table(steps.ran))
    return 0


def _say(lines: list[str]) -> None:
    """Log lines, as an engine does."""
    sys.stderr.write("".join(f"INFO {line}\n" for line in lines))
