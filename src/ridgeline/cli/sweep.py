"""`ridgeline sweep`: the main job, from config files to stored points and a report."""

from __future__ import annotations

import platform
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline import __version__
from ridgeline.cli import sweep_options as options
from ridgeline.cli.search import chosen_cells
from ridgeline.cli.typed import run_app
from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Source
from ridgeline.spec.settings import load_settings
from ridgeline.sweep.deploy import Deploy
from ridgeline.sweep.pinned import pinned
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload

if TYPE_CHECKING:
    from ridgeline.core.deployment import Deployment
    from ridgeline.core.finding import Expectation
    from ridgeline.plan.checks.report import CellReport
    from ridgeline.results.runfolder import RunFolder
    from ridgeline.sweep.preflight import Preflight
    from ridgeline.sweep.run import Expect, Planned, Summary

    Cluster = Callable[[Planned], dict[str, str]]

app = typer.Typer(add_completion=False)


def run(argv: list[str]) -> int:
    """Run the verb."""
    return run_app(app, "sweep", argv)


@app.command()
def sweep(
    configs: Annotated[list[Path], typer.Argument(help="config files in InferenceX's format", show_default=False)],
    engine: Annotated[str, typer.Option(help="real, or emulated: run every cell on the engine model")] = "real",
    trace: Annotated[Path | None, typer.Option(help="recorded sessions: a file or folder")] = None,
    out: Annotated[Path | None, typer.Option(help="run folder; default runs/NAME OF THE FIRST CONFIG")] = None,
    cells: Annotated[str, typer.Option(help="only cells whose name matches this glob")] = "*",
    duration: Annotated[
        int | None, typer.Option(help="measured window of agentic cells, seconds [3600; emulated: 150]")
    ] = None,
    speed: Annotated[float | None, typer.Option(help="time runs so many times faster [1; emulated: 16]")] = None,
    force_speed: Annotated[bool, typer.Option(help="allow --speed on a real engine; its points are invalid")] = False,
    warmup: Annotated[int | None, typer.Option(help="warm-up requests a lane [10; emulated: 1]")] = None,
    requests: Annotated[int, typer.Option(help="measured requests a lane of fixed-seq-len cells")] = 10,
    prompts: Annotated[str, typer.Option(help="bytes, token-ids or tokenizer")] = "bytes",
    max_context: Annotated[int | None, typer.Option(help="leave out sessions with longer contexts")] = None,
    sessions: Annotated[int | None, typer.Option(help="use the first N sessions that are left")] = None,
    seed: Annotated[int, typer.Option(help="of start points, texts and arrivals")] = 42,
    repeats: Annotated[int, typer.Option(min=1, help="measure every cell so many times, one round after another")] = 1,
    runner_config: Annotated[Path | None, typer.Option(help="runners file, where host memory must be known")] = None,
    fail_fast: Annotated[bool, typer.Option(help="stop at the first cell that fails")] = False,
    executor: Annotated[str, typer.Option(help="local, or slurm: one job for each engine start")] = "local",
    config: Annotated[Path | None, typer.Option("--settings", help="ridgeline.yaml, for the fleet's options")] = None,
    shell: Annotated[Path | None, typer.Option(help="launch script that starts every cell's server, as it is")] = None,
    command: Annotated[str | None, typer.Option(help="command line that starts every cell's server at $PORT")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="with --shell or --command: told to it")
    ] = None,
    runtime: Annotated[str, typer.Option(help="container runtime: none, docker or enroot")] = "none",
    mount: Annotated[list[Path] | None, typer.Option(help="folder that containers see, e.g. of weights")] = None,
    adaptive: Annotated[
        bool, typer.Option(help="pick each next cell from what was measured; stop below noise")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(help="with --adaptive: cells (20), GPU-hours (12h) or a share of all (40%)")
    ] = None,
    measured: Annotated[
        list[Path] | None, typer.Option(help="with --adaptive: points of the same engines measured before [repeatable]")
    ] = None,
    refine: Annotated[bool, typer.Option(help="with --adaptive: concurrencies between the listed ones, too")] = False,
    walltime: Annotated[
        str | None, typer.Option(help="begin no cell that would not end within this time (90m, 4:00:00)")
    ] = None,
    pack: Annotated[bool, typer.Option(help="slurm: as many engine starts in a job as its time holds")] = False,
    eval_task: Annotated[str | None, typer.Option("--eval", help="score this task of lm-eval, too")] = None,
    eval_include: Annotated[Path | None, typer.Option(help="folder with the task's YAML and questions")] = None,
    eval_limit: Annotated[int | None, typer.Option(min=1, help="ask so many questions only")] = None,
    eval_bar: Annotated[float | None, typer.Option(help="least score [by model and task]")] = None,
    eval_cells: Annotated[str | None, typer.Option(help="score cells that match this glob [by policy]")] = None,
    force_check: Annotated[bool, typer.Option(help="start cells that the preflight refuses")] = False,
    only_keys: Annotated[Path | None, typer.Option(hidden=True, help="file with run keys")] = None,
    dry_run: Annotated[bool, typer.Option(help="print the commands each cell would start, and stop")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="events as JSON lines on stdout")] = False,
) -> int:
    """Run a search space: start engines, replay sessions, measure, store, report. Finished cells are skipped."""
    user = load_settings(config)
    chosen = pinned(chosen_cells(configs, runner_config, cells), user)
    if refine:
        chosen = tuple(_refined(chosen))
    if (budget or refine or measured) and not adaptive:
        key = "--budget" if budget else "--refine" if refine else "--measured"
        raise InputError([Problem("goes with --adaptive", key=key)])
    if walltime and executor == "slurm":
        hint = "`time` among the scheduler options of the fleet is the walltime of its jobs"
        raise InputError([Problem("goes with --executor local", key="--walltime", hint=hint)])
    if adaptive and executor != "local":
        hint = "run it with `--executor local` inside an allocation: its next cell depends on the last one"
        raise InputError([Problem("does not go with --executor slurm", key="--adaptive", hint=hint)])
    kind = options.engine_of(engine)
    emulated = options.emulates(kind, chosen)
    settings = options.sweep_settings(
        emulated,
        duration=duration,
        speed=speed,
        warmup=warmup,
        requests_per_lane=requests,
        seed=seed,
        prompts=prompts,
        max_context=max_context,
        max_sessions=sessions,
    )
    workload = Workload(settings, trace or (_shipped_trace() if emulated or dry_run else None))
    deploy = Deploy(kind, options.recipe_settings(settings), options.recipes(shell, command, env, user), user)
    job = Job(chosen, settings, workload, deploy, fail_fast)
    if eval_task is not None:
        from ridgeline.cli.sweep_extras import evaluation

        job.sweep.evaluation = evaluation(
            eval_task, eval_include, eval_limit, eval_bar, eval_cells, chosen, deploy, configs, runner_config
        )
    if dry_run:
        return job.show(runtime, tuple(path.resolve() for path in mount or ()))
    job.refuse_speed_on_real_engines(force_speed)
    _stop_on_sigterm()
    job.sweep.runtime, job.sweep.mounts = runtime, tuple(path.resolve() for path in mount or ())
    job.sweep.repeats = repeats
    preflight = _preflight(configs, config)
    job.sweep.expect = _expectations(preflight)
    job.preflight = None if force_check else preflight
    if only_keys is not None:
        job.sweep.only = frozenset(only_keys.read_text().split())
        job.sweep.retries = 0  # whoever gave the keys tries elsewhere
    job.pack = pack
    job.keep_to(walltime)
    if adaptive:
        from ridgeline.cli.sweep_extras import chooser

        job.sweep.choose = chooser(job.sweep, budget, deploy.modelling, measured or ())
    return job.run(out or Path("runs") / configs[0].stem, as_json=as_json, cluster=_cluster(executor, config))


