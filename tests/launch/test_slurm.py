"""What is said to Slurm and what is read from it; which words a job gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.slurm import GONE, Slurm, run_command, warning_of
from ridgeline.sweep.slurm import local_command


class Said:
    """A cluster that answers from a table and remembers what it was told."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.words: list[Sequence[str]] = []

    def __call__(self, words: Sequence[str]) -> str:
        self.words.append(words)
        return self.answers.get(words[0], "")


def test_a_job_is_submitted_with_the_fleets_options_and_without_bad_nodes() -> None:
    said = Said(sbatch="4711;cluster\n")
    options = {"account": "bench", "exclusive": "", "gres": "gpu:8"}
    job = Slurm(said).submit(Path("/x/job.sh"), name="n", log=Path("/x/log"), options=options, exclude=["n2", "n1"])
    assert job == "4711"
    assert list(said.words[0]) == [
        *("sbatch", "--parsable", "--job-name=n", "--output=/x/log", "--open-mode=append", "--no-requeue"),
        *("--account=bench", "--exclusive", "--gres=gpu:8", "--exclude=n1,n2", "/x/job.sh"),
    ]


def test_states_are_read_and_unknown_jobs_are_gone() -> None:
    queue = "11|RUNNING|None|n1\n12|PENDING|Resources|\n13|CANCELLED|None|n2\n99|RUNNING|None|n9\n"
    states = Slurm(Said(squeue=queue)).states(["11", "12", "13", "14"])
    assert {job: state.live for job, state in states.items()} == {"11": True, "12": True, "13": False, "14": False}
    assert states["14"] is GONE
    assert (states["12"].reason, states["11"].node) == ("Resources", "n1")
    assert Slurm(Said()).states([]) == {}


def test_nodes_that_take_no_jobs() -> None:
    said = Said(sinfo="n1 idle\nn2 drain\nn3 drng\nn4 down*\nn5 mix\nn6 maint\n")
    assert Slurm(said).unavailable() == {"n2", "n3", "n4", "n6"}


def test_weak_process_tracking_is_warned_of() -> None:
    said = Said(scontrol="KillWait = 30\nProctrackType           = proctrack/linuxproc\n")
    assert "linuxproc" in warning_of(Slurm(said).tracking())
    assert warning_of("proctrack/cgroup") == ""


def test_cancel_says_nothing_for_no_jobs() -> None:
    said = Said()
    Slurm(said).cancel([])
    Slurm(said).cancel(["2", "1", "2"])
    assert [list(words) for words in said.words] == [["scancel", "--quiet", "1", "2"]]


def test_a_cluster_that_is_not_there_is_told_by_name() -> None:
    with pytest.raises(EnvironmentFailed, match="no-such-sbatch"):
        run_command(["no-such-sbatch"])
    with pytest.raises(EnvironmentFailed, match="`false` failed"):
        run_command(["false"])


def test_a_job_runs_the_same_words_without_folder_and_executor() -> None:
    words = ["a.yaml", "--executor", "slurm", "--out", "runs/x", "--speed", "20", "--json", "--cells=*fp8*"]
    assert local_command(words, "py") == [
        *("py", "-m", "ridgeline.cli.main", "sweep", "a.yaml", "--speed", "20", "--cells=*fp8*"),
    ]
    assert local_command(["a.yaml", "--executor=slurm", "--out=x"], "py")[-1] == "a.yaml"
    with pytest.raises(EnvironmentFailed):
        local_command([], "py")
