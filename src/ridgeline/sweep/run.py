"""The main job: every cell of a search space becomes a stored point or a recorded failure, once.

A finished cell is skipped, a failed one does not stop the others, and a sweep that is killed at any moment goes on
where it was: what is not stored under its run key has not happened.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ridgeline import __version__
from ridgeline.core.cell import Cell, digest
from ridgeline.core.deployment import Deployment, Service
from ridgeline.core.finding import Expectation
from ridgeline.core.point import Point, Source
from ridgeline.launch.blame import Blame
from ridgeline.launch.engines import engine_kind
from ridgeline.launch.runtimes import Wrapping, reap, runtime_of
from ridgeline.launch.supervisor import Wrap
from ridgeline.results.aggregate import aggregate
from ridgeline.results.identity import run_key
from ridgeline.results.runfolder import RunFolder
from ridgeline.spec.facts.library import find_gpu
from ridgeline.sweep.attempt import Attempt, AttemptFailed, EngineStart
from ridgeline.sweep.deploy import expected_of_model
from ridgeline.sweep.events import Event, Kind, Listener, silence
from ridgeline.sweep.gpus import gpu_record
from ridgeline.sweep.groups import Group, grouped
from ridgeline.sweep.live import LIVE, LiveState
from ridgeline.sweep.proof import Proof, from_logs, graph_misses, observed, promises, prove, with_proof
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload

RETRIES = 1  # of a failure that the machine is to blame for
GRAPH_LANES = 2  # requests of a lane that decode at one time: its own and a subagent's

Expect = Callable[[Cell, Deployment], Sequence[Expectation]]  # what the preflight promises for a cell


class Planned(NamedTuple):
    """A cell with what it will run on and the key its point will be stored under; `repeat` counts from 1."""

    cell: Cell
    deployment: Deployment
    source: Source
    run_key: str
    repeat: int = 1

    @property
    def title(self) -> str:
        """The cell's name, and which repeat of it this is where it is not the first."""
        return f"{self.cell.name}, repeat {self.repeat}" if self.repeat > 1 else self.cell.name


class Summary(NamedTuple):
    """How a sweep ended: cells by what became of them. `left`: not tried, because a failure stopped the sweep."""

    done: int
    skipped: int
    failed: int
    left: int


