"""Predictions beside measurements, for any file of points that `pointkinds` reads.

Fixed-sequence points come from the steady state, agentic ones from a replay of synthetic agent sessions in virtual
time (agentic.py), single steps, starts and closed loops of one engine from steps.py. An error is a share of what was
measured; that of a cache hit, which is a share itself, is the plain difference.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.simulate.agentic import WINDOW_S, Seen
from ridgeline.simulate.bands import band, spread_of
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters, parameters_for
from ridgeline.simulate.fit import covered, engine_of_point, predict
from ridgeline.simulate.fitfile import check_all
from ridgeline.simulate.pointkinds import Reading, read_file
from ridgeline.simulate.points import Measured, served_by
from ridgeline.simulate.replays import Replays
from ridgeline.simulate.steps import gpu_of, step_values
from ridgeline.simulate.validate import tau

MEASURES = (
    "tokens/s/GPU", "time per token", "first token", "cache hit", "step time", "output tokens/s/GPU", "weights",
    "KV tokens",
)  # fmt: skip
COLUMNS = (
    "file", "line", "hardware", "framework", "model", "precision", "spec", "layout", "isl", "osl", "conc", "measure",
    "measured", "predicted", "low", "high", "doubtful", "assumed",
)  # fmt: skip


class Row(NamedTuple):
    """One measured value and what the model says; `low` and `high` bound the middle 80 % of what is expected."""

    file: str
    point: Measured
    measure: str
    measured: float
    predicted: float
    low: float | None
    high: float | None

    @property
    def cells(self) -> tuple[object, ...]:
        """The row of a table with `COLUMNS`."""
        p = self.point
        return (
            self.file, p.row, p.hardware, p.engine, p.model, p.precision, p.spec, p.label, p.isl, p.osl, p.conc,
            self.measure, f"{self.measured:.6g}", f"{self.predicted:.6g}",
            "" if self.low is None else f"{self.low:.6g}", "" if self.high is None else f"{self.high:.6g}", p.doubtful,
            "; ".join(p.assumed),
        )  # fmt: skip


class Evaluated(NamedTuple):
    """What became of files of points: predictions, points without one (and why), what is wrong in the files, and what
    is worth knowing of them."""

    rows: list[Row]
    left_out: list[str]
    problems: list[Problem]
    notes: list[str]


class Line(NamedTuple):
    """Errors of a group: (measure, mean absolute error, signed bias, values); order by throughput; share in band."""

    name: str
    errors: tuple[tuple[str, float, float, int], ...]
    tau: float | None
    inside: float | None


def evaluated(
    paths: Iterable[Path],
    *,
    parameters: Path | None = None,
    uncalibrated: bool = False,
    window_s: int = WINDOW_S,
    given: Mapping[str, str] | None = None,
    jobs: int = 1,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluated:
    """Every point of every file. What is wrong in one row does not keep the others from being predicted. `given`: what
    rows do not say. `jobs`: processes that replay agentic points; `told` hears how many of them are done.

    Raises InputError when no file could be read at all, or for a parameter file that is wrong."""
    if parameters is not None:
        check_all(parameters)
    found = Evaluated([], [], [], [])
    readings = []
    for path in files_of(paths):
        try:
            readings.append(read_file(path, given))
        except InputError as error:
            found.problems.extend(error.problems)
    if not readings:
        raise InputError(found.problems)
    choice = _Choice(parameters, uncalibrated)
    for reading in readings:
        _evaluate(reading, found, choice)
    agentic = [(reading.path, point) for reading in readings for point in reading.points if point.kind == "agentic"]
    replays = Replays([(point, choice.of(point.hardware, point.engine), window_s) for _, point in agentic])
    for done, ((path, point), seen) in enumerate(zip(agentic, replays.all(jobs), strict=True), 1):
        if isinstance(seen, str):
            found.left_out.append(f"{path.name} line {point.row}: {seen}")
        else:
            found.rows.extend(_agentic(path, point, seen, choice))
        told(done, len(agentic))
    return found


class _Choice(NamedTuple):
    """Which parameters to predict with."""

    extra: Path | None
    uncalibrated: bool

    def of(self, gpu: str, engine: str) -> CostParameters:
        return _parameters(gpu, engine, self.extra, self.uncalibrated)


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Files, and those below folders that may hold points. Raises InputError for folders that hold none."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(p for p in path.rglob("*") if p.suffix in (".csv", ".json", ".jsonl") and p.is_file())
        if not inside:
            raise InputError([Problem(f"`{path}` holds no .csv, .json or .jsonl file")])
        found += inside
    return found


def _evaluate(reading: Reading, found: Evaluated, choice: _Choice) -> None:
    """Everything of a file but its agentic points, which take their time."""
    path = reading.path
    found.problems.extend(reading.problems)
    found.notes.extend(reading.left_out)
    if reading.steps is not None:
        steps = step_values(path, reading.steps, choice.of(gpu_of(reading.steps), "vllm"))
        found.rows.extend(_row(path, v.point, v.measure, v.measured, v.predicted, None) for v in steps.values)
        found.left_out.extend(steps.left_out)
        found.notes.extend(steps.notes)
    fixed, gone = covered([point for point in reading.points if point.kind == "fixed"])
    found.left_out.extend(f"{path.name} line {one.point.row}: {one.reason}" for one in gone)
    prices: dict[tuple[str, str], dict[int, StepCost]] = defaultdict(dict)
    for point in fixed:
        p = choice.of(point.hardware, point.engine)
        seen = predict(point, p, prices[point.hardware, point.engine])
        values = (
            (MEASURES[0], point.tput, seen.tput_per_gpu),
            (MEASURES[1], point.tpot_s, seen.tpot_s),
            (MEASURES[2], point.ttft_s, seen.ttft_s),
        )
        known = p.knows(engine_of_point(point).price.options.arch.name)
        found.rows.extend(_row(path, point, name, a, b, p.spread, known) for name, a, b in values if a)


@lru_cache(maxsize=256)
def _parameters(gpu: str, engine: str, extra: Path | None, uncalibrated: bool) -> CostParameters:
    if uncalibrated:
        return parameters_for("default", "default", measured_only=True)
    own = served_by(engine)
    return parameters_for(gpu, engine if engine == own else f"dynamo-{own}", extra)


def _row(
    path: Path, point: Measured, measure: str, measured: float, predicted: float, fitted: float | None,
    known: bool = True,
) -> Row:  # fmt: skip
    low, high = band(predicted, measure, spread_of(point, measure, fitted, seen=known))
    return Row(path.name, point, measure, measured, predicted, low, high)


def _agentic(path: Path, point: Measured, found: Seen, choice: _Choice) -> list[Row]:
    spread = choice.of(point.hardware, point.engine).spread
    values = (
        (MEASURES[0], point.tput, found.tput_per_gpu),
        (MEASURES[1], point.tpot_s, found.itl_s),
        (MEASURES[2], point.ttft_s, found.ttft_median_s if point.ttft_median else found.ttft_mean_s),
        (MEASURES[3], point.hit, found.hit),
        (MEASURES[5], point.output_tput, found.tput_per_gpu * found.answer / (found.prompt + found.answer)),
    )
    return [_row(path, point, name, a, b, spread) for name, a, b in values if a is not None and b is not None]


def group_of(row: Row) -> str:
    """Hardware, framework, model, precision and speculation: what a line of the table is about."""
    point = row.point
    name = f"{point.hardware}/{point.engine} {point.model}"
    return name if " " in point.model else f"{name} {point.precision} {point.spec}"


def table(rows: Sequence[Row]) -> list[Line]:
    """A line for every hardware, framework, model, precision and speculation, and one for everything."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[group_of(row)].append(row)
    return [_line(name, own) for name, own in sorted(groups.items())] + ([_line("all", list(rows))] if rows else [])


def error_of(row: Row) -> float:
    """Share of what was measured, plain difference for a hit rate."""
    return row.predicted - row.measured if row.measure == MEASURES[3] else row.predicted / row.measured - 1


def _line(name: str, rows: Sequence[Row]) -> Line:
    found = []
    for measure in MEASURES:
        shares = [error_of(row) for row in rows if row.measure == measure]
        if shares:
            found.append((measure, statistics.fmean(map(abs, shares)), statistics.fmean(shares), len(shares)))
    order = [(row.predicted, row.measured) for row in rows if row.measure == MEASURES[0]] if name != "all" else []
    banded = [row for row in rows if row.low is not None and row.high is not None and row.measure == MEASURES[0]]
    inside = [(row.low or 0) <= row.measured <= (row.high or 0) for row in banded]
    return Line(
        name, tuple(found), tau(order) if len(order) >= 3 else None, sum(inside) / len(inside) if inside else None
    )
