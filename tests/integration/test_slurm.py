"""A sweep on a real Slurm: the same points as locally, a cancelled job, a drained node, a controller that is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import CONFIG, QUICK, command, processes_with, ridgeline
from tests.e2e.leases import held_leases, leased_ports, listening
from tests.integration.cluster import slurm

from ridgeline.launch.slurm import Slurm
from ridgeline.results.runfolder import RunFolder

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    monkeypatch = pytest.MonkeyPatch()
    try:
        with slurm(tmp_path_factory.mktemp("slurm"), monkeypatch):
            yield
    finally:
        monkeypatch.undo()


def sweep(out: Path, *more: str, config: Path = CONFIG, **env: str) -> subprocess.Popen[str]:
    words = command("sweep", config, "--executor", "slurm", "--out", out, *QUICK, *more)
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **env})


def until(condition, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False


def submissions(said: str) -> int:
    return sum(line.startswith("job ") for line in said.splitlines())


def jobs() -> list[str]:
    done = subprocess.run(["squeue", "-h", "--states=PD,R", "--format=%i"], capture_output=True, text=True)
    return done.stdout.split()


def test_the_same_sweep_runs_as_jobs(cluster: None, tmp_path: Path) -> None:
    running = sweep(tmp_path / "run")
    _, said = running.communicate(timeout=120)
    assert running.returncode == 0, said
    assert "3 cells run, 0 finished before, 0 failed" in said
    assert "a daemon of an engine could survive its job" in said, "linuxproc is weaker than cgroups, and it says so"
    points = RunFolder.open(tmp_path / "run").points()
    assert [point.name for point in points] == [
        *("qwen3-quick/256_16/TP1/c2", "qwen3-quick/agentic/TP1/c1", "qwen3-quick/agentic/TP1/c2"),
    ]
    again = sweep(tmp_path / "run")
    _, said = again.communicate(timeout=60)
    assert "0 cells run, 3 finished before" in said
    assert jobs() == []


def test_a_killed_controller_goes_on_with_the_job_that_still_runs(cluster: None, tmp_path: Path) -> None:
    first = sweep(tmp_path / "run")
    assert until(lambda: bool(jobs()))
    first.kill()
    first.communicate()
    before = jobs()
    assert len(before) == 1, "the job lives on"
    second = sweep(tmp_path / "run")
    _, said = second.communicate(timeout=120)
    assert second.returncode == 0, said
    assert submissions(said) == 0, "the job that still ran was waited for"
    assert len(RunFolder.open(tmp_path / "run").points()) == 3


def test_a_cancelled_job_is_submitted_again(cluster: None, tmp_path: Path) -> None:
    running = sweep(tmp_path / "run")
    assert until(lambda: bool(jobs()))
    Slurm().cancel(jobs())
    _, said = running.communicate(timeout=150)
    assert running.returncode == 0, said
    assert submissions(said) == 2
    assert len(RunFolder.open(tmp_path / "run").points()) == 3


def test_stopping_the_controller_cancels_its_jobs(cluster: None, tmp_path: Path) -> None:
    running = sweep(tmp_path / "run")
    assert until(lambda: bool(jobs()))
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert until(lambda: not jobs(), 20.0)


def test_a_drained_node_takes_no_job(cluster: None, tmp_path: Path) -> None:
    drain = ["scontrol", "update", "nodename=n1", "state=drain", "reason=test"]
    subprocess.run(drain, check=True)
    try:
        assert Slurm().unavailable() == {"n1"}
        running = sweep(tmp_path / "run", "--cells", "*256_16*")
        _, said = running.communicate(timeout=120)
        assert running.returncode == 0, said
        (told,) = (tmp_path / "run" / "jobs").glob("*/job.json")
        words = ["scontrol", "show", "job", json.loads(told.read_text())["job"]]
        assert "ExcNodeList=n1" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
        run = RunFolder.open(tmp_path / "run")
        assert set(stored(run, run.points()[0].run_key, "found")["nodes"]) <= {"n2", "n3"}
    finally:
        subprocess.run(["scontrol", "update", "nodename=n1", "state=resume"], check=True)


# Pools over several nodes of one allocation

POOLS = CONFIG.with_name("pools.yaml")


def stored(run: RunFolder, key: str, name: str) -> Any:
    return json.loads((run.cell_folder(key) / f"{name}.json").read_text())


def test_pools_run_over_the_nodes_of_one_job(cluster: None, tmp_path: Path) -> None:
    running = sweep(tmp_path / "run", config=POOLS)
    _, said = running.communicate(timeout=170)
    assert running.returncode == 0, said
    assert "for 2 cells of qwen3-pools/agentic/1xTP2+2xTP1 on 3 nodes" in said
    assert submissions(said) == 1, "both concurrencies share the allocation and the engines"
    run = RunFolder.open(tmp_path / "run")
    points = run.points()
    assert [point.concurrency for point in points] == [2, 4]
    for point in points:
        found = stored(run, point.run_key, "found")
        assert found["placement"] == {"prefill0": "n1", "decode0": "n2", "decode1": "n3", "router": "n1"}
        assert found["containment"]["decode0"].endswith(" on n2")
        assert set(found["nodes"]) == {"n1", "n2", "n3"}
        assert (point.gpus, point.provenance["gpus_by_role"]) == (4, {"prefill": 2, "decode": 2})
        per_gpu, whole = point.value("throughput_per_gpu.total"), point.value("throughput.total")
        assert per_gpu == pytest.approx((whole or 0) / 4)
        outcomes = {o["expectation"]["name"]: o["stands"] for o in stored(run, point.run_key, "proof")}
        assert {outcomes[name] for name in ("engines", "kv_handed_over", "router_retries", "kv_tokens")} == {
            "confirmed"
        }


def test_the_bytes_of_the_hand_over_are_those_of_the_prompts(cluster: None, tmp_path: Path) -> None:
    """What decode workers fetched is no more than what prefill workers offered, and stands for whole blocks."""
    running = sweep(tmp_path / "run", "--cells", "*/c2", config=POOLS)
    _, said = running.communicate(timeout=170)
    assert running.returncode == 0, said
    run = RunFolder.open(tmp_path / "run")
    (point,) = run.points()
    last: dict[str, float] = {}
    for sample in run.replay_of(point.run_key).samples:
        last |= {f"{sample.endpoint} {name}": value for name, value in (sample.values or {}).items()}

    def total(name: str) -> float:
        return sum(value for key, value in last.items() if f" ridgeline:{name}" in key)

    offered, fetched = total("kv_offered_bytes_total"), total("kv_transfer_bytes_total")
    assert 0 < fetched <= offered
    assert total("relay_handed_over_total") == total("kv_offers_total")
    assert total("relay_offered_bytes_total") == offered
    block = 16 * 36 * 2 * 8 * 128 * 2  # tokens x layers x (keys, values) x heads x width x bytes
    assert fetched % block == 0
    assert total("kv_transfer_seconds_total") > 0


def test_cancelling_a_job_of_several_nodes_leaves_nothing_on_any(cluster: None, tmp_path: Path) -> None:
    tag, tmpdir = f"pools-{os.getpid()}", tmp_path / "tmp"
    tmpdir.mkdir()
    running = sweep(tmp_path / "run", config=POOLS, RIDGELINE_TEST_TAG=tag, TMPDIR=str(tmpdir))
    try:
        relay = "ridgeline.simulate.server.relay"
        assert until(lambda: any(relay in words for words in commands(tag)), 60.0), "the pools are up"
        shown = ridgeline("status", tmp_path / "run").stdout.splitlines()[0]
        assert re.match(r"(starting|ready|replay) +qwen3-pools/\S+/c2 +\S", shown), "what goes on inside the job"
        assert ridgeline("logs", tmp_path / "run", "*/c2").stdout.count("==> ") >= 3, "of the pools' services"
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
        assert running.returncode == 130
        assert until(lambda: not jobs(), 20.0)
        assert until(lambda: not processes_with(tag), 15.0), commands(tag)
        assert len(ports := leased_ports(tmpdir)) >= 4
        assert (listening(ports), held_leases(tmpdir)) == ([], [])
    finally:
        running.kill()
        Slurm().cancel(jobs())


def test_a_controller_that_is_killed_leaves_its_job_and_a_dead_batch_script_leaves_nothing(
    cluster: None, tmp_path: Path
) -> None:
    """SIGKILL of the sweep inside the job: the agents' pipes end, and Slurm ends the job's steps."""
    tag, tmpdir = f"batch-{os.getpid()}", tmp_path / "tmp"
    tmpdir.mkdir()
    running = sweep(tmp_path / "run", config=POOLS, RIDGELINE_TEST_TAG=tag, TMPDIR=str(tmpdir))
    try:
        assert until(lambda: any("server.relay" in words for words in commands(tag)), 60.0)
        running.kill()
        running.communicate()
        inner = [pid for pid in processes_with(tag) if "--only-keys" in words_of(pid)]
        assert inner, "the job lives on"
        os.kill(inner[0], signal.SIGKILL)
        assert until(lambda: not processes_with(tag), 30.0), commands(tag)
        assert len(ports := leased_ports(tmpdir)) >= 4
        assert (listening(ports), held_leases(tmpdir)) == ([], [])
    finally:
        running.kill()
        Slurm().cancel(jobs())
        assert until(lambda: not jobs(), 20.0)


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def commands(tag: str) -> list[str]:
    return [words_of(pid) for pid in processes_with(tag)]