def _refined(cells: Sequence[Cell]) -> Sequence[Cell]:
    from ridgeline.sweep.adaptive import refined

    return refined(cells)


def _preflight(configs: list[Path], config: Path | None) -> Preflight:
    """What the checks say of a cell; nothing for emulated engines, and for what a script or command starts."""
    from functools import cache

    from ridgeline.cli.preflight import Subjects, knowledge
    from ridgeline.plan.checks.report import check
    from ridgeline.plan.checks.subject import bind
    from ridgeline.sweep.deploy import EMULATED

    settings, today = load_settings(config), datetime.now(tz=UTC).date()

    @cache
    def maker() -> Subjects:
        return Subjects(settings, knowledge(configs))

    def preflight(cell: Cell, deployment: Deployment) -> CellReport | None:
        if EMULATED in (deployment.kind, deployment.dialect) or deployment.kind in ("shell", "command"):
            return None
        return check(bind(maker().of(cell), deployment), settings, today=today)

    return preflight


def _expectations(preflight: Preflight) -> Expect:
    """What the preflight promises for a cell; the engine model's own promises for emulated ones."""
    from ridgeline.sweep.deploy import expected_of_model

    def expect(cell: Cell, deployment: Deployment) -> Sequence[Expectation]:
        report = preflight(cell, deployment)
        return expected_of_model(cell, deployment) if report is None else report.expectations

    return expect


def _cluster(executor: str, config: Path | None) -> Cluster | None:
    """Options of the scheduler by runner, None for this machine."""
    if executor == "local":
        return None
    if executor != "slurm":
        raise InputError([Problem(f"is `{executor}`, must be local or slurm", key="--executor")])
    settings = load_settings(config)

    def options(item: Planned) -> dict[str, str]:
        fleet = settings.fleet(item.cell.benchmark.runner)
        return dict(fleet.scheduler) if fleet else {}

    return options


def _shipped_trace() -> Path:
    from ridgeline.trace.synth import quickstart_trace

    return quickstart_trace()


