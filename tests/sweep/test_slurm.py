"""The controller of a sweep on Slurm: what it submits, gathers, tries again, and how it goes on after a kill.

The cluster is a stand-in that speaks Slurm's commands and runs each job in this process on the fake engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.sweep.test_run import FakeStart, cell, deploy, died

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.point import Source
from ridgeline.launch.blame import Blame
from ridgeline.launch.slurm import Slurm
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep import run as sweep_run
from ridgeline.sweep.attempt import AttemptFailed
from ridgeline.sweep.run import Summary, Sweep
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.slurm import SlurmSweep, local_command
from ridgeline.sweep.workload import Workload

HEADER = RunHeader(name="r", created_at="2026-01-01T00:00:00Z")


class Stopped(Exception):
    """The controller is killed."""


@dataclass
class Cluster:
    """Nodes and a queue. `plans`: what the engine of each job does, see FakeStart; a job without entry in `plans` runs
    well. A job runs when it has been looked at `runs_at` times; one whose number is in `lost` ends without a word."""

    cells: Sequence[Cell]
    deploy: Callable[[Cell], tuple[Deployment, Source]] = deploy
    nodes: dict[str, str] = field(default_factory=lambda: {"n1": "idle", "n2": "idle"})
    plans: dict[int, list[dict[int, AttemptFailed]]] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    slow: frozenset[str] = frozenset()  # jobs that never end
    runs_at: int = 1
    submitted: list[list[str]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    looks: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    stop_after: int | None = None
    used: dict[str, str] = field(default_factory=dict)

    def __call__(self, words: Sequence[str]) -> str:
        name = words[0]
        if name == "sbatch":
            self.submitted.append(list(words))
            self.scripts.append(Path(words[-1]).read_text())
            job = str(len(self.submitted))
            self.looks[job] = 0
            excluded = next((w.partition("=")[2].split(",") for w in words if w.startswith("--exclude=")), [])
            free = [n for n, state in self.nodes.items() if state == "idle" and n not in excluded]
            self.used[job] = free[0] if free else ""
            return f"{job}\n"
        if name == "squeue":
            return self._queue()
        if name == "scancel":
            self.cancelled |= set(words[2:])
            self.over |= set(words[2:])
            return ""
        if name == "sinfo":
            return "".join(f"{node} {state}\n" for node, state in self.nodes.items())
        assert words[:3] == ["scontrol", "show", "config"]
        return "ProctrackType = proctrack/cgroup\n"

    def _queue(self) -> str:
        if self.stop_after is not None:
            self.stop_after -= 1
            if self.stop_after < 0:
                raise Stopped
        lines = []
        for job in self.looks:
            if job in self.over:
                continue
            self.looks[job] += 1
            if self.looks[job] > self.runs_at and job not in self.slow:
                self._run(int(job))
                self.over.add(job)
            elif self.used[job]:
                lines.append(f"{job}|RUNNING|None|{self.used[job]}\n")
            else:
                lines.append(f"{job}|PENDING|Resources|\n")
        return "".join(lines)

    def _run(self, job: int) -> None:
        if job in self.lost:
            return
        words = self.scripts[job - 1].split("exec ")[1].split()
        out, keys = Path(words[words.index("--out") + 1]), Path(words[words.index("--only-keys") + 1])
        settings = SweepSettings(requests_per_lane=1, fixed_warmup_per_lane=0)
        FakeStart.plans[:] = self.plans.get(job, [])
        sweep = Sweep(self.cells, settings, Workload(settings), self.deploy, retries=0)
        sweep.only = frozenset(keys.read_text().split())
        with RunFolder.create_or_open(out, HEADER) as folder:
            sweep.run(folder)


@pytest.fixture
def slurm_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sweep_run, "EngineStart", FakeStart)
    FakeStart.starts.clear()
    FakeStart.plans.clear()

    def run(
        cluster: Cluster, options: dict[str, str] | None = None, **more: Any
    ) -> tuple[Summary, RunFolder, list[str]]:
        settings = SweepSettings(requests_per_lane=1, fixed_warmup_per_lane=0)
        said: list[str] = []
        sweep = Sweep(cluster.cells, settings, Workload(settings), cluster.deploy)
        with RunFolder.create_or_open(tmp_path / "run", HEADER) as folder:
            summary = SlurmSweep(
                sweep, folder, ["ridgeline", "sweep", "c.yaml"], lambda item: options or {}, Slurm(cluster),
                sleep=lambda s: None, say=said.append, **more,
            ).run()  # fmt: skip
        return summary, RunFolder.open(tmp_path / "run"), said

    return run


def on(error: AttemptFailed, *nodes: str) -> AttemptFailed:
    return AttemptFailed(error.layer, error.message, hint=None, logs={}, blamed=error.blamed, nodes=nodes)


def test_a_job_for_each_engine_start(slurm_of) -> None:
    cluster = Cluster([cell(1), cell(2), cell(1, tp=2)])
    summary, folder, said = slurm_of(cluster, {"partition": "gpu", "exclusive": ""})
    assert summary == Summary(3, 0, 0, 0)
    assert len(folder.points()) == 3
    assert len(cluster.submitted) == 2
    assert {"--partition=gpu", "--exclusive", "--no-requeue"} <= set(cluster.submitted[0])
    assert [line.split(",")[0] for line in said] == [
        "job 1 for 2 cells of k/16_4/TP1",
        "job 2 for 1 cells of k/16_4/TP2",
    ]
    again, _, _ = slurm_of(cluster)
    assert again == Summary(0, 3, 0, 0)
    assert len(cluster.submitted) == 2


def test_a_group_longer_than_its_walltime_is_split_and_a_cell_that_is_longer_fails_by_name(slurm_of) -> None:
    cluster = Cluster([cell(n) for n in (1, 2, 4, 8)])
    summary, folder, _ = slurm_of(cluster, {"time": "0:15:00"})  # the plan says 840 s for a start
    assert summary == Summary(0, 0, 4, 0)
    assert cluster.submitted == []
    failure = folder.failures()[0]
    assert failure.layer == "scheduler"
    assert "start 840 s" in failure.message
    summary, _, _ = slurm_of(cluster, {"time": "15:30"})
    assert summary.done == 4
    assert len(cluster.submitted) > 1, "each part has its own start"
    assert all("--time=15:30" in words for words in cluster.submitted)
    assert all("--walltime 15:30" in script for script in cluster.scripts), "nothing begins that would not end"


def test_several_starts_share_a_job_when_asked(slurm_of) -> None:
    cluster = Cluster([cell(1), cell(1, tp=2), cell(1, tp=4)])
    summary, _, said = slurm_of(cluster, {"time": "2:00:00"}, together=True)
    assert summary.done == 3
    assert len(cluster.submitted) == 1
    assert "3 engine starts" in said[0]


def test_a_deployment_of_several_nodes_gets_one_allocation(slurm_of) -> None:
    def wide(c: Cell) -> tuple[Deployment, Source]:
        services = tuple(Service(f"s{node}", (), node=node) for node in range(c.gpus))
        return Deployment(services, "s0", "m", "command"), Source.EMULATED

    cluster = Cluster([cell(1), cell(1, tp=2)], wide)
    slurm_of(cluster)
    assert not any(word.startswith("--nodes") for word in cluster.submitted[0])
    assert {"--nodes=2", "--ntasks-per-node=1"} <= set(cluster.submitted[1])
    cluster = Cluster([cell(2, tp=2)], wide)
    slurm_of(cluster, {"nodes": "3"})
    assert [w for w in cluster.submitted[0] if w.startswith("--nodes")] == ["--nodes=3"], "the fleet knows better"


def test_what_a_node_did_is_tried_once_more_on_another(slurm_of) -> None:
    broken = on(died("node", Blame.INFRASTRUCTURE), "n1")
    cluster = Cluster([cell(1), cell(2)], plans={1: [{0: broken}, {0: broken}]})
    summary, folder, _ = slurm_of(cluster)
    assert summary == Summary(2, 0, 0, 0)
    assert len(cluster.submitted) == 2
    assert "--exclude=n1" in cluster.submitted[1]
    assert sorted(point.attempt for point in folder.points()) == [2, 2], "attempts are counted on"


def test_a_node_that_fails_twice_is_a_failure_with_both_attempts(slurm_of) -> None:
    plans = {job: [{0: on(died("node", Blame.INFRASTRUCTURE), f"n{job}")}] for job in (1, 2)}
    summary, folder, _ = slurm_of(Cluster([cell(1)], plans=plans))
    assert summary == Summary(0, 0, 1, 0)
    (failure,) = folder.failures()
    assert (failure.attempt, failure.detail["nodes"]) == (2, ["n2"])


def test_the_last_node_left_is_not_excluded(slurm_of) -> None:
    broken = on(died("node", Blame.INFRASTRUCTURE), "n1")
    cluster = Cluster([cell(1)], nodes={"n1": "idle", "n2": "drained"}, plans={1: [{0: broken}]})
    summary, _, _ = slurm_of(cluster)
    assert summary.done == 1
    assert "--exclude=n2" in cluster.submitted[1], "the drained one only"


def test_what_the_recipe_did_is_never_tried_again(slurm_of) -> None:
    cluster = Cluster([cell(1), cell(2)], plans={1: [{0: died("engine start", Blame.RECIPE)}]})
    summary, _folder, _ = slurm_of(cluster)
    assert summary == Summary(0, 0, 2, 0)
    assert len(cluster.submitted) == 1


def test_a_job_that_ends_without_a_word_is_submitted_again_then_given_up(slurm_of) -> None:
    cluster = Cluster([cell(1)], lost=frozenset([1]))
    summary, _, _ = slurm_of(cluster)
    assert summary.done == 1
    cluster = Cluster([cell(4)], lost=frozenset([1, 2]))
    summary, folder, _ = slurm_of(cluster)
    assert summary.failed == 1
    assert len(cluster.submitted) == 2
    assert folder.failures()[0].message == "job 2 left the queue without a result for this cell"


def test_a_controller_goes_on_with_what_is_there_and_in_the_queue(slurm_of, tmp_path: Path) -> None:
    cluster = Cluster([cell(1), cell(2), cell(1, tp=2)], runs_at=3, stop_after=2)
    with pytest.raises(Stopped):
        slurm_of(cluster)
    assert len(cluster.submitted) == 2
    cluster.stop_after = None
    summary, _folder, _ = slurm_of(cluster)
    assert summary == Summary(3, 0, 0, 0)
    assert len(cluster.submitted) == 2, "both jobs were waited for"


def test_a_controller_submits_what_neither_finished_nor_waits(slurm_of, tmp_path: Path) -> None:
    cluster = Cluster([cell(1), cell(1, tp=2)], runs_at=3, stop_after=2)
    with pytest.raises(Stopped):
        slurm_of(cluster)
    cluster.stop_after = None
    cluster.over.add("1")  # it ended while nobody looked, and left nothing
    summary, _, _ = slurm_of(cluster)
    assert summary.done == 2
    assert len(cluster.submitted) == 3


def test_partial_results_are_there_while_other_jobs_wait(slurm_of, tmp_path: Path) -> None:
    cluster = Cluster([cell(1), cell(1, tp=2)], slow=frozenset(["2"]), stop_after=6)
    with pytest.raises(Stopped):
        slurm_of(cluster)
    assert [point.gpus for point in RunFolder.open(tmp_path / "run").points()] == [1]


def test_an_interrupt_cancels_the_jobs_of_this_run(slurm_of) -> None:
    class Interrupted(Cluster):
        def _queue(self) -> str:
            if self.submitted:
                raise KeyboardInterrupt
            return super()._queue()

    cluster = Interrupted([cell(1), cell(1, tp=2)])
    with pytest.raises(KeyboardInterrupt):
        slurm_of(cluster)
    assert cluster.cancelled == {"1", "2"}


def test_a_torn_note_of_a_job_is_no_job(slurm_of, tmp_path: Path) -> None:
    cluster = Cluster([cell(1)])
    slurm_of(cluster)
    (note,) = (tmp_path / "run" / "jobs").glob("*/job.json")
    assert json.loads(note.read_text())["job"] == "1"
    note.write_text('{"job": ')
    summary, _, _ = slurm_of(replace(cluster, cells=[cell(1), cell(2)]))
    assert summary == Summary(1, 1, 0, 0)


def test_the_words_of_a_job_are_those_of_the_command_line() -> None:
    words = ["c.yaml", "--executor", "slurm", "--out=runs/x", "--json", "--pack", "--seed", "7"]
    assert local_command(words, "python") == ["python", "-m", "ridgeline.cli.main", "sweep", "c.yaml", "--seed", "7"]


def test_secrets_are_named_in_a_job_and_never_written_down() -> None:
    words = ["c.yaml", "--env", "HF_TOKEN=hush-1", "--env=A_SECRET=hush-2", "--env", "A=1", "--env", "B_TOKEN={env:X}"]
    assert local_command(words, "python")[4:] == [
        *("c.yaml", "--env", "HF_TOKEN={env:HF_TOKEN}", "--env=A_SECRET={env:A_SECRET}", "--env", "A=1"),
        *("--env", "B_TOKEN={env:X}"),
    ]
    with pytest.raises(InputError, match="would be readable in the job's script") as caught:
        local_command(["c.yaml", "--command", "serve --api-key hush-3"], "python")
    assert "hush" not in str(caught.value)
    told = ["c.yaml", "--command", "serve --api-key $HF_TOKEN"]
    assert local_command(told, "python")[4:] == told


def test_an_engine_that_nothing_launches_is_refused_before_any_job(slurm_of) -> None:
    def trt(c: Cell) -> tuple[Deployment, Source]:
        return replace(deploy(c)[0], kind="trt"), Source.MEASURED

    cluster = Cluster([cell(1)], trt)
    with pytest.raises(EnvironmentFailed, match="`trt`"):
        slurm_of(cluster)
    assert cluster.submitted == []
