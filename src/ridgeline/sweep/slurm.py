"""A sweep on Slurm: one job for each engine group, results through the shared folder.

The controller (this process) submits, watches and gathers; it may be killed at any moment and started again. Each job
runs the same command line with `--executor local` on its group's cells, into a run folder of its own:

    RUN/jobs/GROUP/{keys,job.sh,job.json,slurm.log}    what was submitted
    RUN/jobs/GROUP/run/                                the job's own run folder
    RUN/{cells,failures}/                              gathered from there, a cell at a time, whole or not at all

A job that left the queue without finishing its cells is submitted again, once; Ctrl-C cancels what is queued.
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.slurm import Slurm, warning_of
from ridgeline.results import durable
from ridgeline.results.runfolder import KEY_DIGITS, RunFolder
from ridgeline.sweep.events import Event, Kind
from ridgeline.sweep.groups import Group, grouped
from ridgeline.sweep.live import LIVE, LiveState
from ridgeline.sweep.run import Planned, Summary, Sweep

JOBS = "jobs"
SUBMISSIONS = 2  # of one group in one start of the controller
POLL_S = 5.0


@dataclass(slots=True)
class SlurmSweep:
    """Runs `sweep` on a cluster. `command`: the words that run the same sweep locally, without run folder; `options`:
    sbatch's, by the runner of a group's cells."""

    sweep: Sweep
    folder: RunFolder
    command: Sequence[str]
    options: Callable[[Planned], dict[str, str]]
    slurm: Slurm = field(default_factory=Slurm)
    poll_s: float = POLL_S
    sleep: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = lambda text: None
    _planned: list[Planned] = field(default_factory=list)
    _told: dict[str, str] = field(default_factory=dict)
    _submitted: dict[str, int] = field(default_factory=dict)

    def run(self) -> Summary:
        """Submit, wait, gather. Raises EnvironmentFailed when Slurm cannot be reached; a KeyboardInterrupt cancels the
        jobs of this run and goes on up."""
        self._planned = self.sweep.plan()
        live = LiveState(self.folder.path / LIVE, [(item.cell.name, item.run_key) for item in self._planned])
        live.begin()
        if warning := warning_of(self.slurm.tracking()):
            self.say(f"warning: {warning}")
        groups = grouped(list(enumerate(self._planned, 1)))
        skipped = sum(self.folder.finished(item.run_key) for item in self._planned)
        try:
            self._watch(groups, live)
        except KeyboardInterrupt:
            self.slurm.cancel(job for group in groups if (job := self._job(group)))
            raise
        finally:
            live.end()
        done = sum(self.folder.finished(item.run_key) for item in self._planned)
        failed = len({failure.run_key for failure in self.folder.failures()} & {p.run_key for p in self._planned})
        return Summary(done - skipped, skipped, failed, len(self._planned) - done - failed)

    def _watch(self, groups: list[Group[Planned]], live: LiveState) -> None:
        for group in groups:
            self._gather(group, live)
        open_groups = [group for group in groups if not self._finished(group)]
        known = self.slurm.states(job for group in open_groups if (job := self._job(group)))
        for group in open_groups:
            job = self._job(group)
            if job is None or not known[job].live:  # a controller before us may have left a job that still runs
                self._submit(group)
        while open_groups:
            states = self.slurm.states(job for group in open_groups if (job := self._job(group)))
            for group in list(open_groups):
                state = states.get(self._job(group) or "")
                self._gather(group, live)
                if state is not None and state.live:
                    self._tell_state(group, state.state, state.node or state.reason, live)
                elif self._finished(group):
                    open_groups.remove(group)
                elif self._submitted.get(self._key(group), 0) < SUBMISSIONS:
                    self._submit(group)
                else:
                    self._lost(group, live)
                    open_groups.remove(group)
            if open_groups:
                self.sleep(self.poll_s)

    # One group

    def _key(self, group: Group[Planned]) -> str:
        return group.deployment.digest[:KEY_DIGITS]

    def _place(self, group: Group[Planned]) -> Path:
        return self.folder.path.resolve() / JOBS / self._key(group)

    def _job(self, group: Group[Planned]) -> str | None:
        try:
            return str(json.loads((self._place(group) / "job.json").read_text())["job"])
        except (OSError, ValueError, KeyError):
            return None

    def _submit(self, group: Group[Planned]) -> None:
        """Write the job down and queue it. The keys are those that have no point yet."""
        place = self._place(group)
        with durable.environment(f"write {place}"):
            place.mkdir(parents=True, exist_ok=True)
            left = [item.run_key for _, item in group.members if not self.folder.finished(item.run_key)]
            (place / "keys").write_text("".join(f"{key}\n" for key in left))
            more = ["--executor", "local", "--out", str(place / "run"), "--only-keys", str(place / "keys")]
            script = f"#!/bin/sh\nexec {shlex.join([*self.command, *more])}\n"
            (place / "job.sh").write_text(script)
        item = group.members[0][1]
        job = self.slurm.submit(
            place / "job.sh",
            name=f"ridgeline-{self._key(group)[:8]}",
            log=place / "slurm.log",
            options=self.options(item),
            exclude=self.slurm.unavailable(),
        )
        durable.write_bytes(place / "job.json", json.dumps({"job": job, "keys": left}).encode())
        self._submitted[self._key(group)] = self._submitted.get(self._key(group), 0) + 1
        self.say(f"job {job} for {len(left)} cells of {item.cell.line}")

    def _finished(self, group: Group[Planned]) -> bool:
        """Every cell has a point, or a failure from a job that ended of itself."""
        failed = {failure.run_key for failure in self.folder.failures()}
        return all(self.folder.finished(i.run_key) or i.run_key in failed for _, i in group.members)

    def _gather(self, group: Group[Planned], live: LiveState) -> None:
        """Take over what the job's run folder holds and ours does not."""
        source = self._place(group) / "run"
        if not (source / "run.json").exists():
            return
        for index, item in group.members:
            prefix = item.run_key[:KEY_DIGITS]
            for kind, pattern in (("cells", f"cells/{prefix}*"), ("failures", f"failures/{prefix}/[0-9]*")):
                for found in sorted(source.glob(pattern)):
                    target = self.folder.path / found.relative_to(source)
                    if not target.exists():
                        _adopt(found, target)
                        self._tell("done" if kind == "cells" else "failed", index, live)

    def _lost(self, group: Group[Planned], live: LiveState) -> None:
        """The job ended twice without a result: what is left of its cells failed in the scheduler."""
        log = self._place(group) / "slurm.log"
        failed = {failure.run_key for failure in self.folder.failures()}
        for index, item in group.members:
            if self.folder.finished(item.run_key) or item.run_key in failed:
                continue
            message = f"job {self._job(group)} left the queue without a result for this cell"
            hint = f"`{log}` holds what it said"
            self.folder.write_failure(item.cell, item.run_key, "scheduler", message, hint=hint, logs={log.name: log})
            self._tell("failed", index, live, text=f"scheduler: {message}")

    def _tell_state(self, group: Group[Planned], state: str, where: str, live: LiveState) -> None:
        text = f"{state.lower()} {where}".strip()
        for index, item in group.members:
            if not self.folder.finished(item.run_key) and self._told.get(item.run_key) != text:
                self._told[item.run_key] = text
                self._tell("start", index, live, text=text)

    def _tell(self, kind: Kind, index: int, live: LiveState, text: str = "") -> None:
        item = self._planned[index - 1]
        point = self.folder.point_of(item.run_key) if kind == "done" else None
        event = Event(kind=kind, index=index, total=len(self._planned), cell=item.cell, text=text, point=point)
        live(event)
        self.sweep.listen(event)


def _adopt(found: Path, target: Path) -> None:
    """Copy a finished cell or failure, whole or not at all."""
    with durable.environment(f"store {target}"), durable.new_folder(target) as folder:
        shutil.copytree(found, folder, dirs_exist_ok=True)


def local_command(words: Sequence[str], python: str) -> list[str]:
    """The words that run the same sweep locally: those of the command line without its run folder and executor."""
    kept: list[str] = []
    skip = False
    for word in words:
        name, glued, _ = word.partition("=")
        if skip:
            skip = False
        elif name in ("--out", "--executor"):
            skip = not glued
        elif name != "--json":
            kept.append(word)
    if not kept:
        raise EnvironmentFailed("there is no command line to hand to a job")
    return [python, "-m", "ridgeline.cli.main", "sweep", *kept]
