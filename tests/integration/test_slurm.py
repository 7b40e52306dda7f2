"""A sweep on a real Slurm: the same points as locally, a cancelled job, a drained node, a controller that is killed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG, QUICK, command
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


def sweep(out: Path, *more: str) -> subprocess.Popen[str]:
    words = command("sweep", CONFIG, "--executor", "slurm", "--out", out, *QUICK, *more)
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
        (log,) = (tmp_path / "run" / "jobs").glob("*/job.json")
        assert "job" in log.read_text()
    finally:
        subprocess.run(["scontrol", "update", "nodename=n1", "state=resume"], check=True)
