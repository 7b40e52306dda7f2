"""`ridgeline frontier [RUN]`: who is on the frontier, who is dominated by whom, and what is not plotted and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.cli.prices import PricesOption, SettingsOption, chosen_prices
from ridgeline.cli.stores import DATA_HELP, STORE_HELP, latest, side
from ridgeline.cli.typed import run_app

if TYPE_CHECKING:
    from ridgeline.core.point import Point
    from ridgeline.results.frontier import Frontier
    from ridgeline.results.interpolate import Reading

app = typer.Typer(add_completion=False)

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Sources(StrEnum):
    """Which sources to show."""

    MEASURED = "measured"
    EMULATED = "emulated"
    PREDICTED = "predicted"
    ALL = "all"


@app.command()
def frontier(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="Run folder, another tool's results, or a run of the store. (default: the latest points of the store)",
        ),
    ] = None,
    x: Annotated[
        str | None,
        typer.Option(metavar="MEASURE", help="Horizontal axis. (default: interactivity.p50; .p90 for agentic runs)"),
    ] = None,
    y: Annotated[
        str, typer.Option("--y", "--metric", metavar="MEASURE", help="Vertical axis, e.g. tokens_per_dollar.output.")
    ] = "throughput_per_gpu.total",
    source: Annotated[
        Sources | None, typer.Option(help="Show one source, or all with their labels. (default: the only one there is)")
    ] = None,
    noise: Annotated[
        float, typer.Option(metavar="PERCENT", min=0.0, help="Half width of the error bars: who is within noise.")
    ] = 0.0,
    north_star: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE", help="Agentic points must be on this frontier too, e.g. e2e_interactivity.p90."
        ),
    ] = None,
    at: Annotated[
        list[float] | None,
        typer.Option(
            metavar="X", help="At this x: the best point that reaches it, and the frontier read between its points."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(metavar="X,Y", help="Area between each frontier and this point, one number to follow over time."),
    ] = None,
    channel: Annotated[str | None, typer.Option(metavar="CHANNEL", help="Latest points of this channel.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Only the store's latest points with this model, scenario, hardware, framework, precision, line, ...",
        ),
    ] = None,
    repeats: Annotated[
        bool, typer.Option("--repeats", help="Every repeat of a cell as a point of its own, not their mean.")
    ] = False,
    prices: PricesOption = None,
    settings: SettingsOption = None,
    store: Annotated[str | None, typer.Option("--store", metavar="STORE", help=STORE_HELP)] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help=DATA_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> int:
    """Draw the frontier of a run or of the store's latest points; list dominated and not plotted ones with reasons."""
    from ridgeline.core.errors import InputError
    from ridgeline.core.point import Source
    from ridgeline.results import frontier as rules
    from ridgeline.results.cost import priced
    from ridgeline.results.frontier import Exclusion
    from ridgeline.results.metrics import axis
    from ridgeline.results.repeats import folded

    corner = _corner(reference)
    _refuse_endless(at or [], "--at")
    if run is not None and (channel or where):
        raise InputError("--channel and --where choose among the store's latest points", hint="leave out the run")
    found = latest(store, data, channel, where or []) if run is None else side(run, store, data)
    sheet = chosen_prices(prices, settings)
    points = tuple(priced(point, sheet) for point in found.points) if sheet else found.points
    chosen = None if source in (None, Sources.ALL) else Source(source.value)
    if source is None and len({point.source for point in points}) > 1:
        kinds = " and ".join(sorted({str(point.source) for point in points}))
        raise InputError(
            f"{found.name} holds {kinds} points", hint="choose one with --source, or --source all to see both"
        )
    cells = folded(points)
    points = points if repeats else cells.points
    answer = rules.frontier(
        points,
        axis(x or default_x(points)),
        axis(y),
        epsilon=noise / 100,
        interval=None if repeats or not cells.bars else cells.interval,
        north_star=axis(north_star) if north_star else None,
        source=chosen,
        mix_sources=source is Sources.ALL,
        failed=[Exclusion(f"{line}/c{n}", f"{line}/c{n}", "failed", reason) for line, n, reason in found.failed],
    )
    if as_json:
        sys.stdout.write(json.dumps(as_data(answer, points, at or [], corner), indent=1, allow_nan=False) + "\n")
    else:
        bars = {} if repeats else cells.bars
        sys.stdout.write("\n".join(as_text(answer, points, at or [], corner, bars)) + "\n")
    if sys.stdout.isatty() and run is not None and Path(run).exists():
        sys.stderr.write(f"\nnext: `ridgeline report {run}` writes a page of it\n")
    return 0 if answer.members else 1


def _corner(text: str | None) -> tuple[float, float] | None:
    """`X,Y` as two numbers. Raises InputError."""
    from ridgeline.core.errors import InputError, Problem

    if text is None:
        return None
    try:
        x, y = map(float, text.split(","))
    except ValueError as error:
        raise InputError([Problem(f"not two numbers: {text}", key="--reference", hint="write X,Y")]) from error
    _refuse_endless([x, y], "--reference")
    return x, y


def _refuse_endless(numbers: Sequence[float], option: str) -> None:
    """Raises InputError with every one that is infinite or no number."""
    from ridgeline.core.errors import InputError, Problem

    problems = [Problem(f"{number} is no place on an axis", key=option) for number in numbers if not isfinite(number)]
    if problems:
        raise InputError(problems)


