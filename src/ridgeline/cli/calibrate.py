"""`ridgeline calibrate`: fit the cost model to measured points, or print how wrong it is on them."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.typed import run_app
from ridgeline.core.errors import InputError, Problem

if TYPE_CHECKING:
    from ridgeline.simulate.evaluate import Line, Row

app = typer.Typer(add_completion=False)


def run(argv: list[str]) -> int:
    """Run the verb."""
    return run_app(app, "calibrate", argv)


@app.command()
def calibrate(
    points: Annotated[list[Path], typer.Argument(help="CSV files of measured points, or a results.json of steps")],
    out: Annotated[
        Path | None, typer.Option("-o", help="parameter file or folder; with --evaluate the predictions as CSV")
    ] = None,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="print the error table, fit nothing")] = False,
    parameters: Annotated[Path | None, typer.Option(help="with --evaluate: a parameter file instead of ours")] = None,
    uncalibrated: Annotated[bool, typer.Option(help="with --evaluate: fitted parameters deleted")] = False,
    window: Annotated[int, typer.Option(help="with --evaluate: simulated seconds of agentic points")] = 3600,
) -> int:
    """Fit at most eight parameters a GPU and engine and two a model; or evaluate. Exit 1 when points are refused."""
    if evaluate:
        return _evaluate(points, out, parameters, uncalibrated, window)
    return _fit(points, out)


def _fit(paths: list[Path], out: Path | None) -> int:
    from ridgeline.simulate import validate
    from ridgeline.simulate.fit import covered, shown
    from ridgeline.simulate.fitfile import text_of
    from ridgeline.simulate.points import read_points

    read = [point for path in paths for point in read_points(path)]
    points, refused = covered([point for point in read if point.kind == "fixed"])
    for one in refused:
        sys.stderr.write(f"left out: line {one.point.row}: {one.reason}\n")
    fits, unfit = validate.fit_all(points)
    if out is not None and out.suffix == ".json" and len(fits) != 1:
        hint = "give a folder, or points of one GPU and engine"
        raise InputError([Problem(f"one file cannot hold {len(fits)} parameter sets", key="-o", hint=hint)])
    base = validate.Baseline([point for point in points if not point.doubtful])
    for group, found in fits.items():
        conc, topology = validate.of_concurrency(found), validate.of_topology(found, base)
        spread = validate.spread(topology or conc)
        sys.stdout.write(f"{'/'.join(group)}: {len(found.points)} points, {len(found.names)} parameters\n")
        for name, guesses in (("in sample", None), ("concurrency left out", conc), ("topology left out", topology)):
            pairs = validate.in_sample(found)
            own = [validate.Guess(p, seen, None, None, "") for p, seen in pairs] if guesses is None else guesses
            if own:
                e = validate.errors(own)
                sys.stdout.write(
                    f"  {name:<22} {len(own):>5} points  tokens/s/GPU {e.tput:6.1%} ({e.tput_bias:+.1%})"
                    f"  time per token {e.tpot:6.1%} ({e.tpot_bias:+.1%})\n"
                )
        for name, factor in shown(found).items():
            sys.stdout.write(f"  {name:<46} x {factor:.3g}\n")
        if out is not None:
            target = out if out.suffix == ".json" else out / f"{group[0]}-{group[1]}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text_of(found, spread, ", ".join(path.name for path in paths)), encoding="utf-8")
            sys.stderr.write(f"parameters  {target}\n")
    for why in unfit.values():
        sys.stderr.write(f"not fitted: {why}\n")
    return 1 if unfit or refused or not fits else 0


def _evaluate(paths: list[Path], out: Path | None, parameters: Path | None, uncalibrated: bool, window: int) -> int:
    from ridgeline.simulate.evaluate import evaluated, table

    found = evaluated(paths, parameters=parameters, uncalibrated=uncalibrated, window_s=window)
    for reason in found.left_out:
        sys.stderr.write(f"left out: {reason}\n")
    for line in table(found.rows):
        sys.stdout.write(_shown(line))
    if out is not None:
        _write(out, found.rows)
        sys.stderr.write(f"\npredictions  {out}\n")
    return 1 if found.left_out or not found.rows else 0


def _shown(line: Line) -> str:
    cells = "".join(
        f"  {name} {size:6.1%} ({bias:+.1%}, n={count})" for name, size, bias, count in line.errors if count
    )
    order = "" if line.tau is None else f"  tau {line.tau:.2f}"
    inside = "" if line.inside is None else f"  in band {line.inside:.0%}"
    return f"{line.name:<44}{cells}{order}{inside}\n"


def _write(path: Path, rows: list[Row]) -> None:
    from ridgeline.simulate.evaluate import COLUMNS

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow(row.cells)
