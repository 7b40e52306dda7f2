"""A sweep on Slurm: a job for each engine start that fits its walltime, results through the shared folder.

The controller (this process) submits, watches and gathers; it may be killed at any moment and started again. Each job
runs the same command line with `--executor local` on its cells, into a run folder of its own:

    RUN/jobs/NAME/{keys,job.sh,job.json,slurm.log}     what was submitted
    RUN/jobs/NAME/run/                                 the job's own run folder
    RUN/{cells,failures,evals}/                        gathered from there, a cell at a time, whole or not at all

A deployment of several nodes gets one allocation of that many; its services find their nodes in it by number. What the
machine is to blame for is tried once more as a new attempt, on other nodes; a job that left the queue without a result
for a cell likewise. Ctrl-C cancels what is queued.
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.launch.allocation import nodes_of
from ridgeline.launch.blame import Blame
from ridgeline.launch.secrets import masked, masked_argv
from ridgeline.launch.slurm import Slurm, warning_of
from ridgeline.results import durable
from ridgeline.results.runfolder import KEY_DIGITS, Failure, RunFolder
from ridgeline.sweep.evaluation.scored import attach
from ridgeline.sweep.events import Event, Kind
from ridgeline.sweep.groups import grouped
from ridgeline.sweep.live import LIVE, LiveState
from ridgeline.sweep.packing import Bundle, Packed, packed, walltime_s
from ridgeline.sweep.run import Planned, Summary, Sweep, refuse_unknown_engines

JOBS = "jobs"
TRIES = 2  # of one cell in one start of the controller
POLL_S = 5.0

Member = tuple[int, Planned]  # place in the sweep, from 1


@dataclass(slots=True)
class Job:
    """A submitted job and its cells."""

    place: Path
    id: str
    members: list[Member]


@dataclass(slots=True)
class SlurmSweep:
    """Runs `sweep` on a cluster. `command`: the words that run the same sweep locally, without run folder; `options`:
    sbatch's, by the runner of a cell; `together`: a job runs as many engine starts as its time holds."""

    sweep: Sweep
    folder: RunFolder
    command: Sequence[str]
    options: Callable[[Planned], dict[str, str]]
    slurm: Slurm = field(default_factory=Slurm)
    poll_s: float = POLL_S
    sleep: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = lambda text: None
    together: bool = False
    _planned: list[Planned] = field(default_factory=list)
    _told: dict[str, str] = field(default_factory=dict)
    _tries: Counter[str] = field(default_factory=Counter)
    _shunned: dict[str, set[str]] = field(default_factory=dict)  # nodes that failed, by run key
    _jobs: list[Job] = field(default_factory=list)  # that are or may be in the queue

    def run(self) -> Summary:
        """Submit, wait, gather. A cell longer than its walltime fails in the layer `scheduler`, with the arithmetic.

        Raises EnvironmentFailed when Slurm cannot be reached, or (before any job) when nothing launches an engine; a
        KeyboardInterrupt cancels the jobs of this run and goes on up."""
        self._planned = self.sweep.plan()
        refuse_unknown_engines(self._planned)
        live = LiveState(self.folder.path / LIVE, [(item.title, item.run_key) for item in self._planned])
        live.begin()
        if warning := warning_of(self.slurm.tracking()):
            self.say(f"warning: {warning}")
        skipped = sum(map(self._finished, self._planned))
        try:
            self._watch(live)
        except KeyboardInterrupt:
            self.slurm.cancel(job.id for job in self._jobs)
            raise
        finally:
            live.end()
        done = sum(map(self._finished, self._planned))
        failed = len(self._failures().keys() & {item.run_key for item in self._planned})
        return Summary(done - skipped, skipped, failed, len(self._planned) - done - failed)

    def _watch(self, live: LiveState) -> None:
        """A controller before us may have left results, and jobs that still wait or run: they come first."""
        self._gather(live)
        before = self._left_behind()
        states = self.slurm.states(job.id for job in before)
        self._jobs = [job for job in before if states[job.id].live]
        covered = {item.run_key for job in self._jobs for _, item in job.members}
        self._submit([(at, item) for at, item in self._open() if item.run_key not in covered], live)
        while self._jobs:
            states = self.slurm.states(job.id for job in self._jobs)
            self._gather(live)
            for job in list(self._jobs):
                state = states[job.id]
                if state.live:
                    self._tell_state(job, state.state, state.node or state.reason, live)
                else:
                    self._jobs.remove(job)
                    self._ended(job, live)
            if self._jobs:
                self.sleep(self.poll_s)

    def _ended(self, job: Job, live: LiveState) -> None:
        """A job is gone: what it did not finish is tried again or has failed."""
        failures = self._failures()
        again: list[Member] = []
        for at, item in job.members:
            if self._finished(item):
                continue
            failure = failures.get(item.run_key)
            if failure is not None and not self._elsewhere(failure):
                continue
            if self._tries[item.run_key] < TRIES:
                again.append((at, item))
                if failure is not None:
                    self._shunned.setdefault(item.run_key, set()).update(failure.detail.get("nodes", ()))
            elif failure is None:
                self._lost(job, at, item, live)
        self._submit(again, live)

    def _elsewhere(self, failure: Failure) -> bool:
        """Whether a failure is worth another node: the machine did it, and no later attempt said otherwise."""
        return failure.detail.get("blame") == str(Blame.INFRASTRUCTURE)

    # Submitting

    def _open(self) -> list[Member]:
        """Cells without a result that a job is to be asked for: those that never ran, and (once a start of this
        controller) those that failed before."""
        return [(at, item) for at, item in enumerate(self._planned, 1) if not self._finished(item)]

    def _submit(self, members: Sequence[Member], live: LiveState) -> None:
        bundles: list[Bundle[Planned]] = []
        for walltime, own in self._by_walltime(members).items():
            found = self._packed(own, walltime)
            for long in found.refused:
                message = f"does not fit its walltime: {long.why}"
                hint = "a longer `time` in the fleet's scheduler options, or a shorter window"
                self.folder.write_failure(long.item.cell, long.item.run_key, "scheduler", message, hint=hint)
                self._tell("failed", long.at, live, text=f"scheduler: {message}")
            bundles += found.bundles
        for bundle in bundles:
            self._jobs.append(self._queue(bundle))

    def _by_walltime(self, members: Sequence[Member]) -> Mapping[float | None, list[Member]]:
        found: dict[float | None, list[Member]] = {}
        for at, item in members:
            text = self.options(item).get("time")
            found.setdefault(walltime_s(text) if text else None, []).append((at, item))
        return found

    def _packed(self, members: Sequence[Member], walltime: float | None) -> Packed[Planned]:
        def alike(item: Planned) -> object:
            return tuple(sorted(self.options(item).items())), nodes_of(item.deployment)

        return packed(grouped(members), self.sweep.expected, walltime, together=alike if self.together else None)

    def _queue(self, bundle: Bundle[Planned]) -> Job:
        """Write a job down and queue it."""
        members = bundle.members
        item = members[0][1]
        place = self._free_place(item)
        keys = [member.run_key for _, member in members]
        with durable.environment(f"write {place}"):
            self._seed(place / "run", keys)
            (place / "keys").write_text("".join(f"{key}\n" for key in keys))
            more = ["--executor", "local", "--out", str(place / "run"), "--only-keys", str(place / "keys")]
            if walltime := self.options(item).get("time"):  # begins nothing that Slurm would end
                more += ["--walltime", walltime]
            (place / "job.sh").write_text(f"#!/bin/sh\nexec {shlex.join([*self.command, *more])}\n")
        shunned = set().union(*(self._shunned.get(key, set()) for key in keys))
        nodes = max(nodes_of(member.deployment) for _, member in members)
        spread = {"nodes": str(nodes), "ntasks-per-node": "1"} if nodes > 1 else {}
        job = self.slurm.submit(
            place / "job.sh",
            name=f"ridgeline-{place.name[:8]}",
            log=place / "slurm.log",
            options={**spread, **self.options(item)},
            exclude=self._excluded(shunned, nodes),
        )
        durable.write_bytes(place / "job.json", json.dumps({"job": job, "keys": keys}).encode())
        self._tries.update(keys)
        what = item.cell.line if len(bundle.parts) == 1 else f"{len(bundle.parts)} engine starts"
        on = f" on {nodes} nodes" if nodes > 1 else ""
        self.say(f"job {job} for {len(keys)} cells of {what}{on}, about {bundle.seconds / 60:,.0f} min")
        return Job(place, job, list(members))

    def _excluded(self, shunned: set[str], needed: int) -> set[str]:
        """Nodes that take no jobs, and those that failed these cells, as long as enough others are left."""
        away = self.slurm.unavailable()
        left = self.slurm.nodes() - away - shunned
        return away | shunned if len(left) >= needed else away

    def _free_place(self, item: Planned) -> Path:
        """A folder for a job: named by its engine, numbered from the second on."""
        jobs = self.folder.path.resolve() / JOBS
        name = item.deployment.digest[:KEY_DIGITS]
        number = 1
        while (place := jobs / (name if number == 1 else f"{name}.{number}")).exists():
            number += 1
        place.mkdir(parents=True)
        return place

    def _seed(self, run: Path, keys: Iterable[str]) -> None:
        """Give a job's run folder the failures of its cells, so that attempts are counted on."""
        with RunFolder.create_or_open(run, self.folder.header) as folder:
            for key in keys:
                source = self.folder.path / "failures" / key[:KEY_DIGITS]
                if source.is_dir():
                    shutil.copytree(source, folder.path / "failures" / key[:KEY_DIGITS])

    def _left_behind(self) -> list[Job]:
        """Jobs that an earlier controller wrote down."""
        places = {item.run_key: (at, item) for at, item in enumerate(self._planned, 1)}
        found = []
        for file in sorted((self.folder.path.resolve() / JOBS).glob("*/job.json")):
            try:
                told = json.loads(file.read_text())
                members = [places[key] for key in told["keys"] if key in places]
                found.append(Job(file.parent, str(told["job"]), members))
            except (OSError, ValueError, KeyError):
                continue
        return [job for job in found if job.members]

    # Gathering

    def _finished(self, item: Planned) -> bool:
        return self.sweep.finished(self.folder, item)

    def _failures(self) -> dict[str, Failure]:
        """The last failure of each cell without a point."""
        return {failure.run_key: failure for failure in self.folder.failures()}

    def _gather(self, live: LiveState) -> None:
        """Take over what the jobs' run folders hold and ours does not."""
        scored = False
        for source in sorted((self.folder.path / JOBS).glob("*/run")):
            for at, item in enumerate(self._planned, 1):
                prefix = item.run_key[:KEY_DIGITS]
                patterns = (f"cells/{prefix}*", f"evals/eval_{prefix}", f"failures/{prefix}/[0-9]*")
                for pattern in patterns:
                    for found in sorted(source.glob(pattern)):
                        target = self.folder.path / found.relative_to(source)
                        if not target.exists():
                            _adopt(found, target)
                            kind = found.relative_to(source).parts[0]
                            scored |= kind == "evals"
                            self._tell("failed" if kind == "failures" else "done", at, live)
        if scored:
            attach(self.folder)

    def _lost(self, job: Job, at: int, item: Planned, live: LiveState) -> None:
        """Jobs ended again and again without a result for a cell: it failed in the scheduler."""
        log = job.place / "slurm.log"
        message = f"job {job.id} left the queue without a result for this cell"
        hint = f"`{log}` holds what it said"
        self.folder.write_failure(item.cell, item.run_key, "scheduler", message, hint=hint, logs={log.name: log})
        self._tell("failed", at, live, text=f"scheduler: {message}")

    def _tell_state(self, job: Job, state: str, where: str, live: LiveState) -> None:
        text = f"{state.lower()} {where}".strip()
        for at, item in job.members:
            if not self._finished(item) and self._told.get(item.run_key) != text:
                self._told[item.run_key] = text
                self._tell("start", at, live, text=text)

    def _tell(self, kind: Kind, at: int, live: LiveState, text: str = "") -> None:
        item = self._planned[at - 1]
        point = self.folder.point_of(item.run_key) if kind == "done" and not item.task else None
        event = Event(kind=kind, index=at, total=len(self._planned), cell=item.cell, text=text, point=point)
        live(event)
        self.sweep.listen(event)


