"""`ridgeline calibrate`: fit the cost model to measured points, or print how wrong it is on them."""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.typed import run_app
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem

if TYPE_CHECKING:
    from ridgeline.simulate.evaluate import Row
    from ridgeline.simulate.points import Measured

app = typer.Typer(add_completion=False)


def run(argv: list[str]) -> int:
    """Run the verb."""
    return run_app(app, "calibrate", argv)


@app.command()
def calibrate(
    points: Annotated[
        list[Path],
        typer.Argument(help="files of measured points (CSV, JSON, JSON lines), a results.json of steps, or folders"),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", help="parameter file or folder; with --evaluate the predictions as CSV")
    ] = None,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="print the error table, fit nothing")] = False,
    parameters: Annotated[Path | None, typer.Option(help="with --evaluate: a parameter file instead of ours")] = None,
    uncalibrated: Annotated[bool, typer.Option(help="with --evaluate: fitted parameters deleted")] = False,
    window: Annotated[int, typer.Option(min=1, help="with --evaluate: simulated seconds of agentic points")] = 3600,
    jobs: Annotated[int | None, typer.Option(min=1, help="agentic points at a time; default: one a core")] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE that the files do not say: hardware, framework, model, precision, tp, ..."),
    ] = None,
) -> int:
    """Fit at most six parameters a GPU and engine and two a checkpoint; or evaluate.

    Exit 1 when points are not covered, 2 when a file is wrong; the others are predicted in any case.
    """
    said = _given(given or [])
    if evaluate:
        return _evaluate(points, out, parameters, uncalibrated, window, said, jobs or len(os.sched_getaffinity(0)))
    return _fit(points, out, said)


def _given(words: list[str]) -> dict[str, str]:
    from ridgeline.simulate.pointkinds import GIVEN

    found, problems = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value or name not in GIVEN:
            hint = f"NAME=VALUE; names: {', '.join(GIVEN)}"
            problems.append(Problem(f"`{word}` says nothing that is known", key="--given", hint=hint))
        found[name] = value
    if problems:
        raise InputError(problems)
    return found


def _read(paths: list[Path], given: dict[str, str]) -> list[Measured]:
    """The points of all files. Raises InputError with everything that is wrong in any of them."""
    from ridgeline.simulate.evaluate import files_of
    from ridgeline.simulate.pointkinds import read_file

    points: list[Measured] = []
    problems: list[Problem] = []
    for path in files_of(paths):
        try:
            reading = read_file(path, given)
        except InputError as error:
            problems += error.problems
            continue
        points += reading.points
        problems += reading.problems
    if problems:
        raise InputError(problems)
    return points


def _fit(paths: list[Path], out: Path | None, given: dict[str, str]) -> int:
    from ridgeline.simulate import validate
    from ridgeline.simulate.fit import covered, shown
    from ridgeline.simulate.fitfile import text_of

    read = _read(paths, given)
    points, refused = covered([point for point in read if point.kind == "fixed" and not point.assumed])
    if guessed := sum(bool(point.assumed) for point in read):
        why = "something in them had to be assumed; --evaluate says what"
        sys.stderr.write(f"note: {guessed} of {len(read)} points are not fitted to: {why}\n")
    if agentic := sum(point.kind == "agentic" for point in read):
        sys.stderr.write(f"note: {agentic} agentic points are not fitted to: caches decide them, not prices\n")
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
            _write(target, text_of(found, spread, ", ".join(path.name for path in paths)))
            sys.stderr.write(f"parameters  {target}\n")
    for why in unfit.values():
        sys.stderr.write(f"not fitted: {why}\n")
    return 1 if unfit or refused or not fits else 0


def _evaluate(
    paths: list[Path],
    out: Path | None,
    parameters: Path | None,
    uncalibrated: bool,
    window: int,
    given: dict[str, str],
    jobs: int,
) -> int:
    from ridgeline.simulate.errortable import LEGEND, error_table, shown
    from ridgeline.simulate.evaluate import evaluated

    if out is not None:
        _spared(out, paths)
    found = evaluated(
        paths, parameters=parameters, uncalibrated=uncalibrated, window_s=window, given=given, jobs=jobs, told=_told
    )
    for kind, reasons in (("left out", found.left_out), ("note", found.notes)):
        for reason in reasons:
            sys.stderr.write(f"{kind}: {reason}\n")
    doubtful = sorted({f"{row.file} line {row.point.row}" for row in found.rows if row.point.doubtful})
    if doubtful:
        why = "their own numbers say that less than an eighth of the stated requests decoded at once"
        sys.stderr.write(f"note: {len(doubtful)} doubtful rows, {why}: {', '.join(doubtful[:12])}\n")
    for problem in found.problems:
        sys.stderr.write(f"error: {problem}\n")
    if found.rows:
        sys.stdout.write(shown(error_table(found.rows)) + "\n" + "".join(f"{line}\n" for line in LEGEND))
    if out is not None and found.rows:
        _write(out, _predictions(found.rows))
        sys.stderr.write(f"\npredictions  {out}\n")
    if found.problems:
        return 2
    return 1 if found.left_out or not found.rows else 0


def _told(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\ragentic points replayed: {done} of {total}" + "\n" * (done == total))


def _spared(out: Path, paths: list[Path]) -> None:
    """Raises before anything is computed when writing to `out` would lose something or cannot be done."""
    from ridgeline.simulate.evaluate import COLUMNS

    problem = None
    if out.is_dir():
        problem = Problem(f"`{out}` is a folder", key="-o", hint="name a file")
    elif out.exists():
        with out.open("rb") as file:
            head = file.readline(1000).decode("utf-8", "replace").rstrip()
        if any(path.exists() and path.samefile(out) for path in paths):
            problem = Problem(f"`{out}` is one of the files of points", key="-o", hint="give another name")
        elif head and not head.startswith(",".join(COLUMNS[:6])):
            message = f"`{out}` exists and holds no predictions; it is left as it is"
            problem = Problem(message, key="-o", hint="give another name, or remove it first")
    if problem is not None:
        raise InputError([problem])
    folder = next((parent for parent in out.absolute().parents if parent.exists()), Path("/"))
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise EnvironmentFailed(f"cannot write to `{folder}`", hint="give a folder that may be written to with -o")


def _predictions(rows: list[Row]) -> str:
    from ridgeline.simulate.evaluate import COLUMNS

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(row.cells for row in rows)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    """Put a file there in one step: what was there stays until all of the new one is. Raises EnvironmentFailed."""
    beside = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            beside = Path(file.name)
            file.write(text)
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        if beside is not None:
            beside.unlink(missing_ok=True)
        raise EnvironmentFailed(
            f"cannot write `{path}`: {error.strerror}", hint="make room, or give another -o"
        ) from error
