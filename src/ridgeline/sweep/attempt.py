"""An engine start that serves one cell after another. What failed says in which layer, and whose fault it seems."""

from __future__ import annotations

import contextlib
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.record import Outcome, Replay
from ridgeline.launch.allocation import Allocation, OneMachine
from ridgeline.launch.autopsy import tail
from ridgeline.launch.blame import Blame, blame
from ridgeline.launch.phases import Phases
from ridgeline.launch.probe import Node, refuse_unfit
from ridgeline.launch.script_host import RELEASE
from ridgeline.launch.secrets import scrub_file, scrub_folder, scrubbed, secrets_of
from ridgeline.launch.supervisor import Supervisor, Wrap
from ridgeline.launch.telemetry import mark, since
from ridgeline.replay.driver import ReplaySettings, run_replay
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.progress import Progress
from ridgeline.sweep.events import Kind
from ridgeline.sweep.workload import Load

SCRAPE_S = 1.0  # simulated and real: under a speed-up the same window must not hold fewer samples
SCRAPE_LEAST_S = 0.1
TAIL_LINES = 200  # of each log, in which signs of the cause are looked for
FLUSH_TIMEOUT_S = 10.0
FINISH_S = 120.0  # for a script to gather and stop by itself once its load generator has ended
NEWS_S = 1.0  # within which a dead engine is noticed
RECORDED_S = 2.5  # two samples of the slower of the GPU tools
T = TypeVar("T")
START, READY = "engine start", "ready"  # layers of a start
EMULATED = "emulated"


class Attempt(NamedTuple):
    """What a successful attempt leaves: the replay, the services' logs, what was found of the launch, and what was
    recorded of the GPUs meanwhile, by node."""

    replay: Replay
    logs: dict[str, Path]
    found: dict[str, object]
    gpus: Mapping[str, str]


