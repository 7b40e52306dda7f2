"""Slurm by its own commands: submit, ask, cancel, exclude. No library between: four commands and their text.

In: a script and options. Out: job ids and states. `run` executes a command and returns its output, so that tests need
no cluster. Raises EnvironmentFailed with Slurm's own words when a command fails.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.errors import EnvironmentFailed

Command = Callable[[Sequence[str]], str]

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "RESIZING", "SUSPENDED")
RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING")
UNAVAILABLE = ("drain", "drng", "down", "fail", "maint")  # beginnings of node states that take no jobs
COMMAND_TIMEOUT_S = 60.0


class JobState(NamedTuple):
    """A job as the queue has it. `state` GONE: the queue does not know it any more."""

    state: str
    reason: str = ""
    node: str = ""

    @property
    def live(self) -> bool:
        """Whether it still waits or runs."""
        return self.state in WAITING or self.state in RUNNING


GONE = JobState("GONE")


def run_command(words: Sequence[str]) -> str:
    """Run one of Slurm's commands."""
    if shutil.which(words[0]) is None:
        raise EnvironmentFailed(f"`{words[0]}` is not here: no Slurm on this machine", hint="run on a login node")
    try:
        done = subprocess.run(list(words), capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        message = f"`{words[0]}` did not answer within {COMMAND_TIMEOUT_S:g} s"
        raise EnvironmentFailed(message, hint="look at the controller: `scontrol ping`") from error
    if done.returncode:
        raise EnvironmentFailed(f"`{' '.join(words)}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Slurm:
    """A cluster's queue."""

    run: Command = run_command

    def submit(
        self, script: Path, *, name: str, log: Path, options: Mapping[str, str], exclude: Iterable[str] = ()
    ) -> str:
        """Queue a script; returns the job's id. `options` as in the fleet: `partition: gpu` is `--partition=gpu`; an
        empty value is a bare flag."""
        words = ["sbatch", "--parsable", f"--job-name={name}", f"--output={log}", "--open-mode=append", "--no-requeue"]
        words += [f"--{key}={value}" if value else f"--{key}" for key, value in options.items()]
        if nodes := sorted(set(exclude)):
            words.append(f"--exclude={','.join(nodes)}")
        return self.run([*words, str(script)]).strip().split(";")[0]

    def states(self, jobs: Iterable[str]) -> dict[str, JobState]:
        """State of each job, GONE for those that left the queue."""
        wanted = set(jobs)
        if not wanted:
            return {}
        found = dict.fromkeys(wanted, GONE)
        for line in self.run(["squeue", "--noheader", "--states=all", "--format=%i|%T|%r|%N"]).splitlines():
            id, state, reason, node = (*line.strip().split("|"), "", "", "")[:4]
            if id in wanted:
                found[id] = JobState(state, reason, node)
        return found

    def cancel(self, jobs: Iterable[str]) -> None:
        """Cancel jobs; those that ended already do no harm."""
        if ids := sorted(set(jobs)):
            self.run(["scancel", "--quiet", *ids])

    def nodes(self) -> set[str]:
        """Every node, whatever its state."""
        return set(self._states())

    def unavailable(self) -> set[str]:
        """Nodes that are drained, down or in maintenance."""
        return {name for name, state in self._states().items() if state.startswith(UNAVAILABLE)}

    def _states(self) -> dict[str, str]:
        lines = (line.split() for line in self.run(["sinfo", "--noheader", "-N", "--format=%N %t"]).splitlines())
        return {words[0]: words[1] for words in lines if len(words) > 1}

    def tracking(self) -> str:
        """How the cluster keeps a job's processes together: `proctrack/cgroup` holds daemons too."""
        for line in self.run(["scontrol", "show", "config"]).splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "ProctrackType":
                return value.strip()
        return "unknown"


def warning_of(tracking: str) -> str:
    """What a cluster's process tracking leaves open; empty where it holds everything."""
    if tracking == "proctrack/cgroup":
        return ""
    return f"{tracking} loses processes that leave their session: a daemon of an engine could survive its job"
