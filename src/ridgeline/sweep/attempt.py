"""One attempt at one cell: services up, sessions replayed, services gone. What failed says in which layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.record import Replay
from ridgeline.launch.supervisor import Supervisor
from ridgeline.replay.driver import ReplaySettings, run_replay
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.progress import Progress
from ridgeline.sweep.events import Kind
from ridgeline.sweep.workload import Load

SCRAPE_S = 1.0  # simulated and real: under a speed-up the same window must not hold fewer samples
SCRAPE_LEAST_S = 0.1


class Attempt(NamedTuple):
    """What a successful attempt leaves: the replay, the services' logs, and what was found of the launch."""

    replay: Replay
    logs: dict[str, Path]
    found: dict[str, object]


class AttemptFailed(EnvironmentFailed):
    """An attempt that gave no point: the layer that failed, and the logs to keep."""

    def __init__(self, layer: str, message: str, *, hint: str | None, logs: dict[str, Path]) -> None:
        super().__init__(message, hint=hint)
        self.layer = layer
        self.logs = logs


@dataclass(slots=True)
class Attempting:
    """How attempts are made: where services live while they run, and who hears of it."""

    folder: Path
    speed: float
    on_step: Callable[[Kind, str], None] = lambda kind, text: None
    on_progress: Callable[[Progress], None] = lambda progress: None
    progress_s: float = 0.25

    def run(self, cell: Cell, deployment: Deployment, load: Load) -> Attempt:
        """Start `deployment`, replay `load` against it, stop it. Raises AttemptFailed."""
        supervisor = Supervisor(deployment, self.folder, on_phase=self._phase)
        layer = "start"
        try:
            with supervisor:
                layer = "replay"
                self.on_step("replay", cell.name)
                replay = self._replay(deployment, supervisor, load)
                death = supervisor.dead()
        except EnvironmentFailed as error:
            raise AttemptFailed(layer, error.message, hint=error.hint, logs=_logs(supervisor)) from error
        if death or replay.aborted:
            message = death or replay.aborted or ""
            raise AttemptFailed(layer, message, hint="the services' logs are kept", logs=_logs(supervisor))
        found: dict[str, object] = {
            "containment": supervisor.containment,
            "ready_s": {name: running.ready_s for name, running in supervisor.running.items()},
        }
        return Attempt(replay, _logs(supervisor), found)

    def _phase(self, service: str, phase: str) -> None:
        if phase != "stop":
            self.on_step("start" if phase == "start" else "ready", service)

    def _replay(self, deployment: Deployment, supervisor: Supervisor, load: Load) -> Replay:
        return run_replay(
            load.pacer,
            load.prompts,
            Endpoint(url=supervisor.url(), model=deployment.served_model),
            speed=self.speed,
            settings=ReplaySettings(
                progress_s=self.progress_s,
                scrape_urls=metrics_pages(deployment, supervisor),
                scrape_s=max(SCRAPE_LEAST_S, SCRAPE_S / self.speed),
            ),
            on_progress=self.on_progress,
            alive=lambda: supervisor.dead() or True,
        )


def metrics_pages(deployment: Deployment, supervisor: Supervisor) -> tuple[str, ...]:
    """Pages to scrape: those the deployment names, and every port that is called `prometheus`."""
    own = [f"{supervisor.url(name)}/metrics" for name in deployment.metrics]
    extra = [
        f"{supervisor.url(service.name, 'prometheus')}/metrics"
        for service in deployment.services
        if "prometheus" in service.ports
    ]
    return tuple(dict.fromkeys((*own, *extra)))


def _logs(supervisor: Supervisor) -> dict[str, Path]:
    return {path.name: path for path in supervisor.logs.values()}