def _adopt(found: Path, target: Path) -> None:
    """Copy a finished cell or failure, whole or not at all."""
    with durable.environment(f"store {target}"), durable.new_folder(target) as folder:
        shutil.copytree(found, folder, dirs_exist_ok=True)


def local_command(words: Sequence[str], python: str) -> list[str]:
    """The words that run the same sweep locally: those of the command line without its run folder and executor. They
    are written down for all to read: secrets of `--env` are named there, and the job inherits them from us. Raises
    InputError for others."""
    kept: list[str] = []
    skip = False
    for word in words:
        name, glued, _ = word.partition("=")
        if skip:
            skip = False
        elif name in ("--out", "--executor"):
            skip = not glued
        elif name not in ("--json", "--pack"):
            kept.append(_named(word, after=kept[-1] if kept else ""))
    if not kept:
        raise EnvironmentFailed("there is no command line to hand to a job")
    told = [shown for word, shown in zip(kept, masked_argv(kept), strict=True) if word != shown]
    if told:
        hint = "export it, and name it as `$NAME` in a command or `{env:NAME}` in an environment"
        raise InputError([Problem(f"`{word}` would be readable in the job's script", hint=hint) for word in told])
    return [python, "-m", "ridgeline.cli.main", "sweep", *kept]


def _named(word: str, after: str) -> str:
    """`--env SECRET=VALUE` as `--env SECRET={env:SECRET}`; other words as they are."""
    glued = word.startswith("--env=")
    if after != "--env" and not glued:
        return word
    head, text = ("--env=", word.removeprefix("--env=")) if glued else ("", word)
    name, _, value = text.partition("=")
    return word if masked(name, value) == value else f"{head}{name}={{env:{name}}}"
