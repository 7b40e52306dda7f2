"""How long a cell takes: learned from earlier ones, estimated from the plan where nothing was learned.

In: what finished cells took (start of the engine, warm-up, window, drain; real seconds). Out: an expectation for a cell
that is to come. The store is one file of JSON lines that only grows; a line that is not understood is left out.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.record import Phases
from ridgeline.plan.estimate import arm_plans
from ridgeline.plan.outline import Planned as Outlined
from ridgeline.sweep.settings import SweepSettings

EMULATED_START_S = 15.0  # an interpreter and an HTTP server, on a busy machine
NEAREST = 8  # times of one kind that are looked at, those of the nearest concurrency first


class Times(NamedTuple):
    """Real seconds. `source`: where they come from, for people."""

    start_s: float
    warmup_s: float
    window_s: float
    drain_s: float
    source: str = ""

    @property
    def cell_s(self) -> float:
        """Of the cell itself, on an engine that runs."""
        return self.warmup_s + self.window_s + self.drain_s


@dataclass(frozen=True, slots=True)
class _Seen:
    """One finished cell. `start_s` None: it ran on an engine that another cell had started."""

    deployment: str
    engine: str
    work: str
    concurrency: int
    start_s: float | None
    warmup_s: float
    window_s: float
    drain_s: float


@dataclass(slots=True)
class TimesStore:
    """The times of earlier cells. `path` None: nothing is known and nothing kept."""

    path: Path | None = None
    _seen: list[_Seen] | None = field(default=None, init=False)

    def note(
        self, cell: Cell, deployment: Deployment, settings: SweepSettings, start_s: float | None, phases: Phases
    ) -> None:
        """Keep what a cell took. A folder that cannot be written to loses this knowledge and nothing else."""
        ends = (phases.start_ns, phases.profiling_start_ns, phases.profiling_end_ns, phases.drained_ns)
        if self.path is None or any(end is None for end in ends):
            return
        began, profiling, ended, drained = (float(end or 0) / 1e9 / settings.speed for end in ends)
        seen = _Seen(
            deployment.digest, engine_of(cell, deployment), work_of(cell, settings), cell.concurrency, start_s,
            profiling - began, ended - profiling, max(0.0, drained - ended),
        )  # fmt: skip
        line = json.dumps({name: getattr(seen, name) for name in _Seen.__slots__}) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(line)  # one write of a short line: several sweeps may append
        except OSError:
            return
        if self._seen is not None:
            self._seen.append(seen)

    def expect(self, cell: Cell, deployment: Deployment, settings: SweepSettings) -> Times:
        """What a cell will take."""
        planned = estimate(cell, deployment, settings)
        digest, engine = deployment.digest, engine_of(cell, deployment)
        same = [seen for seen in self._all() if seen.deployment == digest]
        alike = same or [seen for seen in self._all() if seen.engine == engine]
        starts = [seen.start_s for seen in alike if seen.start_s is not None]
        start = max(starts[-NEAREST:]) if starts else planned.start_s
        loads = _nearest((seen for seen in alike if seen.work == work_of(cell, settings)), cell.concurrency)
        if not loads:
            source = "start as before, the rest as planned" if starts else "as planned"
            return planned._replace(start_s=start, source=source)
        spent = (
            median(seen.warmup_s for seen in loads),
            median(s.window_s for s in loads),
            max(s.drain_s for s in loads),
        )
        return Times(start, *spent, f"as in {len(loads)} earlier cells")

    def _all(self) -> list[_Seen]:
        if self._seen is None:
            self._seen = list(_read(self.path)) if self.path else []
        return self._seen


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the times of this user's cells lie."""
    state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "/tmp")) / ".local" / "state")
    return Path(state) / "ridgeline" / "times.jsonl"


def engine_of(cell: Cell, deployment: Deployment) -> str:
    """What decides how long an engine takes to start: its kind, the model and the GPUs."""
    return f"{deployment.kind}/{cell.benchmark.model}/{cell.benchmark.precision}/{cell.benchmark.runner}/{cell.gpus}"


def work_of(cell: Cell, settings: SweepSettings) -> str:
    """What decides how long a cell takes on it: the scenario and how it is loaded."""
    if cell.scenario.kind == "agentic-coding":
        loaded = f"{settings.duration_s}/{settings.warmup_per_lane}"
    else:
        loaded = f"{settings.requests_per_lane}/{settings.fixed_warmup_per_lane}"
    return f"{cell.scenario.name}/{loaded}/{settings.speed:g}"


def estimate(cell: Cell, deployment: Deployment, settings: SweepSettings) -> Times:
    """What the plan says, before anything was learned."""
    (arm,) = arm_plans([Outlined(cell, True, False)])
    seconds = 3600 / cell.gpus / settings.speed
    start = EMULATED_START_S if deployment.kind == "emulated" else (arm.hours.load + arm.hours.image) * 3600 / cell.gpus
    fixed = cell.scenario.kind != "agentic-coding"
    share = settings.requests_per_lane / 10 if fixed else 1.0  # the plan counts ten requests a lane
    window = arm.hours.window * seconds * share
    return Times(start, arm.hours.warmup * seconds, window, settings.grace_s / settings.speed, "as planned")


def _nearest(seen: Iterable[_Seen], concurrency: int) -> list[_Seen]:
    """The latest cells of the nearest concurrency."""
    known = list(seen)
    if not known:
        return []
    gap = min(abs(math.log(item.concurrency / concurrency)) for item in known)
    return [item for item in known if abs(math.log(item.concurrency / concurrency)) <= gap + 1e-9][-NEAREST:]


def _read(path: Path) -> Iterable[_Seen]:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            seen = _Seen(**json.loads(line))
        except (ValueError, TypeError):
            continue
        numbers = (seen.start_s or 0.0, seen.warmup_s, seen.window_s, seen.drain_s, seen.concurrency - 1)
        if all(isinstance(number, (int, float)) and math.isfinite(number) and number >= 0 for number in numbers):
            yield seen
