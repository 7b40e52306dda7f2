"""Starts a deployment's services in dependency order and stops them in reverse, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import TracebackType

from ridgeline.core.deployment import Deployment, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.launch.allocation import OneMachine, Place
from ridgeline.launch.autopsy import tail
from ridgeline.launch.engines.kinds import ENGINES
from ridgeline.launch.machines import Machine, Process, ThisMachine
from ridgeline.launch.phases import Phases
from ridgeline.launch.raised import first_raised
from ridgeline.launch.reach import Reach
from ridgeline.launch.readiness import wait_ready
from ridgeline.launch.render import Filling, render_argv, render_env, render_files
from ridgeline.launch.telemetry import installed_tool, recorder_words
from ridgeline.launch.watch import SPIN_S, STALL_S, StartWatch

LAST_LINES = 12
SEARCHED_LINES = 2000  # for the first error, which other processes' tracebacks may follow

Wrap = Callable[[Service, list[str], Mapping[str, str], Path], list[str]]


def start_order(deployment: Deployment) -> list[Service]:
    """Services so that each comes after those it waits for; the written order decides ties.

    Raises InputError for an unknown name or a circle in `after`.
    """
    names = [service.name for service in deployment.services]
    for service in deployment.services:
        for other in service.after:
            if other not in names:
                raise InputError(f"service `{service.name}` waits for `{other}`, which the deployment does not have")
    sorter = TopologicalSorter({service.name: service.after for service in deployment.services})
    try:
        sorter.prepare()
    except CycleError as error:
        raise InputError(f"services wait for each other in a circle: {' -> '.join(error.args[1])}") from error
    order: list[Service] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=names.index)
        order += [deployment.service(name) for name in ready]
        sorter.done(*ready)
    return order


@dataclass(slots=True)
class Running:
    """One service that runs: its process, its ports, and how long it took to be ready (seconds)."""

    service: Service
    process: Process
    machine: Machine
    ports: Mapping[str, int]
    ready_s: float | None = None
    phases: Phases | None = None


@dataclass(slots=True)
class Supervisor:
    """Owns the services of one deployment. Use it as a context: leaving it leaves nothing behind."""

    deployment: Deployment
    folder: Path  # logs and working folders of the services
    on_phase: Callable[[str, str], None] = lambda service, phase: None
    on_start: Callable[[str, Phases], None] = lambda service, phases: None  # how far a service has come
    wrap: Wrap = lambda service, argv, env, folder: argv  # words around a service's own: a container runtime
    stall_s: float = STALL_S  # a start in which nothing moves for so long is given up
    spin_s: float = SPIN_S  # and one that computes and gets nowhere for so long
    place: Place | None = None  # machines of the deployment's nodes; this one when none are given
    running: dict[str, Running] = field(default_factory=dict)
    telemetry: bool = False  # record the GPUs of every node
    gpu_logs: dict[str, Path] = field(default_factory=dict)  # by node
    ranks: dict[str, int] = field(default_factory=dict)  # that were reached, by service
    _stack: ExitStack = field(default_factory=ExitStack)
    _recorders: list[Process] = field(default_factory=list)
    _stopped: bool = False

    def __enter__(self) -> Supervisor:
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_all(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.place or self._stack.enter_context(OneMachine().open(self.deployment, self.folder))
        services = self.deployment.services
        ports = {
            (s.name, name): place.of(s).lease(dict(s.spans or ()).get(name, 1)) for s in services for name in s.ports
        }
        filling = Filling(
            ports,
            hosts={service.name: place.of(service).address for service in services},
            work={service.name: str(self.work_of(service.name)) for service in services},
        )
        self._record_gpus(place)
        for service in start_order(self.deployment):
            self.on_phase(service.name, "start")
            own = {name: number for (owner, name), number in ports.items() if owner == service.name}
            work = self.work_of(service.name)
            work.mkdir(exist_ok=True)
            for name, text in render_files(service, filling).items():
                (work / name).touch(mode=0o600)  # it may hold a secret
                (work / name).write_text(text, encoding="utf-8")
            added = render_env(service, filling)
            words = self.wrap(service, render_argv(service, filling), added, work)
            machine = place.of(service)
            process = machine.start(words, added, work, self.folder / f"{service.name}.log")
            self.running[service.name] = Running(service, process, machine, own)
            if service.readiness is not None:
                self._await_ready(self.running[service.name])
            self.on_phase(service.name, "ready")
        self._reach_ranks()

    def work_of(self, name: str) -> Path:
        """The working folder of a service."""
        return self.folder.resolve() / f"{name}.work"

    def _record_gpus(self, place: Place) -> None:
        """Telemetry of every node, where a tool for it is installed: see telemetry.py."""
        for machine in place.distinct if self.telemetry else ():
            if isinstance(machine, ThisMachine) and installed_tool() is None:
                continue
            log = self.folder / f"gpu-{machine.name}.csv"
            self._recorders.append(machine.start(recorder_words(), {}, self.folder, log))
            self.gpu_logs[machine.name] = log

    def _reach_ranks(self) -> None:
        """Every rank has answered, through every hop: see reach.py."""
        kind = ENGINES.get(self.deployment.dialect or self.deployment.kind)
        if kind is not None:
            at = {
                name: (running.machine.address, next(iter(running.ports.values())))
                for name, running in self.running.items()
                if running.ports
            }
            self.ranks = Reach(self.deployment, kind, at, self.check_alive).all_ranks()

    def _await_ready(self, running: Running) -> None:
        name = running.service.name
        assert running.service.readiness is not None
        watch = StartWatch(
            name, running.process, self.stall_s, self.spin_s, on_move=lambda phases: self.on_start(name, phases)
        )
        running.phases = watch.phases

        def alive() -> None:
            self.check_alive()
            watch.look()

        try:
            running.ready_s = wait_ready(
                running.service.readiness,
                next(iter(running.ports.values())),
                endpoint=self.deployment.endpoint,
                address=running.machine.address,
                alive=alive,
            )
        except EnvironmentFailed as error:
            if not watch.stacks_file.exists() and running.process.poll() is None:  # out of time, still there
                watch.write_stacks(f"{error.message}\n")
            raise EnvironmentFailed(f"`{name}`: {error.message}", hint=error.hint) from error
        watch.end()

    def check_alive(self) -> None:
        """Raise EnvironmentFailed when a service has ended, with its exit code and last log lines."""
        for name, running in self.running.items():
            status = running.process.poll()
            if status is not None:
                how = f"was killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
                said = tail(running.process.log, SEARCHED_LINES)
                first = first_raised(said)
                lines = "\n".join(f"  | {line}" for line in said[-LAST_LINES:])
                raise EnvironmentFailed(
                    f"service `{name}` {how}"
                    + (f"; first error: {first}" if first else "")
                    + (f"; its last lines:\n{lines}" if lines else ""),
                    hint=f"the whole log is `{running.process.log}`",
                )

    def dead(self) -> str | None:
        """Why the deployment no longer works, or None while every service runs."""
        try:
            self.check_alive()
        except EnvironmentFailed as error:
            return error.message
        return None

    def url(self, service: str | None = None, port: str | None = None) -> str:
        """Base address of a service; of the one that takes requests when none is named. `port`: by name, else the
        first."""
        running = self.running[service or self.deployment.entry]
        number = running.ports[port] if port else next(iter(running.ports.values()))
        return f"http://{running.machine.address}:{number}"

    @property
    def containment(self) -> dict[str, str]:
        """Which guarantee holds for each service."""
        return {name: running.process.containment for name, running in self.running.items()}

    @property
    def logs(self) -> dict[str, Path]:
        """Log of each service by its name, and stacks where a start hung (`NAME.stacks`)."""
        found = {name: running.process.log for name, running in self.running.items()}
        hung = {f"{name}.stacks": log.with_suffix(".stacks.txt") for name, log in found.items()}
        return found | {name: path for name, path in hung.items() if path.exists()}

    def stop(self) -> None:
        """Stop in reverse order: SIGTERM, each service's grace, then force. Safe to call again."""
        if self._stopped:
            return
        self._stopped = True
        for name in reversed(self.running):
            running = self.running[name]
            self.on_phase(name, "stop")
            running.process.stop(running.service.stop_grace_s)
        for recorder in self._recorders:
            recorder.stop(1.0)
        self._stack.close()