def _stop_on_sigterm() -> None:
    """A SIGTERM ends a sweep like Ctrl-C: services are stopped in order."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


class Job:
    """A sweep with everything decided."""

    def __init__(
        self, cells: tuple[Cell, ...], settings: SweepSettings, workload: Workload, deploy: Deploy, fail_fast: bool
    ) -> None:
        from ridgeline.sweep.run import Sweep

        self.settings = settings
        self.pack = False
        self.preflight: Preflight | None = None  # None: whatever it says, cells are started
        self.sweep = Sweep(cells, settings, workload, deploy, fail_fast=fail_fast)

    def show(self, runtime: str = "none", mounts: tuple[Path, ...] = ()) -> int:
        """Print what would be started, ports symbolic, without secrets."""
        import shlex

        from ridgeline.launch.secrets import masked, masked_argv
        from ridgeline.sweep.containers import wrap_in
        from ridgeline.sweep.evaluation import changes

        for item in self.sweep.plan():
            sys.stdout.write(f"# {item.title}  ({item.source}, recipe {item.deployment.recipe})\n")
            if item.task:
                told = changes(self.sweep.deploy(item.cell)[0], item.deployment)
                sys.stdout.write("".join(f"#   {line}\n" for line in told or ["as timed"]))
            wrap = wrap_in(runtime, item.cell, name=f"ridgeline-{item.run_key[:12]}", owner="RUN", mounts=mounts)
            for service in item.deployment.services:
                env = {name: masked(name, value.text) for name, value in service.env}
                words = [word.text for word in service.argv]
                if wrap is not None:
                    words = wrap(service, words, env, Path("/RUN") / f"{service.name}.work")
                told = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
                sys.stdout.write(" ".join([*told, *map(shlex.quote, masked_argv(words))]) + "\n")
        return 0

    def keep_to(self, walltime: str | None) -> None:
        """Learn from the times of earlier cells, and begin nothing that would not end in time."""
        import time

        from ridgeline.launch.allocation import allocation
        from ridgeline.sweep.packing import walltime_s
        from ridgeline.sweep.times import TimesStore, default_path

        self.sweep.times = TimesStore(default_path())
        self.sweep.machines = allocation()
        if walltime is not None:
            self.sweep.ends_at = time.monotonic() + walltime_s(walltime)

    def refuse_speed_on_real_engines(self, force: bool) -> None:
        """Time cannot be scaled on a real engine: its steps take what they take."""
        real = [item for item in self.sweep.plan() if item.source is Source.MEASURED]
        if real and self.settings.speed != 1.0 and not force:
            message = (
                f"{self.settings.speed:g} would shrink delays but not the steps of a real engine ({real[0].cell.name})"
            )
            hint = "leave it out, or add --force-speed and accept invalid points"
            raise InputError([Problem(message, key="--speed", hint=hint)])

    def run(self, path: Path, *, as_json: bool, cluster: Cluster | None = None) -> int:
        """Run it into `path`, here or by jobs of a cluster; 1 when a cell failed."""
        from ridgeline.cli.views import choose_view
        from ridgeline.launch.secrets import masked_argv
        from ridgeline.publish.report.page import write_run_report
        from ridgeline.results.runfolder import RunFolder, RunHeader

        header = RunHeader(
            name=path.name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            command=("ridgeline", "sweep", *masked_argv(sys.argv[2:])),
            ridgeline=__version__,
            settings=self.settings.identity(),
            host={"platform": platform.platform(), "python": platform.python_version()},
        )
        with RunFolder.create_or_open(path, header) as folder:
            refused = self._refuse(folder)
            with choose_view(as_json=as_json) as view:
                self.sweep.listen = view
                summary = self._on_slurm(folder, cluster) if cluster else self.sweep.run(folder)
            report = write_run_report(folder)
        left = f", {refused} refused by the preflight" if refused else ""
        left += f", {summary.left} not tried" if summary.left else ""
        left += f", {summary.spared} spared" if summary.spared else ""
        left += f", {summary.below} below their bar" if summary.below else ""
        sys.stderr.write(
            f"\n{summary.done} cells run, {summary.skipped} finished before, {summary.failed} failed{left}\n"
            f"results  {path}\nreport   {report}\n"
            f"next     open the report, or `ridgeline frontier {path}`"
            + (", or run the same command again to retry what failed\n" if summary.failed else "\n")
        )
        return 1 if summary.failed or summary.left or summary.below or refused else 0

    def _refuse(self, folder: RunFolder) -> int:
        """Leave out what the preflight fails, and say so; returns how many cells that are."""
        if self.preflight is None:
            return 0
        from ridgeline.sweep.preflight import refuse

        refused = refuse(self.sweep, folder, self.preflight)
        for cell in refused:
            sys.stderr.write(f"refused  {cell.item.title}\n")
            sys.stderr.writelines(f"         {line}\n" for line in cell.message.splitlines())
        if refused:
            sys.stderr.write("         `--force-check` starts them all the same\n\n")
        return len(refused)

    def _on_slurm(self, folder: RunFolder, options: Cluster) -> Summary:
        from ridgeline.sweep.slurm import SlurmSweep, local_command

        def say(text: str) -> None:
            sys.stderr.write(f"{text}\n")

        command = local_command(sys.argv[2:], sys.executable)
        return SlurmSweep(self.sweep, folder, command, options, say=say, together=self.pack).run()
