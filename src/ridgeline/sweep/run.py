"""The main job: every cell of a search space becomes a stored point or a recorded failure, once.

A finished cell is skipped, a failed one does not stop the others, and a sweep that is killed at any moment goes on
where it was: what is not stored under its run key has not happened.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ridgeline import __version__
from ridgeline.core.cell import Cell, digest
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed, RidgelineError
from ridgeline.core.finding import Expectation
from ridgeline.core.point import Point, Source
from ridgeline.launch.allocation import Allocation, OneMachine
from ridgeline.launch.blame import Blame
from ridgeline.launch.engines import engine_kind, spoken
from ridgeline.launch.runtimes import runtime_of
from ridgeline.launch.secrets import without_secrets
from ridgeline.launch.supervisor import Wrap
from ridgeline.plan.estimate import DEFAULTS
from ridgeline.recipes.placement import occupied
from ridgeline.results.aggregate import aggregate
from ridgeline.results.identity import run_key
from ridgeline.results.runfolder import KEY_DIGITS, RunFolder
from ridgeline.sweep.attempt import Attempt, AttemptFailed, EngineStart
from ridgeline.sweep.containers import wrap_in
from ridgeline.sweep.deploy import expected_of_model, same_source
from ridgeline.sweep.evaluation import Status, changes
from ridgeline.sweep.evaluation.scored import Evaluation, attach, is_scored, refuse_without_program, score
from ridgeline.sweep.events import Event, Kind, Listener, silence
from ridgeline.sweep.gpus import gpu_record
from ridgeline.sweep.live import LIVE, LiveState
from ridgeline.sweep.order import Order, in_order
from ridgeline.sweep.packing import arithmetic
from ridgeline.sweep.proof import Proof, from_logs, graph_misses, observed, promises, prove, with_proof
from ridgeline.sweep.scripts import logs_in
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.times import Times, TimesStore
from ridgeline.sweep.workload import Workload

RETRIES = 1  # of a failure that the machine is to blame for
GRAPH_LANES = 2  # requests of a lane that decode at one time: its own and a subagent's

Expect = Callable[[Cell, Deployment], Sequence[Expectation]]  # what the preflight promises for a cell
Fits = Callable[[int, bool], bool]  # whether there is time for a cell, and for a start before it
Say = Callable[[int, str], None]


class Planned(NamedTuple):
    """A cell with what it will run on and the key its point will be stored under; `repeat` counts from 1."""

    cell: Cell
    deployment: Deployment
    source: Source
    run_key: str
    repeat: int = 1
    task: str = ""  # what is scored; empty: the cell is timed

    @property
    def title(self) -> str:
        """The cell's name, what is scored if that is it, and which repeat of it this is where it is not the first."""
        name = f"{self.cell.name}, {self.task}" if self.task else self.cell.name
        return f"{name}, repeat {self.repeat}" if self.repeat > 1 else name


# All cells, what is stored of them: a point, or None for what is scored.
Chooser = Callable[[Sequence[Planned], Mapping[int, Point | None], Fits, Say], Order]


