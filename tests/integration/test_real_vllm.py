"""What a sweep on a real vLLM with two data-parallel ranks behind a real vllm-router found, in one start of both."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.e2e.leases import held_leases, leased_ports, listening
from tests.integration.real_sweep import CONTEXT, KV_TOKENS, SMALL, START_S, RealRun, cell, dense
from tests.integration.realstack import ROOT, RealStack

from ridgeline.core.finding import Evidence
from ridgeline.core.point import Source, Validity
from ridgeline.core.record import Outcome
from ridgeline.results.runfolder import RunFolder
from ridgeline.sweep.live import read_state
from ridgeline.sweep.refit import refit, start_once
from ridgeline.trace.formats.write import write_jsonl
from ridgeline.trace.prompts.token_prompts import MARKER_TOKENS
from ridgeline.trace.synth import synthesise

pytestmark = pytest.mark.integration


def stored(run: RunFolder, key: str, name: str) -> Any:
    return json.loads((run.cell_folder(key) / f"{name}.json").read_text())


def test_both_concurrencies_are_measured_in_one_start(real_run: RealRun) -> None:
    folder = real_run.folder
    assert real_run.summary.failed == 0, [failure.message for failure in folder.failures()]
    points = folder.points()
    assert [point.concurrency for point in points] == [2, 4]
    assert {point.source for point in points} == {Source.MEASURED}
    assert [stored(folder, point.run_key, "found")["served_before"] for point in points] == [0, 1]
    assert [stored(folder, point.run_key, "found")["cache_before"] for point in points] == ["fresh", "flushed"]


def test_token_counts_are_the_servers_own(real_run: RealRun) -> None:
    folder = real_run.folder
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


def test_prefix_hits_are_seen_by_server_and_client(real_run: RealRun) -> None:
    folder = real_run.folder
    for point in folder.points():
        assert (point.value("server_cache_hit") or 0) > 0.5
        assert (point.value("usage_cache_hit") or 0) > 0.5


def test_promises_are_proved_by_the_real_log_metrics_and_answers(real_run: RealRun) -> None:
    folder = real_run.folder
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


def test_sessions_stay_on_their_rank_and_both_ranks_work(real_run: RealRun) -> None:
    folder = real_run.folder
    point = folder.points()[-1]
    evidence = {piece["name"]: piece["value"] for piece in stored(folder, point.run_key, "evidence")}
    assert evidence["engines"] == 2.0
    assert evidence["affinity"] >= 0.95
    assert evidence["rank_imbalance"] < 2.0, "one of two ranks did everything"


def test_a_sound_run_is_not_degraded(real_run: RealRun) -> None:
    """Invalid it may be: this client shares two cores with the engine."""
    folder = real_run.folder
    for point in folder.points():
        assert point.provenance["proof"]["contradicted"] == 0, point.reasons
        assert point.provenance["proof"]["unproven"] == 0, point.reasons
        assert point.validity in (Validity.VALID, Validity.INVALID), point.reasons


def test_the_start_of_a_real_engine_has_phases(real_run: RealRun) -> None:
    folder = real_run.folder
    phases = stored(folder, folder.points()[0].run_key, "found")["phases"]["engine"]
    assert [phase["name"] for phase in phases] == ["start", "weights", "kv", "serving"]
    assert all(phase["ended"] is not None and phase["ended"] >= phase["began"] for phase in phases)


def test_both_ranks_had_answered_through_the_router_before_anything_was_measured(real_run: RealRun) -> None:
    folder = real_run.folder
    assert stored(folder, folder.points()[0].run_key, "found")["ranks"] == {"engine": 2}


def test_a_refit_finds_the_facts_of_the_run_again(real_run: RealRun, stack: RealStack, tmp_path: Path) -> None:
    """One start without load, of one rank: a pool is told by rank."""
    folder = real_run.folder
    old = [Evidence(p["name"], p["value"]) for p in stored(folder, folder.points()[0].run_key, "evidence")]
    plan = dense(stack, cell(2))
    new, ready = start_once(plan, tmp_path)
    found = refit(plan, new, ready, old)
    facts = {change.name: (change.old, change.new) for change in found.changes}
    assert facts["kv_tokens"] == (KV_TOKENS, KV_TOKENS)
    assert facts["engine_version"] == ("0.32.0", "0.32.0")
    assert facts["max_model_len"] == (CONTEXT, CONTEXT)
    assert found.proposals == ()
    assert (ready["engine"] or 0) > 5


def steps(run: Path) -> list[str]:
    """The last step of every cell of a sweep that is under way."""
    return [cell["state"] for cell in (read_state(run) or {"cells": []})["cells"]]


def forked(controller: psutil.Process) -> bool:
    """Whether the engine has processes of its own."""
    for process in controller.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            words = " ".join(process.cmdline())
            if "EngineCore" in words or "multiprocessing.spawn" in words:
                return True
    return False


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [process] if process.is_running() and process.status() != psutil.STATUS_ZOMBIE else []
    return found


@pytest.mark.parametrize("moment", ["start", "replay"])
def test_killing_the_controller_leaves_nothing_of_a_real_engine(stack: RealStack, tmp_path: Path, moment: str) -> None:
    """In mid-start the engine has forked workers and resource trackers, some in sessions of their own; in mid-replay of
    the second cell the first one is stored."""
    trace, run = tmp_path / "trace.jsonl", tmp_path / "run"
    write_jsonl(trace, synthesise(8, seed=7, shape=SMALL))
    with tempfile.TemporaryDirectory(prefix="rl-") as tmpdir, (tmp_path / "said").open("w") as said:  # short: sockets
        running = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.real_sweep", str(run), str(trace)],
            cwd=ROOT, stdout=said, stderr=said, env={**os.environ, "TMPDIR": tmpdir},
        )  # fmt: skip
        controller = psutil.Process(running.pid)
        try:
            end = time.monotonic() + START_S
            while not (forked(controller) if moment == "start" else steps(run)[1:] in (["replay"], ["progress"])):
                assert running.poll() is None, (tmp_path / "said").read_text()
                assert time.monotonic() < end, steps(run)
                time.sleep(0.1)
            time.sleep(2.0)
            below = controller.children(recursive=True)
            assert len(below) > 3, "the engine is there"
        finally:
            running.kill()
            running.wait()
        end = time.monotonic() + 3.0
        while (left := alive(below)) and time.monotonic() < end:
            time.sleep(0.05)
        assert left == [], "processes outlived the controller"
        ports = leased_ports(Path(tmpdir))
        assert ports
        assert listening(ports) == []
        assert held_leases(Path(tmpdir)) == []
    assert [point.concurrency for point in RunFolder.open(run).points()] == ([1] if moment == "replay" else [])