class AttemptFailed(EnvironmentFailed):
    """An attempt that gave no point: the layer that failed, whose fault it seems, the logs to keep, the nodes."""

    def __init__(
        self,
        layer: str,
        message: str,
        *,
        hint: str | None,
        logs: dict[str, Path],
        blamed: Blame = Blame.UNKNOWN,
        nodes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.nodes = nodes
        self.layer = layer
        self.logs = logs
        self.blamed = blamed


@dataclass(slots=True)
class EngineStart:
    """The services of a deployment while cells are replayed against them. Use it as a context.

    Raises AttemptFailed from `with` when they do not come up, and from `replay` when they die or the replay stops.
    """

    deployment: Deployment
    folder: Path
    speed: float
    on_step: Callable[[Kind, str], None] = lambda kind, text: None
    on_progress: Callable[[Progress], None] = lambda progress: None
    progress_s: float = 0.25
    on_start: Callable[[str, Phases], None] = lambda service, phases: None
    wrap: Wrap | None = None  # words of a container runtime around every service
    telemetry: bool = True  # record the GPUs, where the services are to use some
    machines: Allocation = field(default_factory=OneMachine)  # where the nodes of the deployment are
    owner: str = ""  # whose containers an earlier start may have left on the nodes; empty: there are none
    served: int = 0  # cells replayed so far
    _supervisor: Supervisor = field(init=False)
    _secrets: frozenset[str] = frozenset()
    _nodes: dict[str, Node] = field(default_factory=dict)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        """Look at every node first; what is not fit there would fail any start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._secrets = secrets_of(self.deployment)
        try:
            place = self._stack.enter_context(self.machines.open(self.deployment, self.folder))
            for machine in place.distinct:
                if self.owner:
                    machine.reap(self.owner)
                self._nodes = {**self._nodes, machine.name: machine.probe(self.folder)}
                refuse_unfit(self._nodes[machine.name], self.deployment)
        except EnvironmentFailed as error:
            blamed = Blame.INFRASTRUCTURE
            nodes = tuple(self._nodes)
            raise AttemptFailed("node", error.message, hint=error.hint, logs={}, blamed=blamed, nodes=nodes) from error
        self._supervisor = Supervisor(
            self.deployment, self.folder, on_phase=self._phase, on_start=self.on_start, place=place
        )
        self._supervisor.telemetry = self.telemetry and EMULATED not in (self.deployment.kind, self.deployment.dialect)
        if self.wrap is not None:
            self._supervisor.wrap = self.wrap
        try:
            self._supervisor.__enter__()
        except EnvironmentFailed as error:
            layer = READY if "was not ready" in error.message else START  # a start that hangs is an engine start
            raise self._failed(layer, error.message, error.hint) from error

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._supervisor.stop()
        self._stack.close()

    def replay(self, cell: Cell, load: Load) -> Attempt:
        """Replay one cell's load. The cache is flushed before every cell but the first, where the engine can do it."""
        cache = self._cache_before()
        self.on_step("replay", cell.name)
        recordings = self._supervisor.gpu_logs
        marks = {node: mark(log) for node, log in recordings.items()}
        try:
            replay = self._replay(load)
        except EnvironmentFailed as error:
            raise self._failed("replay", error.message, error.hint) from error
        death = self._death_after(replay)
        if death or replay.aborted:
            raise self._failed("replay", death or replay.aborted or "", "the services' logs are kept")
        found: dict[str, object] = {
            "containment": self._supervisor.containment,
            "ready_s": {name: running.ready_s for name, running in self._supervisor.running.items()},
            "phases": {name: r.phases.plain() for name, r in self._supervisor.running.items() if r.phases},
            "node": next(iter(self._nodes.values())).plain(),
            "nodes": {name: node.plain() for name, node in self._nodes.items()},
            "placement": {name: r.machine.name for name, r in self._supervisor.running.items()},
            "cache_before": cache,
            "served_before": self.served,
            "ranks": self._supervisor.ranks,
        }
        self.served += 1
        if recordings:
            time.sleep(RECORDED_S)  # the last sample must lie after the window's end
        return Attempt(
            replay, self.kept_logs(), found, {node: since(log, marks[node]) for node, log in recordings.items()}
        )

    def _death_after(self, replay: Replay) -> str | None:
        """Why the services no longer work. News of a death comes by a pipe, and connections break before it is there:
        where the last request met that, it is waited for."""
        last = max(replay.records, key=lambda record: record.end_ns or 0, default=None)
        broken = last is not None and last.outcome in (Outcome.CLIENT_ERROR, Outcome.TRUNCATED)
        end = time.monotonic() + (NEWS_S if broken else 0.0)
        while (death := self._supervisor.dead()) is None and time.monotonic() < end:
            time.sleep(0.02)
        return death

    def finish(self) -> Path | None:
        """Let a user's script or command come to its own end, and return the folder with what it left, without secrets;
        None for services of recipes, which leave nothing but their logs. Nothing runs afterwards."""
        if self.deployment.kind not in ("shell", "command"):
            return None
        entry = self._supervisor.running[self.deployment.entry]
        work = self._supervisor.work_of(self.deployment.entry)
        if self.deployment.kind == "shell":
            (work / RELEASE).touch()
            end = time.monotonic() + FINISH_S
            while entry.process.poll() is None and time.monotonic() < end:
                time.sleep(0.1)
        self._supervisor.stop()
        scrub_folder(work, self._secrets)
        return work

    def answer(self, task: str, ask: Callable[[str], T]) -> T:
        """Let `ask` put the questions of a task to the running services; it gets their address. Raises AttemptFailed in
        the layer `evaluation`."""
        self._cache_before()
        self.on_step("replay", task)
        try:
            found = ask(self._supervisor.url())
        except EnvironmentFailed as error:
            death = self._supervisor.dead()
            raise self._failed("evaluation", death or error.message, error.hint) from error
        self.served += 1
        return found

    @property
    def start_s(self) -> float:
        """Seconds its services took to be ready, one after the other."""
        return sum(running.ready_s or 0.0 for running in self._supervisor.running.values())

    @property
    def usable(self) -> bool:
        """Whether another cell can be replayed."""
        return self._supervisor.dead() is None

    @property
    def containment(self) -> dict[str, str]:
        """Which guarantee holds for each service."""
        return self._supervisor.containment

    @property
    def logs(self) -> dict[str, Path]:
        return {path.name: path for path in self._supervisor.logs.values()}

    def _failed(self, layer: str, message: str, hint: str | None) -> AttemptFailed:
        """The failure with what the logs say about its cause."""
        sign = blame([message, *("\n".join(tail(path, TAIL_LINES)) for path in self.logs.values())])
        nodes, message, logs = tuple(self._nodes), scrubbed(message, self._secrets), self.kept_logs()
        if sign is None:
            layer = self._start_layer(layer) if layer in (START, READY) else layer
            return AttemptFailed(layer, message, hint=hint, logs=logs, nodes=nodes)
        where = sign.layer if layer == START else layer
        return AttemptFailed(where, message, hint=sign.advice, logs=logs, blamed=sign.blame, nodes=nodes)

    def _start_layer(self, layer: str) -> str:
        """What a start that failed was at: its image or its weights where a log says so, else `layer`."""
        running = self._supervisor.running.values()
        now = [one.phases.current.name for one in running if one.phases and one.phases.current.ended is None]
        return next((name for name in now if name in ("image", "weights")), layer)

    def kept_logs(self) -> dict[str, Path]:
        """The logs as they may be kept: copies without secrets, where there are secrets."""
        if not self._secrets:
            return self.logs
        kept = {name: self.folder / "kept" / name for name in self.logs}
        for name, log in self.logs.items():
            if log.exists():
                kept[name].parent.mkdir(exist_ok=True)
                shutil.copyfile(log, kept[name])
                scrub_file(kept[name], self._secrets)
        return kept

    def _cache_before(self) -> str:
        """`fresh` before the first cell; then `flushed` where every engine did so, else `markers`: the prompts of two
        cells differ from their first token on."""
        if not self.served:
            return "fresh"
        engines = [service.name for service in self.deployment.services if service.role not in ("router", "cache")]
        return "flushed" if engines and all(_flush(self._supervisor.url(name)) for name in engines) else "markers"

    def _phase(self, service: str, phase: str) -> None:
        if phase != "stop":
            self.on_step("start" if phase == "start" else "ready", service)

    def _replay(self, load: Load) -> Replay:
        supervisor = self._supervisor
        return run_replay(
            load.pacer,
            load.prompts,
            endpoint_of(self.deployment, supervisor.url()),
            speed=self.speed,
            settings=ReplaySettings(
                progress_s=self.progress_s,
                scrape_urls=metrics_pages(self.deployment, supervisor),
                scrape_s=max(SCRAPE_LEAST_S, SCRAPE_S / self.speed),
            ),
            on_progress=self.on_progress,
            alive=lambda: supervisor.dead() or True,
        )


def endpoint_of(deployment: Deployment, url: str) -> Endpoint:
    """Where a cell's requests go, with the header by which its router keeps a session on one rank."""
    return Endpoint(url=url, model=deployment.served_model, session_header=deployment.session_header)


def metrics_pages(deployment: Deployment, supervisor: Supervisor) -> tuple[str, ...]:
    """Pages to scrape: those the deployment names, and every port that is called `prometheus`."""
    own = [f"{supervisor.url(name)}/metrics" for name in deployment.metrics]
    extra = [
        f"{supervisor.url(service.name, 'prometheus')}/metrics"
        for service in deployment.services
        if "prometheus" in service.ports
    ]
    return tuple(dict.fromkeys((*own, *extra)))


def _flush(url: str) -> bool:
    """Ask an engine to forget its prefix cache (vLLM's own path; SGLang's is another). False where it cannot."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for path in ("/reset_prefix_cache", "/flush_cache"):
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            opener.open(urllib.request.Request(f"{url}{path}", method="POST"), timeout=FLUSH_TIMEOUT_S) as answer,
        ):
            if answer.status == 200:
                return True
    return False