class Summary(NamedTuple):
    """How a sweep ended: cells by what became of them. `left`: not tried, because a failure stopped the sweep or time
    ran out; `spared`: not worth their hours, or beyond the budget, in an adaptive sweep; `below`: evaluations below
    their bar, which are done all the same."""

    done: int
    skipped: int
    failed: int
    left: int
    spared: int = 0
    below: int = 0


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
    machines: Allocation = field(default_factory=OneMachine)  # where the nodes of deployments are
    retries: int = RETRIES  # here; a controller of jobs tries elsewhere instead
    times: TimesStore = field(default_factory=TimesStore)
    ends_at: float | None = None  # on the monotonic clock: no cell begins that would not end before
    choose: Chooser | None = None  # picks cells from what was measured; None: all of them, engine by engine
    evaluation: Evaluation | None = None

    def plan(self) -> list[Planned]:
        """Every cell with its deployment and run key, in order. Raises InputError before anything is started.

        An agentic cell says the duration that is asked for: a shorter window is another cell than the canonical hour.
        Repeats go over the whole search space one after the other, so that a drift of the machine hits all cells alike.
        """
        rounds = range(1, self.repeats + 1)
        found = [self._planned(asked(cell, self.settings), repeat) for repeat in rounds for cell in self.cells]
        if self.evaluation is not None:
            chosen = (asked(cell, self.settings) for cell in self.cells if cell.name in self.evaluation.cells)
            found += [self._scored(cell, self.evaluation) for cell in chosen]
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

    def _scored(self, cell: Cell, evaluation: Evaluation) -> Planned:
        deployment, source = evaluation.deploy(cell)
        key = run_key(
            cell,
            deployment,
            image=cell.benchmark.image,
            model_revision=None,
            trace_digest=None,
            replay_settings={"evaluation": evaluation.task.digest},
            source=source,
        )
        return Planned(cell, deployment, source, key, task=evaluation.task.name)

    def finished(self, folder: RunFolder, item: Planned) -> bool:
        """Whether a run holds what came of an item."""
        return is_scored(folder.path, item.run_key) if item.task else folder.finished(item.run_key)

    def expected(self, item: Planned) -> Times:
        """What an item will take, real seconds."""
        times = self.times.expect(item.cell, item.deployment, self.settings)
        if item.task:
            return times._replace(warmup_s=0.0, window_s=DEFAULTS.eval_s, drain_s=0.0, source="as planned")
        return times

    def run(self, folder: RunFolder) -> Summary:
        """Run what is not finished yet, one engine start after another.

        Raises EnvironmentFailed when results cannot be stored (what is stored stays, the cell under way is lost), and
        before anything is started when nothing here launches an engine that a cell needs.
        """
        planned = self.plan()
        refuse_unknown_engines(planned)
        runtime_of(self.runtime)
        if self.evaluation is not None and any(item.task for item in planned):
            refuse_without_program(self.evaluation)
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
            gpus=sum(occupied(item.cell).values()),
            provenance={
                "ridgeline": __version__,
                "recipe": item.deployment.recipe,
                "trace": self.workload.source(item.cell),
                "trace_digest": self.workload.digest(item.cell),
                "settings": self.settings.identity(),
                "repeat": item.repeat,
                "gpus_by_role": occupied(item.cell),
                **attempt.found,
            },
        )

    def proven(self, item: Planned, attempt: Attempt, point: Point) -> tuple[Point, Proof]:
        """The point with what the run's logs, metrics and records make of its promises."""
        logged = from_logs(item.deployment, attempt.logs)
        pool = min((float(piece.value) for piece in logged if piece.name == "kv_tokens"), default=None)
        evidence = (*logged, *observed(point, attempt.replay, spoken(item.deployment).kind, pool))
        evidence += tuple(graph_misses(logged, GRAPH_LANES * item.cell.concurrency))
        shared = bool(attempt.found["served_before"])
        wanted = promises(item.cell, item.deployment, self.expect(item.cell, item.deployment), shared=shared)
        proof = prove(wanted, evidence, readable=bool(logged))
        return with_proof(point, proof), proof


