"""A real vLLM with two data-parallel ranks behind a real vllm-router, swept over two concurrencies in one start."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import processes_with
from tests.integration.realstack import ENVIRONMENT, ROOT, RealStack, real_stack

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario
from ridgeline.core.deployment import Deployment, Item
from ridgeline.core.finding import Evidence, Expectation
from ridgeline.core.point import Source, Validity
from ridgeline.core.record import Outcome
from ridgeline.core.topology import Topology
from ridgeline.recipes.router import VllmRouter, vllm_router
from ridgeline.recipes.vllm import Parallel, Vllm, service
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.refit import refit, start_once
from ridgeline.sweep.run import Summary, Sweep
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload
from ridgeline.trace.formats.write import write_jsonl
from ridgeline.trace.prompts.token_prompts import MARKER_TOKENS
from ridgeline.trace.synth import Quantiles, Shape, synthesise

pytestmark = pytest.mark.integration

CONTEXT = 8192
KV_BYTES = 128 << 20
KV_TOKENS = 131_072  # of one rank: 2 layers x (keys + values) x 2 heads x 64 x 2 bytes = 1 KiB a token
START_S = 400.0
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


@pytest.fixture(scope="module")
def stack() -> RealStack:
    return real_stack()


@pytest.fixture(scope="module")
def run(stack: RealStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunFolder, Summary]]:
    folder = tmp_path_factory.mktemp("real")
    trace = folder / "trace.jsonl"
    write_jsonl(trace, synthesise(24, seed=7, shape=SMALL))
    sweep = Sweep(
        [cell(2), cell(4)],
        SETTINGS,
        Workload(SETTINGS, trace),
        lambda cell: (deployment(stack, cell), Source.MEASURED),
        expect=promised,
    )
    with RunFolder.create_or_open(folder / "run", RunHeader(name="real", created_at="2026-01-01T00:00:00Z")) as out:
        summary = sweep.run(out)
    yield RunFolder.open(folder / "run"), summary


def stored(run: RunFolder, key: str, name: str) -> Any:
    import json

    return json.loads((run.cell_folder(key) / f"{name}.json").read_text())


def test_both_concurrencies_are_measured_in_one_start(run: tuple[RunFolder, Summary]) -> None:
    folder, summary = run
    assert summary == Summary(2, 0, 0, 0), [failure.message for failure in folder.failures()]
    points = folder.points()
    assert [point.concurrency for point in points] == [2, 4]
    assert {point.source for point in points} == {Source.MEASURED}
    assert [stored(folder, point.run_key, "found")["served_before"] for point in points] == [0, 1]
    assert [stored(folder, point.run_key, "found")["cache_before"] for point in points] == ["fresh", "flushed"]


def test_token_counts_are_the_servers_own(run: tuple[RunFolder, Summary]) -> None:
    folder, _ = run
    for point in folder.points():
        replay = folder.replay_of(point.run_key)
        answered = [record for record in replay.records if record.outcome is Outcome.OK]
        assert len(answered) > 15
        for record in answered:
            assert record.prompt_tokens == (record.asked_prompt_tokens or 0) + MARKER_TOKENS, "ids are exact"
            assert record.completion_tokens == record.max_tokens
        if len(answered) == len(replay.records):  # a cancelled answer counts at the server and not with us
            pages = [s.values for s in replay.samples if s.values and any(k.startswith("vllm:") for k in s.values)]
            for name, mine in (("prompt", "prompt_tokens"), ("generation", "completion_tokens")):
                counted = [sum(v for k, v in p.items() if k.startswith(f"vllm:{name}_tokens_total")) for p in pages]
                assert counted[-1] - counted[0] == sum(getattr(record, mine) for record in answered)


def test_prefix_hits_are_seen_by_server_and_client(run: tuple[RunFolder, Summary]) -> None:
    folder, _ = run
    for point in folder.points():
        assert (point.value("server_cache_hit") or 0) > 0.5
        assert (point.value("usage_cache_hit") or 0) > 0.5


def test_promises_are_proved_by_the_real_log_metrics_and_answers(run: tuple[RunFolder, Summary]) -> None:
    folder, _ = run
    for point in folder.points():
        outcomes = {o["expectation"]["name"]: o for o in stored(folder, point.run_key, "proof")}
        stands = {name: outcome["stands"] for name, outcome in outcomes.items()}
        for name in ("kv_tokens", "prefix_caching", "auto_fit_reduced", "hybrid_manager_disabled", "router_key_source",
                     "engines", "prefix_hit", "affinity", "router_retries", "router_breaker"):  # fmt: skip
            assert stands[name] == "confirmed", outcomes[name]["message"]
        (kv, *_) = outcomes["kv_tokens"]["evidence"]
        assert kv["value"] == KV_TOKENS
        assert kv["where"]["file"] == "engine.log"
        assert kv["parser"] == "vllm/2"
        log = (folder.cell_folder(point.run_key) / "logs" / "engine.log").read_bytes()
        assert b"KV cache size: 131,072 tokens" in log[kv["offset"] :].split(b"\n")[0]
        evidence = {piece["name"]: piece["value"] for piece in stored(folder, point.run_key, "evidence")}
        assert evidence["engine_version"] == "0.32.0"
        assert evidence["contamination"] == 0.0


def test_sessions_stay_on_their_rank_and_both_ranks_work(run: tuple[RunFolder, Summary]) -> None:
    folder, _ = run
    point = folder.points()[-1]
    evidence = {piece["name"]: piece["value"] for piece in stored(folder, point.run_key, "evidence")}
    assert evidence["engines"] == 2.0
    assert evidence["affinity"] >= 0.95
    assert evidence["rank_imbalance"] < 2.0, "one of two ranks did everything"


def test_a_sound_run_is_not_degraded(run: tuple[RunFolder, Summary]) -> None:
    """Invalid it may be: this client shares two cores with the engine."""
    folder, _ = run
    for point in folder.points():
        assert point.provenance["proof"]["contradicted"] == 0, point.reasons
        assert point.provenance["proof"]["unproven"] == 0, point.reasons
        assert point.validity in (Validity.VALID, Validity.INVALID), point.reasons


def test_the_start_of_a_real_engine_has_phases(run: tuple[RunFolder, Summary]) -> None:
    folder, _ = run
    phases = stored(folder, folder.points()[0].run_key, "found")["phases"]["engine"]
    assert [phase["name"] for phase in phases] == ["start", "weights", "kv", "serving"]
    assert all(phase["ended"] is not None and phase["ended"] >= phase["began"] for phase in phases)


def test_both_ranks_had_answered_through_the_router_before_anything_was_measured(
    run: tuple[RunFolder, Summary],
) -> None:
    folder, _ = run
    assert stored(folder, folder.points()[0].run_key, "found")["ranks"] == {"engine": 2}


def test_a_refit_finds_the_facts_of_the_run_again(
    run: tuple[RunFolder, Summary], stack: RealStack, tmp_path: Path
) -> None:
    """One start without load; then one with half of the pool, which costs a proposal."""
    folder, _ = run
    old = [Evidence(p["name"], p["value"]) for p in stored(folder, folder.points()[0].run_key, "evidence")]
    plan = deployment(stack, cell(2))
    new, ready = start_once(replace(plan, services=plan.services[:1], entry="engine"), tmp_path)
    found = refit(plan, new, ready, old)
    facts = {change.name: (change.old, change.new) for change in found.changes}
    assert facts["kv_tokens"] == (KV_TOKENS, KV_TOKENS)
    assert facts["engine_version"] == ("0.32.0", "0.32.0")
    assert facts["max_model_len"] == (CONTEXT, CONTEXT)
    assert found.proposals == ()
    assert (ready["engine"] or 0) > 5


KILLED = """
import sys
from pathlib import Path
from ridgeline.core.point import Source
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.run import Sweep
from ridgeline.sweep.workload import Workload
from tests.integration.realstack import real_stack
from tests.integration.test_real_vllm import SETTINGS, cell, deployment
stack, out = real_stack(), Path(sys.argv[1])
workload = Workload(SETTINGS, Path(sys.argv[2]))
sweep = Sweep([cell(2)], SETTINGS, workload, lambda c: (deployment(stack, c), Source.MEASURED))
with RunFolder.create_or_open(out, RunHeader(name="real", created_at="2026-01-01T00:00:00Z")) as folder:
    sweep.run(folder)
