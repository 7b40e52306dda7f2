"""`ridgeline emulate`: the emulated engine as a server. Imports little before it listens: a sweep starts many."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ridgeline import __version__
from ridgeline.core.errors import InputError, Problem


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ridgeline emulate",
        description="Serve an emulated engine: OpenAI-compatible endpoints whose timing, caching and memory follow a "
        "model of the engine, the GPU and the model. Options carry vLLM's names and defaults.",
    )
    add = parser.add_argument
    add("--model", required=True, help="name of a known model, or path of a config.json")
    add("--gpu", required=True, help="GPU name or runner label, e.g. h200, mi355x-amds")
    add("--tp", "--tensor-parallel-size", type=int, default=1, help="GPUs (default 1)")
    add("--pp", "--pipeline-parallel-size", type=int, default=1, help="pipeline stages (default 1)")
    add("--ep", type=int, default=1, help="expert-parallel size inside the same GPUs (default 1)")
    add("--dp-attn", action="store_true", help="attention is data-parallel over the tp GPUs")
    add("--precision", help="bf16, fp8, fp4 or int4 (default: as the model is shipped)")
    add("--engine", default="vllm", help="engine build whose cost parameters apply (default vllm)")
    add("--max-model-len", type=int)
    add("--max-num-seqs", type=int)
    add("--max-num-batched-tokens", type=int)
    add("--block-size", type=int)
    add("--gpu-memory-utilization", type=float)
    add("--kv-cache-dtype", choices=("auto", "fp8"))
    add("--kv-tokens", type=int, help="KV pool per rank in tokens, instead of what memory arithmetic gives")
    add("--long-prefill-token-threshold", type=int)
    add("--num-speculative-tokens", type=int, help="draft tokens a step (default 0)")
    add("--acceptance-length", type=float, help="tokens a verification yields (default: golden, where known)")
    add("--prefill-schedule-interval", type=int, help="admit new requests in every N-th step")
    add("--prefill-first", action="store_true", help="SGLang's order: a step prefills or decodes")
    add("--host-kv-tokens", type=int, help="second KV tier in host memory, tokens per rank")
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
    add("--no-enable-prefix-caching", action="store_true")
    add("--no-async-scheduling", action="store_true")
    add("--router", choices=("session", "round-robin", "least-loaded", "cache-aware"), help="spreads them over ranks")
    add("--served-model-name", help="name clients use (default: the model as given)")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000, help="0 takes a free one (default 8000)")
    add("--port-file", type=Path, help="file that receives the port once listening")
    add("--speed", type=float, default=1.0, help="simulated seconds per real second (default 1)")
    add("--seed", type=int, default=0)
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

    from ridgeline.core.topology import Topology
    from ridgeline.core.units import GB
    from ridgeline.engine.memory import memory_of, startup_lines
    from ridgeline.engine.options import options_from
    from ridgeline.simulate.costparams import parameters_for
    from ridgeline.simulate.engine import engine_of
    from ridgeline.simulate.faults import degraded, parse_faults, seed_faults
    from ridgeline.simulate.graphlog import CountedSteps, capture_lines, configuration_line, step_table

    faults = parse_faults(given.fault)
    options = options_from(
        given.model,
        given.gpu,
        Topology(tp=given.tp, pp=given.pp, ep=given.ep, dp_attn=given.dp_attn),
        given.precision,
        engine=given.engine,
        max_model_len=given.max_model_len,
        max_num_seqs=given.max_num_seqs,
        max_num_batched_tokens=given.max_num_batched_tokens,
        block_size=given.block_size,
        gpu_memory_utilization=given.gpu_memory_utilization,
        kv_cache_dtype=given.kv_cache_dtype,
        kv_tokens=given.kv_tokens,
        long_prefill_token_threshold=given.long_prefill_token_threshold,
        num_speculative_tokens=given.num_speculative_tokens,
        acceptance_length=given.acceptance_length,
        prefill_schedule_interval=given.prefill_schedule_interval,
        prefill_first=True if given.prefill_first else None,
        scheduler_reserve_full_isl=False if given.prefill_first else None,
        host_kv_tokens=given.host_kv_tokens,
        enable_prefix_caching=False if given.no_enable_prefix_caching else None,
        async_scheduling=False if given.no_async_scheduling else None,
        router=given.router,
        seed=given.seed,
    )
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