@dataclass(slots=True)
class Sweep:
    """A search space about to be run: `deploy` says what a cell runs on and what kind of source that is."""

    cells: Sequence[Cell]
    settings: SweepSettings
    workload: Workload
    deploy: Callable[[Cell], tuple[Deployment, Source]]
    listen: Listener = silence
    fail_fast: bool = False
    failures_in_a_row: int = 3  # on one engine; then its other cells are not tried
    expect: Expect = expected_of_model
    runtime: str = "none"  # container runtime, see launch/runtimes.py
    mounts: tuple[Path, ...] = ()  # folders that services see inside their containers
    telemetry: bool = True  # of the GPUs, where a tool for it is installed
    repeats: int = 1  # how often every cell is measured; raising it later runs only the further ones
    only: frozenset[str] | None = None  # run keys; other cells are left out as if they were not asked for

    def plan(self) -> list[Planned]:
        """Every cell with its deployment and run key, in order. Raises InputError before anything is started.

        An agentic cell says the duration that is asked for: a shorter window is another cell than the canonical hour.
        Repeats go over the whole search space one after the other, so that a drift of the machine hits all cells alike.
        """
        rounds = range(1, self.repeats + 1)
        found = [self._planned(asked(cell, self.settings), repeat) for repeat in rounds for cell in self.cells]
        return [item for item in found if self.only is None or item.run_key in self.only]

    def _planned(self, cell: Cell, repeat: int) -> Planned:
        """A repeat is a measurement of its own, with its key and prompts; a later attempt supersedes it alone."""
        deployment, source = self.deploy(cell)
        key = run_key(
            cell,
            deployment,
            image=cell.benchmark.image,
            model_revision=None,
            trace_digest=self.workload.digest(cell),
            replay_settings=self.settings.identity() | ({"repeat": repeat} if repeat > 1 else {}),
            source=source,
        )
        return Planned(cell, deployment, source, key, repeat)

    def run(self, folder: RunFolder) -> Summary:
        """Run what is not finished yet, one engine start after another.

        Raises EnvironmentFailed when results cannot be stored (what is stored stays, the cell under way is lost), and
        before anything is started when nothing here launches an engine that a cell needs.
        """
        planned = self.plan()
        for item in planned:
            engine_kind(item.deployment.kind)
        runtime_of(self.runtime)
        if self.runtime == "docker":
            reap(sweep_id(folder))
        live = LiveState(folder.path / LIVE, [(item.title, item.run_key) for item in planned])
        live.begin()
        run = _Run(self, folder, planned, live)
        try:
            return run.all()
        finally:
            live.end()

    def point(self, item: Planned, attempt: Attempt, number: int, began: str) -> Point:
        """The point of one attempt, before its promises are looked at."""
        return aggregate(
            attempt.replay,
            cell=item.cell,
            source=item.source,
            run_key=item.run_key,
            attempt=number,
            measured_at=began,
            provenance={
                "ridgeline": __version__,
                "recipe": item.deployment.recipe,
                "trace": self.workload.source(item.cell),
                "settings": self.settings.identity(),
                "repeat": item.repeat,
                **attempt.found,
            },
        )

    def proven(self, item: Planned, attempt: Attempt, point: Point) -> tuple[Point, Proof]:
        """The point with what the run's logs, metrics and records make of its promises."""
        logged = from_logs(item.deployment, attempt.logs)
        evidence = (*logged, *observed(point, attempt.replay, item.deployment.kind))
        evidence += tuple(graph_misses(logged, GRAPH_LANES * item.cell.concurrency))
        shared = bool(attempt.found["served_before"])
        wanted = promises(item.cell, item.deployment, self.expect(item.cell, item.deployment), shared=shared)
        proof = prove(wanted, evidence, readable=bool(logged))
        return with_proof(point, proof), proof


