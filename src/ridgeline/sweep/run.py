"""The main job: every cell of a search space becomes a stored point or a recorded failure, once.

A finished cell is skipped, a failed one does not stop the others, and a sweep that is killed at any moment goes on
where it was: what is not stored under its run key has not happened.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from ridgeline import __version__
from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.finding import Expectation
from ridgeline.core.point import Point, Source
from ridgeline.results.aggregate import aggregate
from ridgeline.results.identity import run_key
from ridgeline.results.runfolder import RunFolder
from ridgeline.sweep.attempt import Attempt, AttemptFailed, Attempting
from ridgeline.sweep.deploy import expected_of_model
from ridgeline.sweep.events import Event, Kind, Listener, silence
from ridgeline.sweep.proof import Proof, from_logs, graph_misses, observed, promises, prove, with_proof
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload

LIVE = ".live"  # where the services of the cell under way keep their logs, inside the run folder


GRAPH_LANES = 2  # requests of a lane that decode at one time: its own and a subagent's

Expect = Callable[[Cell, Deployment], Sequence[Expectation]]  # what the preflight promises for a cell


class Planned(NamedTuple):
    """A cell with what it will run on and the key its point will be stored under."""

    cell: Cell
    deployment: Deployment
    source: Source
    run_key: str


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
    expect: Expect = expected_of_model

    def plan(self) -> list[Planned]:
        """Every cell with its deployment and run key, in order. Raises InputError before anything is started.

        An agentic cell says the duration that is asked for: a shorter window is another cell than the canonical hour.
        """
        return [self._planned(asked(cell, self.settings)) for cell in self.cells]

    def _planned(self, cell: Cell) -> Planned:
        deployment, source = self.deploy(cell)
        key = run_key(
            cell,
            deployment,
            image=cell.benchmark.image,
            model_revision=None,
            trace_digest=self.workload.digest(cell),
            replay_settings=self.settings.identity(),
            source=source,
        )
        return Planned(cell, deployment, source, key)

    def run(self, folder: RunFolder) -> Summary:
        """Run what is not finished yet. Raises EnvironmentFailed when results cannot be stored: then what is stored
        stays, and the cell under way is lost."""
        planned = self.plan()
        done = skipped = failed = 0
        for index, item in enumerate(planned, 1):
            if folder.finished(item.run_key):
                skipped += 1
                self._tell("skip", index, len(planned), item)
                continue
            if self._one(folder, item, index, len(planned)):
                done += 1
            else:
                failed += 1
                if self.fail_fast:
                    break
        return Summary(done, skipped, failed, len(planned) - done - skipped - failed)

    def _one(self, folder: RunFolder, item: Planned, index: int, total: int) -> bool:
        """One cell from start to stored point. False when it failed, which is stored too."""
        self._tell("begin", index, total, item)
        number = folder.attempts(item.run_key) + 1
        live = folder.path / LIVE / item.run_key[:16]
        attempting = Attempting(
            live,
            self.settings.speed,
            on_step=lambda kind, text: self._tell(kind, index, total, item, text=text),
            on_progress=lambda progress: self._tell("progress", index, total, item, progress=progress),
        )
        began = datetime.now(UTC).isoformat(timespec="seconds")
        load = self.workload.load(item.cell, f"{item.run_key[:16]}.{number}", item.deployment.served_model)
        try:
            attempt = attempting.run(item.cell, item.deployment, load)
            point, proof = self._proven(item, attempt, self._point(item, attempt, number, began))
            extra = {"found": attempt.found, "evidence": proof.evidence, "proof": proof.outcomes}
            folder.write_cell(item.cell, point, attempt.replay, item.deployment, attempt.logs, extra)
        except AttemptFailed as error:
            folder.write_failure(
                item.cell, item.run_key, error.layer, error.message, hint=error.hint or "", logs=error.logs
            )
            self._tell("failed", index, total, item, text=f"{error.layer}: {error.message}")
            return False
        finally:
            shutil.rmtree(live, ignore_errors=True)
        self._tell("done", index, total, item, point=point)
        return True

    def _point(self, item: Planned, attempt: Attempt, number: int, began: str) -> Point:
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
                **attempt.found,
            },
        )

    def _proven(self, item: Planned, attempt: Attempt, point: Point) -> tuple[Point, Proof]:
        """The point with what the run's logs, metrics and records make of its promises."""
        logged = from_logs(item.deployment, attempt.logs)
        evidence = (*logged, *observed(point, attempt.replay, item.deployment.kind))
        evidence += tuple(graph_misses(logged, GRAPH_LANES * item.cell.concurrency))
        wanted = promises(item.cell, item.deployment, self.expect(item.cell, item.deployment))
        proof = prove(wanted, evidence, readable=bool(logged))
        return with_proof(point, proof), proof

    def _tell(self, kind: Kind, index: int, total: int, item: Planned, **more: object) -> None:
        self.listen(Event(kind=kind, index=index, total=total, cell=item.cell, **more))  # type: ignore[arg-type]


def asked(cell: Cell, settings: SweepSettings) -> Cell:
    """The cell with the duration that this sweep asks of it."""
    if cell.scenario.kind != "agentic-coding":
        return cell
    return replace(cell, scenario=replace(cell.scenario, duration_s=settings.duration_s))
