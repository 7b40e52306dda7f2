"""`ridgeline simulate`: predicted points for every cell, in virtual time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ridgeline import __version__
from ridgeline.cli.rests import Rests
from ridgeline.cli.search import chosen_cells
from ridgeline.cli.sweep_options import recipe_settings
from ridgeline.cli.typed import run_app
from ridgeline.core.cell import Cell
from ridgeline.core.point import Point
from ridgeline.simulate.fitfile import check_all
from ridgeline.spec.settings import load_settings
from ridgeline.sweep.deploy import Modelling
from ridgeline.sweep.overrides import recipes_with
from ridgeline.sweep.pinned import pinned
from ridgeline.sweep.predict import Prediction, predict_all
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload

app = typer.Typer(add_completion=False)

COLUMNS = (
    ("total tok/s/GPU", "throughput_per_gpu.total", 1.0),
    ("tok/s/user p50", "interactivity.p50", 1.0),
    ("TTFT p50 ms", "ttft.p50", 1e3),
    ("ITL p50 ms", "itl.p50", 1e3),
    ("cache hit", "server_cache_hit", 1.0),
)


def run(argv: list[str]) -> int:
    """Run the verb."""
    return run_app(app, "simulate", argv)


@app.command()
def simulate(
    configs: Annotated[list[Path], typer.Argument(help="config files in InferenceX's format", show_default=False)],
    trace: Annotated[Path | None, typer.Option(help="recorded sessions; default: the shipped quick-start ones")] = None,
    out: Annotated[Path | None, typer.Option(help="store points and records in this run folder")] = None,
    cells: Annotated[str, typer.Option(help="only cells whose name matches this glob")] = "*",
    duration: Annotated[int, typer.Option(help="measured window of agentic cells, simulated seconds")] = 3600,
    warmup: Annotated[int, typer.Option(help="warm-up requests a lane")] = 10,
    requests: Annotated[int, typer.Option(help="measured requests a lane of fixed-seq-len cells")] = 10,
    max_context: Annotated[int | None, typer.Option(help="leave out sessions with longer contexts")] = None,
    sessions: Annotated[int | None, typer.Option(help="use the first N sessions that are left")] = None,
    seed: Annotated[int, typer.Option(help="same seed, same prediction, bit for bit")] = 42,
    jobs: Annotated[int | None, typer.Option(help="cells at a time; default: one a core")] = None,
    runner_config: Annotated[Path | None, typer.Option(help="runners file, where host memory must be known")] = None,
    config: Annotated[Path | None, typer.Option("--settings", help="ridgeline.yaml: fleets, models, recipes")] = None,
    parameters: Annotated[
        Path | None, typer.Option(help="cost parameters that `calibrate` fitted: a file or its folder")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="points as JSON lines on stdout")] = False,
) -> int:
    """Predict every cell, on the engine that its recipe would start. Exit 1 when the engine model refuses one."""
    from ridgeline.trace.synth import quickstart_trace

    user = load_settings(config)
    chosen = pinned(chosen_cells(configs, runner_config, cells), user)
    settings = SweepSettings(
        duration_s=duration,
        warmup_per_lane=warmup,
        requests_per_lane=requests,
        seed=seed,
        max_context=max_context,
        max_sessions=sessions,
    )
    show = _as_json if as_json else _as_line(max(len(cell.name) for cell in chosen))
    workload = Workload(settings, trace or quickstart_trace())
    workload.read(chosen)
    if parameters is not None:
        check_all(parameters)
    modelling = Modelling(recipe_settings(settings), recipes_with(user), user, parameters)
    refused, rests = [], Rests()
    with _store(out, settings) as keep:
        found = predict_all(chosen, settings, workload, modelling, jobs=jobs, replays=out is not None)
        for index, prediction in enumerate(found, 1):
            show(index, prediction)
            keep(prediction)
            rests.add(prediction)
            if prediction.point is None:
                refused.append(f"not predicted: {prediction.cell.name}: {prediction.refusal}\n")
    sys.stderr.write(rests.text + _sessions(chosen, trace) + "".join(refused))
    return 1 if refused else 0


def _sessions(cells: Sequence[Cell], trace: Path | None) -> str:
    """What agentic cells replayed, where nobody said."""
    if trace is not None or all(cell.scenario.kind != "agentic-coding" for cell in cells):
        return ""
    return (
        "sessions the shipped quick-start ones, few and short. How long a cache holds depends on the sessions: give\n"
        "         yours with --trace, or make some of the public set's shape (`ridgeline trace synth --shape agentx`)\n"
    )


def _as_json(_: int, prediction: Prediction) -> None:
    from ridgeline.results.formats import POINT

    if prediction.point is not None:
        body = json.loads(POINT.encode(prediction.point))["body"]
        sys.stdout.write(json.dumps(body, allow_nan=False) + "\n")


def _as_line(width: int):  # type: ignore[no-untyped-def]
    def show(index: int, prediction: Prediction) -> None:
        if index == 1:
            names = (*(name for name, _, _ in COLUMNS), "80% of tok/s/GPU")
            sys.stdout.write(f"{'predicted':<{width}}" + "".join(f"{name:>17}" for name in names) + "\n")
        if prediction.point is not None:
            sys.stdout.write(f"{prediction.cell.name:<{width}}" + _figures(prediction.point) + "\n")
            sys.stdout.flush()

    return show


def _figures(point: Point) -> str:
    values = [(point.value(measure), factor) for _, measure, factor in COLUMNS]
    shown = [None if value is None else f"{value * factor:,.4g}" for value, factor in values]
    within = point.provenance["band"]["factor"]
    shown.append(None if within is None else f"x/÷ {within:.2f}")
    return "".join(f"{text or 'not known':>17}" for text in shown)


@contextmanager
def _store(path: Path | None, settings: SweepSettings) -> Iterator[Callable[[Prediction], None]]:
    """Keeps predictions in a run folder, if there is one, and ends with its report."""
    if path is None:
        yield lambda prediction: None
        return
    from ridgeline.publish.report.page import write_run_report
    from ridgeline.results.runfolder import RunFolder, RunHeader

    header = RunHeader(
        name=path.name,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=("ridgeline", "simulate", *sys.argv[2:]),
        ridgeline=__version__,
        settings=settings.identity(),
    )
    with RunFolder.create_or_open(path, header) as folder:

        def keep(prediction: Prediction) -> None:
            if prediction.point is not None and not folder.finished(prediction.point.run_key):
                folder.write_cell(prediction.cell, prediction.point, prediction.replay, None)

        yield keep
        report = write_run_report(folder)
    sys.stderr.write(f"\nresults  {path}\nreport   {report}\n")