def default_x(points: tuple[Point, ...]) -> str:
    """Interactivity as InferenceX charts it: p90 when all points are agentic, the median otherwise; the median too
    when every p90 is withheld for want of samples."""
    agentic = bool(points) and all(point.facts.get("scenario") == "agentic-coding" for point in points)
    tail = any(point.value("interactivity.p90") is not None for point in points)
    return "interactivity.p90" if agentic and tail else "interactivity.p50"


def as_data(
    answer: Frontier, points: tuple[Point, ...], at: list[float], corner: tuple[float, float] | None = None
) -> dict[str, Any]:
    """The frontier's own data with what a reader needs of each point, and the readings asked for."""
    names = (answer.x.measure, answer.y.measure)
    described = {
        point.id: {
            "name": point.name,
            "series": point.series,
            "source": str(point.source),
            "concurrency": point.concurrency,
            "x": point.value(names[0]),
            "y": point.value(names[1]),
            "validity": str(point.validity),
            "cautions": [caution.code for caution in point.cautions],
            "repeats": point.facts.get("repeats", 1),
            **({"price_sheet": point.facts["price_sheet"]} if "price_sheet" in point.facts else {}),
        }
        for point in points
    }
    readings = [
        {"series": series.key, "x": x, "y": reading.value, "reason": reading.reason, "best": best and best.value}
        for series in answer.series
        for x in at
        for reading in [series.read(x)]
        for best in [series.best_at_least(x) if answer.x.better == "higher" else None]
    ]
    areas = {series.key: answer.hypervolume(series.key, corner) for series in answer.series} if corner else {}
    return {
        **answer.to_json(),
        "points": described,
        "readings": readings,
        **({"hypervolume": {"reference": list(corner), "series": areas}} if corner else {}),
    }


def as_text(
    answer: Frontier,
    points: tuple[Point, ...],
    at: list[float],
    corner: tuple[float, float] | None = None,
    bars: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
) -> list[str]:
    """The answer as lines: plot, frontier by series, dominated, readings, not plotted. `bars`: ranges of repeats."""
    from ridgeline.cli.plot import Mark, draw, tick
    from ridgeline.results.cost import told

    by_id = {point.id: point for point in points}
    letters = {series.key: _LETTERS[i % len(_LETTERS)] for i, series in enumerate(answer.series)}
    lines: list[str] = []
    if answer.members:
        marks = [
            Mark(by_id[id].value(answer.x.measure) or 0.0, by_id[id].value(answer.y.measure) or 0.0, text)
            for series in answer.series
            for ids, text in (
                (series.dominated_by, letters[series.key].lower()),
                (series.frontier, letters[series.key]),
            )
            for id in ids
        ]
        curves = [[(knot.x, knot.y) for knot in series.knots] for series in answer.series]
        lines += draw(marks, curves, x_title=_title(answer.x), y_title=_title(answer.y))
        lines += ["", "Capital letters are on the frontier, small ones are dominated.", ""]
    for series in answer.series:
        lines.append(f"{letters[series.key]}  {series.key}")
        for knot in series.knots:
            point = by_id[knot.id]
            cautions = f"  [{', '.join(caution.code for caution in point.cautions)}]" if point.cautions else ""
            lines.append(f"   {tick(knot.x):>8} {tick(knot.y):>8}  {point.name}{cautions}")
            if ranges := (bars or {}).get(knot.id):
                parts = [f"{a.measure} {tick(ranges[a.measure][0])} to {tick(ranges[a.measure][1])}"
                         for a in (answer.x, answer.y) if a.measure in ranges]  # fmt: skip
                lines.append(f"   {'':>17}  mean of {point.facts['repeats']} repeats: {', '.join(parts)}")
        for id, witness in series.dominated_by.items():
            where = " on the north star" if id in series.off_north_star else ""
            noise = ", within noise" if id in series.within_noise else ""
            lines.append(f"   {'dominated':>17}  {by_id[id].name} by {by_id[witness].name}{where}{noise}")
        for x in at:
            if answer.x.better == "higher":
                lines.append(f"   {'at ' + tick(x) + ' or more':>17}  {_shown(series.best_at_least(x))}")
            lines.append(f"   {'read at ' + tick(x):>17}  {_shown(series.read(x))}")
        if corner:
            area = answer.hypervolume(series.key, corner)
            lines.append(f"   {'area':>17}  {tick(area)} above {tick(corner[0])}, {tick(corner[1])}")
        lines.append("")
    drawn = [by_id[id] for id in sorted(answer.members)]
    if costs := [line for a in (answer.x, answer.y) for line in told(a.measure, drawn)]:
        lines += [*costs, ""]
    if answer.excluded:
        counts = ", ".join(f"{count} {code}" for code, count in answer.excluded_counts.items())
        lines.append(f"{len(answer.excluded)} not plotted ({counts})")
        lines += [f"   {item.name}: {item.code}: {item.reason}" for item in answer.excluded]
    return lines or ["there are no points yet"]


def _shown(reading: Reading) -> str:
    from ridgeline.cli.plot import tick

    return tick(reading.value) if reading.value is not None else f"none: {reading.reason}"


def _title(axis: Any) -> str:
    return f"{axis.measure} ({axis.unit}, {axis.better} is better)"


def run(argv: list[str]) -> int:
    """Entry of the verb."""
    return run_app(app, "frontier", argv)