@dataclass(slots=True)
class _Trouble:
    """Of one engine since its last point: failures in a row, and how many of them were tried again."""

    failures: int = 0
    retried: int = 0


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
    below: int = 0
    _trouble: dict[str, _Trouble] = field(default_factory=dict)  # by deployment

    def all(self) -> Summary:
        todo: list[tuple[int, Planned]] = []
        stored: dict[int, Point | None] = {}
        for index, item in enumerate(self.planned, 1):
            if not self.sweep.finished(self.folder, item):
                todo.append((index, item))
                continue
            self.skipped += 1
            self._tell("skip", index)
            stored[index] = None if item.task else self.folder.point_of(item.run_key)
        choose = self.sweep.choose
        order = in_order(todo, self._fits) if choose is None else choose(self.planned, stored, self._fits, self._said)
        while (following := order.next()) is not None and self._start(order, following):
            pass
        left = len(self.planned) - self.done - self.skipped - self.failed
        spared = left if choose is not None and order.next() is None else 0
        return Summary(self.done, self.skipped, self.failed, left - spared, spared, self.below)

    def _start(self, order: Order, index: int) -> bool:
        """One start of an engine and the cells that follow on it. False ends the sweep."""
        item = self.planned[index - 1]
        digest_ = item.deployment.digest
        live = self.folder.path / LIVE / item.run_key[:KEY_DIGITS]
        shutil.rmtree(live, ignore_errors=True)  # of a start that was killed: its logs are not this one's
        engine = EngineStart(
            item.deployment,
            live,
            self.sweep.settings.speed,
            on_step=lambda kind, text: self._tell(kind, index, text=text),
            wrap=self._wrap(item),
            telemetry=self.sweep.telemetry,
            on_start=lambda service, phases: self.live.phases(index, service, phases.plain()),
            machines=self.sweep.machines,
            owner=sweep_id(self.folder) if self.sweep.runtime == "docker" else "",
        )
        at = index
        try:
            self._tell("begin", index)
            self.live.note(index, engine=live.name)
            with engine:
                self.live.note(index, containment=engine.containment)
                while True:
                    point = self._cell(engine, at, self.planned[at - 1])
                    self._trouble.pop(digest_, None)
                    order.done(at, point)
                    following = order.next()
                    if following is None or self.planned[following - 1].deployment.digest != digest_:
                        return True
                    if not engine.usable:
                        return True
                    at = following
                    self._tell("begin", at)
        except AttemptFailed as error:
            return self._failed(order, at, error, served=engine.served)
        finally:
            shutil.rmtree(live, ignore_errors=True)

    def _failed(self, order: Order, at: int, error: AttemptFailed, *, served: int) -> bool:
        """What a failure means for its cell and for those to come on the same engine. False ends the sweep."""
        item = self.planned[at - 1]
        trouble = self._trouble.setdefault(item.deployment.digest, _Trouble())
        trouble.failures += 1
        self._note_failure(at, item, error)
        if error.blamed is Blame.INFRASTRUCTURE and trouble.retried < self.sweep.retries:
            trouble.retried += 1
            self.failed -= 1
            return True  # the order still has it next
        why = ""
        if error.blamed is Blame.RECIPE and not served:
            why = "the same engine did not start before"
        elif trouble.failures >= self.sweep.failures_in_a_row:
            why = f"{trouble.failures} cells in a row failed on this engine"
        given_up = order.drop(at) if why and not self.sweep.fail_fast else []
        order.failed(at)
        message = f"{why}: {error.message.splitlines()[0]}"
        for other in given_up:
            lost = AttemptFailed(error.layer, message, hint=error.hint, logs={})
            self._note_failure(other, self.planned[other - 1], lost)
        return not self.sweep.fail_fast

    def _fits(self, index: int, starts: bool) -> bool:
        """Whether a cell ends before the sweep must; one that does not is named."""
        if self.sweep.ends_at is None:
            return True
        times = self.sweep.expected(self.planned[index - 1])
        there = self.sweep.ends_at - time.monotonic()
        if (times.start_s if starts else 0.0) + times.cell_s <= there:
            return True
        self._tell("left", index, text=arithmetic(times, max(0.0, there)))
        return False

    def _said(self, index: int, text: str) -> None:
        self._tell("chosen", index, text=text)

    def _wrap(self, item: Planned) -> Wrap | None:
        """Every service of a cell goes into the image that the cell names."""
        sweep, name = self.sweep, f"ridgeline-{item.run_key[:12]}"
        return wrap_in(sweep.runtime, item.cell, name=name, owner=sweep_id(self.folder), mounts=sweep.mounts)

    def _cell(self, engine: EngineStart, index: int, item: Planned) -> Point | None:
        """One cell on a running engine, from load to stored point; None when it is scored. Raises AttemptFailed."""
        self.live.note(index, engine=engine.folder.name)
        if item.task:
            self._score(engine, index, item)
            return None
        number = self.folder.attempts(item.run_key) + 1
        engine.on_step = lambda kind, text: self._tell(kind, index, text=text)
        engine.on_progress = lambda progress: self._tell("progress", index, progress=progress)
        began = datetime.now(UTC).isoformat(timespec="seconds")
        marker = f"{item.run_key[:16]}.{number}"
        try:
            load = self.sweep.workload.load(item.cell, marker, item.deployment.served_model)
        except RidgelineError as error:
            raise AttemptFailed("load", str(error), hint=None, logs={}) from error
        attempt = engine.replay(item.cell, load)
        try:
            same_source(item.source, item.deployment, attempt.replay)
        except EnvironmentFailed as error:
            failed = AttemptFailed("ready", error.message, hint=error.hint, logs=attempt.logs, blamed=Blame.RECIPE)
            raise failed from error
        left = engine.finish()
        told = attempt if left is None else attempt._replace(logs={**attempt.logs, **logs_in(left)})
        point, proof = self.sweep.proven(item, told, self.sweep.point(item, attempt, number, began))
        extra = {"found": attempt.found, "evidence": proof.evidence, "proof": proof.outcomes}
        logs = dict(attempt.logs)
        if record := gpu_record(attempt.gpus, item.cell, item.deployment, attempt.replay, point):
            point = replace(point, measures={**point.measures, **record.power.measures})
            extra["telemetry"] = record.plain
            logs["gpu.csv"] = engine.folder / "gpu.csv"
            logs["gpu.csv"].write_text(record.table)
        self.folder.write_cell(
            item.cell, point, attempt.replay, without_secrets(item.deployment), logs, extra, artifacts=left
        )
        started = None if attempt.found["served_before"] else engine.start_s
        self.sweep.times.note(item.cell, item.deployment, self.sweep.settings, started, attempt.replay.phases)
        if self.sweep.evaluation is not None:
            attach(self.folder)
        self.done += 1
        self._tell("done", index, point=point)
        return point

    def _score(self, engine: EngineStart, index: int, item: Planned) -> None:
        """Let the engine answer a task. Raises AttemptFailed."""
        evaluation = self.sweep.evaluation
        assert evaluation is not None, "a task is planned by an evaluation"
        engine.on_step = lambda kind, text: self._tell(kind, index, text=text)
        timed, _ = self.sweep.deploy(item.cell)
        differs = "; ".join(changes(timed, item.deployment)) or "nothing"
        self._tell("chosen", index, text=f"{item.task} is scored; what differs from the timed engine: {differs}")
        told = engine.answer(
            item.task,
            lambda url: score(
                evaluation, item.cell, item.source, item.run_key, self.folder, timed, item.deployment, url,
                lambda: engine.logs,
            ),
        )  # fmt: skip
        self.done += 1
        self.below += told.status is Status.FAILED
        self._tell("done", index, text=told.text())

    def _note_failure(self, index: int, item: Planned, error: AttemptFailed) -> None:
        self.failed += 1
        self.folder.write_failure(
            item.cell,
            item.run_key,
            error.layer,
            error.message,
            hint=error.hint or "",
            logs=error.logs,
            detail={"blame": str(error.blamed), "nodes": list(error.nodes)},
        )
        self._tell("failed", index, text=f"{error.layer}: {error.message}")

    def _tell(self, kind: Kind, index: int, **more: object) -> None:
        cell = self.planned[index - 1].cell
        repeat = self.planned[index - 1].repeat if self.sweep.repeats > 1 else None
        event = Event(
            kind=kind, index=index, total=len(self.planned), cell=cell, repeat=repeat, **more,  # type: ignore[arg-type]
        )  # fmt: skip
        self.live(event)
        self.sweep.listen(event)


def refuse_unknown_engines(planned: Sequence[Planned]) -> None:
    """Raise EnvironmentFailed, naming the first engine that nothing here launches."""
    for item in planned:
        engine_kind(item.deployment.kind)


def sweep_id(folder: RunFolder) -> str:
    """Who a container belongs to: this run folder, however often it is started."""
    return digest(str(folder.path.resolve()))[:16]


def asked(cell: Cell, settings: SweepSettings) -> Cell:
    """The cell with the duration that this sweep asks of it."""
    if cell.scenario.kind != "agentic-coding":
        return cell
    return replace(cell, scenario=replace(cell.scenario, duration_s=settings.duration_s))
