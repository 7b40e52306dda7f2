"""`ridgeline compare A B`: point by point, with intervals, verdicts, what changed, and what to run again."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.prices import PricesOption, SettingsOption, chosen_prices
from ridgeline.cli.stores import DATA_HELP, STORE_HELP, side
from ridgeline.cli.table import table
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
    prices: PricesOption = None,
    settings: SettingsOption = None,
    store: Annotated[str | None, typer.Option("--store", metavar="STORE", help=STORE_HELP)] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help=DATA_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> int:
    """Compare two runs: better, same, worse or unclear, for every point and as a whole."""
    from ridgeline.core.errors import InputError
    from ridgeline.results.compare import MEASURES
    from ridgeline.results.compare import compare as compare_sides
    from ridgeline.results.cost import priced

    sheet = chosen_prices(prices, settings)
    sides = []
    for text in (a, b):
        found = side(text, store, data)
        chosen = tuple(point for point in found.points if fnmatchcase(point.name, cells))
        if not chosen:
            raise InputError(f"{text} has no points" + (f" that match `{cells}`" if cells != "*" else ""))
        sides.append(replace(found, points=tuple(priced(point, sheet) for point in chosen) if sheet else chosen))
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
    origins = _numbered(answer)
    lines += ["", *_points(answer, origins), *_shifts(answer)]
    if origins:
        lines += ["", "where the 95 % intervals come from"]
        lines += [f"   [{number}] {origin}" for origin, number in origins.items()]
    lines += [f"{answer.looks} looks; equal runs are called different in at most 5 % of comparisons"]
    lines += [line for measure in _measures(answer) for line in _costs(answer, measure)]
    rows: list[tuple[str, ...]]
    if answer.changes:
        rows = [("kind", "what", "A", "B", "points")]
        for change in answer.changes:
            touched = f"{change.points} of {change.of}"
            rows.append((change.kind, change.name, _shown(change.before), _shown(change.after), touched))
        lines += ["", "what changed, likeliest reasons first", *table(rows, 3)]
    if answer.again:
        rows = [("cell", "repeats a side", "GPU-hours", "why")]
        for cell in answer.again:
            cost = "not known" if cell.gpu_seconds is None else f"{cell.gpu_seconds / 3600:.3g}"
            rows.append((cell.name, str(cell.repeats), cost, cell.why))
        lines += ["", "cheapest cells to run again", *table(rows, 3)]
    if answer.alone:
        rows = [("only in", "cell", "why"), *((item.side, item.name, item.reason) for item in answer.alone)]
        lines += ["", "not matched", *table(rows, 3)]
    return lines


def _numbered(answer: Comparison) -> dict[str, int]:
    """Where intervals come from -> the number by which the rows name it."""
    found: dict[str, int] = {}
    for point in answer.points:
        for item in point.differences:
            if item.estimate is not None:
                found.setdefault(item.estimate.source, len(found) + 1)
    return found


def _points(answer: Comparison, origins: dict[str, int]) -> list[str]:
    """A table of every measure of every pair, with notes below the pair they belong to."""
    head = ("", "measure", "A", "B", "unit", "change", "95 % interval", "repeats", "n", "from", "because")
    rows: list[tuple[str, ...]] = [head]
    after: dict[int, list[str]] = {}
    for point in answer.points:
        source = f"  [{point.pair.source}]" if len(answer.sources) > 1 else ""
        after.setdefault(len(rows) - 1, []).append(f"{point.verdict}  {point.pair.name}{source}")
        if point.pair.lost is not None:
            after[len(rows) - 1].append(f"   {point.reason}")
        for item in point.differences:
            if item.estimate is None:
                rows.append(("  -", item.measure, "", "", item.unit, "", "", "", "", "", item.judged.reason))
            else:
                rows.append(_row(item, origins))
        notes = dict.fromkeys(note for item in point.differences if item.estimate for note in item.estimate.notes)
        after.setdefault(len(rows) - 1, []).extend(f"      {note}" for note in notes)
    lines = []
    for number, line in enumerate(table(rows)):
        lines += [line, *after.get(number, ())]
    return lines


def _row(item: Difference, origins: dict[str, int]) -> tuple[str, ...]:
    e = item.estimate
    assert e is not None
    bounds = e.interval()
    arrow = "" if e.change == 0 else (" ▲" if (e.change > 0) == (item.better == "higher") else " ▼")
    return (
        f"  {item.judged.verdict}",
        item.measure,
        f"{e.a:.4g}",
        f"{e.b:.4g}",
        item.unit,
        f"{e.change:+.1%}{arrow}",
        f"{bounds[0]:+.1%} to {bounds[1]:+.1%}" if bounds else "none",
        f"{e.runs[0]}+{e.runs[1]}",
        "+".join("?" if n is None else str(n) for n in e.samples),
        f"[{origins[e.source]}]",
        item.judged.reason,
    )


def _measures(answer: Comparison) -> list[str]:
    return list(dict.fromkeys(item.measure for point in answer.points for item in point.differences))


def _costs(answer: Comparison, measure: str) -> list[str]:
    from ridgeline.results.cost import told

    return told(measure, [point for item in answer.points for point in (*item.pair.a, *item.pair.b)])


def _shifts(answer: Comparison) -> list[str]:
    if not answer.shifts:
        return []
    rows = [("", "measure", "change", "95 % interval", "points")]
    for shift in answer.shifts:
        low, high = shift.interval
        rows.append(
            (f"  {shift.verdict}", shift.measure, f"{shift.change:+.1%}", f"{low:+.1%} to {high:+.1%}",
             str(shift.points))
        )  # fmt: skip
    return ["", "all points together", *table(rows)]


def _shown(value: object) -> str:
    """A value of the provenance as a reader would write it, cut where it is long."""
    if value is None:
        return "not told"
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    elif isinstance(value, (list, tuple)):
        text = " | ".join(map(_shown, value))
    else:
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def run(argv: list[str]) -> int:
    """Entry of the verb."""
    return run_app(app, "compare", argv)