"""


@pytest.mark.parametrize("after_s", [4.0, 15.0])
def test_killing_the_controller_leaves_nothing_of_a_real_engine(
    stack: RealStack, tmp_path: Path, after_s: float
) -> None:
    """In mid-start the engine has forked workers and resource trackers, some in sessions of their own."""
    trace = tmp_path / "trace.jsonl"
    write_jsonl(trace, synthesise(4, seed=7, shape=SMALL))
    tag = f"real-kill-{os.getpid()}-{after_s}"
    words = [sys.executable, "-c", KILLED, str(tmp_path / "run"), str(trace)]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(
            words, cwd=ROOT, stdout=said, stderr=said, env={**os.environ, "RIDGELINE_TEST_TAG": tag}
        )
    try:
        end = time.monotonic() + 60
        while not list((tmp_path / "run").glob(".live/*/engine.log")) and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(after_s)
        assert running.poll() is None, (tmp_path / "said").read_text()
        assert len(processes_with(tag)) > 2, "the engine is starting"
    finally:
        running.kill()
        running.wait()
    end = time.monotonic() + 3.0
    while (left := processes_with(tag)) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == [], "processes outlived the controller"
    text = "".join(log.read_text("utf-8", "replace") for log in (tmp_path / "run").glob(".live/*/*.log"))
    for port in set(re.findall(r"127\.0\.0\.1:(\d{4,5})|'port': (\d{4,5})", text)):
        with contextlib.closing(socket.socket()) as probe:
            assert probe.connect_ex(("127.0.0.1", int("".join(port)))) != 0, f"port {port} is still open"
    assert not list((tmp_path / "run" / "cells").glob("*")), "a cell that was not measured is not there"
