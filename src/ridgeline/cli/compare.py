"""`ridgeline compare A B`: point by point, with intervals, verdicts, what changed, and what to run again."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.stores import DATA_HELP, STORE_HELP, side
from ridgeline.cli.typed import run_app

if TYPE_CHECKING:
    from ridgeline.results.compare import Comparison, Difference

app = typer.Typer(add_completion=False)


@app.command()
def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="Before: a run folder, another tool's results, or a run of the store; several as A1,A2,A3.",
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="After: the same.")],
    measures: Annotated[
        list[str] | None,
        typer.Option("--measure", metavar="MEASURE", help="Judge this measure instead of the usual three."),
    ] = None,
    cells: Annotated[str, typer.Option(metavar="GLOB", help="Only points whose name matches.")] = "*",
    gate: Annotated[bool, typer.Option("--gate", help="Exit 1 on a regression beyond noise.")] = False,
    across_sources: Annotated[
        bool, typer.Option("--across-sources", help="Compare measured with predicted or emulated points, labelled.")
    ] = False,
    store: Annotated[str | None, typer.Option("--store", metavar="STORE", help=STORE_HELP)] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help=DATA_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> int:
    """Compare two runs: better, same, worse or unclear, for every point and as a whole."""
    from ridgeline.core.errors import InputError
    from ridgeline.results.compare import MEASURES
    from ridgeline.results.compare import compare as compare_sides

    sides = []
    for text in (a, b):
        found = side(text, store, data)
        chosen = tuple(point for point in found.points if fnmatchcase(point.name, cells))
        if not chosen:
            raise InputError(f"{text} has no points" + (f" that match `{cells}`" if cells != "*" else ""))
        sides.append(replace(found, points=chosen))
    answer = compare_sides(sides[0], sides[1], tuple(measures or MEASURES), mix_sources=across_sources)
    if as_json:
        sys.stdout.write(
            json.dumps(answer.to_json(), indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
        )
    else:
        sys.stdout.write("\n".join(as_text(answer)) + "\n")
    return 1 if gate and answer.regressed else 0


def as_text(answer: Comparison) -> list[str]:
    """The comparison as lines: the answer first, then points, shared shifts, changes, what to run again, unmatched."""
    lines = [f"{answer.overall.verdict}: {answer.overall.reason}", ""]
    lines += [f"A  {answer.a}", f"B  {answer.b}"]
    if len(answer.sources) > 1:
        lines.append(f"sources: {', '.join(answer.sources)}; differences between them are not changes of the software")
    lines.append("")
    for point in answer.points:
        source = f"  [{point.pair.source}]" if len(answer.sources) > 1 else ""
        lines.append(f"{point.verdict:<8} {point.pair.name}{source}")
        if point.pair.lost is not None:
            lines.append(f"           {point.reason}")
        for item in point.differences:
            lines.append(f"           {_difference(item)}")
            if item.estimate is not None:
                lines += [f"             {note}" for note in item.estimate.notes]
    lines += _shifts(answer)
    origins = list(
        dict.fromkeys(d.estimate.source for p in answer.points for d in p.differences if d.estimate is not None)
    )
    lines += ["", "intervals (95 %) come from", *(f"   {origin}" for origin in origins)] if origins else []
    lines += [f"{answer.looks} looks; equal runs are called different in at most 5 % of comparisons"]
    if answer.changes:
        lines += ["", "what changed, likeliest reasons first"]
        lines += [
            f"   {c.kind}: {c.name}: {_shown(c.before)} -> {_shown(c.after)}  ({c.points} of {c.of} points)"
            for c in answer.changes
        ]
    if answer.again:
        lines += ["", "cheapest cells to run again"]
        for cell in answer.again:
            cost = "cost not known" if cell.gpu_seconds is None else f"{cell.gpu_seconds / 3600:.3g} GPU-hours"
            lines.append(f"   {cell.name}: {cell.repeats} more on each side, {cost}: {cell.why}")
    if answer.alone:
        lines += ["", "not matched"]
        lines += [f"   only in {item.side}: {item.name}: {item.reason}" for item in answer.alone]
    return lines


def _difference(item: Difference) -> str:
    if item.estimate is None:
        return f"{item.measure}: {item.judged.reason}"
    e = item.estimate
    bounds = e.interval()
    interval = f" [{bounds[0]:+.1%}, {bounds[1]:+.1%}]" if bounds else " [no interval]"
    samples = ", ".join("n not told" if n is None else f"n {n}" for n in e.samples)
    arrow = "" if e.change == 0 else (" ▲" if (e.change > 0) == (item.better == "higher") else " ▼")
    return (
        f"{item.judged.verdict:<8} {item.measure} {e.a:.4g} -> {e.b:.4g} {item.unit}  {e.change:+.1%}{arrow}{interval}"
        f"  runs {e.runs[0]}+{e.runs[1]}, {samples}; {item.judged.reason}"
    )


def _shifts(answer: Comparison) -> list[str]:
    if not answer.shifts:
        return []
    lines = ["", "all points together"]
    for shift in answer.shifts:
        low, high = shift.interval
        bounds = f"{shift.change:+.1%} [{low:+.1%}, {high:+.1%}]"
        lines.append(f"   {shift.verdict:<8} {shift.measure} {bounds} over {shift.points} points")
    return lines


def _shown(value: object) -> str:
    text = "not told" if value is None else str(value)
    return text if len(text) <= 90 else text[:87] + "..."


def run(argv: list[str]) -> int:
    """Entry of the verb."""
    return run_app(app, "compare", argv)