@dataclass(slots=True)
class _Run:
    """One execution of a sweep. `counts`: cells by what became of them."""

    sweep: Sweep
    folder: RunFolder
    planned: Sequence[Planned]
    live: LiveState
    done: int = 0
    skipped: int = 0
    failed: int = 0

    def all(self) -> Summary:
        todo: list[tuple[int, Planned]] = []
        for index, item in enumerate(self.planned, 1):
            if self.folder.finished(item.run_key):
                self.skipped += 1
                self._tell("skip", index)
            else:
                todo.append((index, item))
        for group in grouped(todo):
            if not self._group(group):
                break
        left = len(self.planned) - self.done - self.skipped - self.failed
        return Summary(self.done, self.skipped, self.failed, left)

    def _group(self, group: Group[Planned]) -> bool:
        """Every cell of one deployment; the engine is started again after one that failed. False ends the sweep."""
        queue = list(group.members)
        failures = retried = 0
        while queue:
            index = queue[0][0]
            live = self.folder.path / LIVE / queue[0][1].run_key[:16]
            engine = EngineStart(
                group.deployment,
                live,
                self.sweep.settings.speed,
                on_step=lambda kind, text, at=index: self._tell(kind, at, text=text),  # type: ignore[misc]
                wrap=self._wrap(queue[0][1]),
                telemetry=self.sweep.telemetry,
                on_start=lambda service, phases, at=index: self.live.phases(at, service, phases.plain()),  # type: ignore[misc]
            )
            try:
                self._tell("begin", index)
                with engine:
                    while queue and (engine.usable or not engine.served):
                        at, item = queue[0]
                        if at != index:
                            self._tell("begin", at)
                        self._cell(engine, at, item)
                        queue.pop(0)
                        failures = retried = 0
            except AttemptFailed as error:
                at, item = queue.pop(0)
                failures += 1
                self._note_failure(at, item, error)
                if error.blamed is Blame.INFRASTRUCTURE and retried < RETRIES:
                    retried += 1
                    self.failed -= 1
                    queue.insert(0, (at, item))
                elif self.sweep.fail_fast:
                    return False
                elif error.blamed is Blame.RECIPE and not engine.served:
                    self._give_up(queue, error, "the same engine did not start before")
                elif failures >= self.sweep.failures_in_a_row:
                    self._give_up(queue, error, f"{failures} cells in a row failed on this engine")
            finally:
                shutil.rmtree(live, ignore_errors=True)
        return True

    def _wrap(self, item: Planned) -> Wrap | None:
        """Every service of a cell goes into the image that the cell names."""
        if self.sweep.runtime == "none":
            return None
        runtime, image = runtime_of(self.sweep.runtime), item.cell.benchmark.image
        amd = find_gpu(item.cell.benchmark.runner).vendor == "amd"

        def wrap(service: Service, argv: list[str], env: Mapping[str, str], folder: Path) -> list[str]:
            wrapping = Wrapping(
                image=image,
                name=f"ridgeline-{item.run_key[:12]}-{service.name}",
                folder=folder.resolve(),
                sweep=sweep_id(self.folder),
                mounts=self.sweep.mounts,
                gpus=service.gpus,
                amd=amd,
            )
            return runtime(argv, env, wrapping)

        return wrap

    def _cell(self, engine: EngineStart, index: int, item: Planned) -> None:
        """One cell on a running engine, from load to stored point. Raises AttemptFailed."""
        number = self.folder.attempts(item.run_key) + 1
        engine.on_step = lambda kind, text: self._tell(kind, index, text=text)
        engine.on_progress = lambda progress: self._tell("progress", index, progress=progress)
        began = datetime.now(UTC).isoformat(timespec="seconds")
        marker = f"{item.run_key[:16]}.{number}"
        load = self.sweep.workload.load(item.cell, marker, item.deployment.served_model)
        attempt = engine.replay(item.cell, load)
        point, proof = self.sweep.proven(item, attempt, self.sweep.point(item, attempt, number, began))
        extra = {"found": attempt.found, "evidence": proof.evidence, "proof": proof.outcomes}
        logs = dict(attempt.logs)
        if record := gpu_record(attempt.gpus, item.cell, item.deployment, attempt.replay, point):
            point = replace(point, measures={**point.measures, **record.power.measures})
            extra["telemetry"] = record.plain
            logs["gpu.csv"] = engine.folder / "gpu.csv"
            logs["gpu.csv"].write_text(record.table)
        self.folder.write_cell(item.cell, point, attempt.replay, item.deployment, logs, extra)
        self.done += 1
        self._tell("done", index, point=point)

    def _note_failure(self, index: int, item: Planned, error: AttemptFailed) -> None:
        self.failed += 1
        self.folder.write_failure(
            item.cell,
            item.run_key,
            error.layer,
            error.message,
            hint=error.hint or "",
            logs=error.logs,
            detail={"blame": str(error.blamed)},
        )
        self._tell("failed", index, text=f"{error.layer}: {error.message}")

    def _give_up(self, queue: list[tuple[int, Planned]], error: AttemptFailed, why: str) -> None:
        """The rest of a group, not tried: each cell is a failure that says why."""
        message = f"{why}: {error.message.splitlines()[0]}"
        while queue:
            self._note_failure(*queue.pop(0), AttemptFailed(error.layer, message, hint=error.hint, logs={}))

    def _tell(self, kind: Kind, index: int, **more: object) -> None:
        cell = self.planned[index - 1].cell
        repeat = self.planned[index - 1].repeat if self.sweep.repeats > 1 else None
        event = Event(
            kind=kind, index=index, total=len(self.planned), cell=cell, repeat=repeat, **more,  # type: ignore[arg-type]
        )  # fmt: skip
        self.live(event)
        self.sweep.listen(event)


def sweep_id(folder: RunFolder) -> str:
    """Who a container belongs to: this run folder, however often it is started."""
    return digest(str(folder.path.resolve()))[:16]


def asked(cell: Cell, settings: SweepSettings) -> Cell:
    """The cell with the duration that this sweep asks of it."""
    if cell.scenario.kind != "agentic-coding":
        return cell
    return replace(cell, scenario=replace(cell.scenario, duration_s=settings.duration_s))
