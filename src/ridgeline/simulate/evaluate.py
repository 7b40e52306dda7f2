"""Predictions beside measurements, for any file of points that `points` reads.

Fixed-sequence points come from the steady state, agentic ones from a replay of synthetic agent sessions in virtual
time (agentic.py), single steps from the price of a step. An error is a share of what was measured; that of a cache hit,
which is a share itself, is the plain difference.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.simulate.agentic import WINDOW_S, predicted
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters, parameters_for
from ridgeline.simulate.fit import covered, predict
from ridgeline.simulate.points import Measured, read_points, read_steps
from ridgeline.simulate.steady import decode_batch, prefill_batch
from ridgeline.simulate.validate import BAND, tau

MEASURES = ("tokens/s/GPU", "time per token", "first token", "cache hit", "step time")


class Row(NamedTuple):
    """One measured value and what the model says; `low` and `high` bound the middle 80 % where a spread is known."""

    file: str
    point: Measured
    measure: str
    measured: float
    predicted: float
    low: float | None
    high: float | None

    @property
    def cells(self) -> tuple[object, ...]:
        p = self.point
        return (
            self.file, p.row, p.hardware, p.engine, p.model, p.precision, p.spec, p.label, p.isl, p.osl, p.conc,
            self.measure, f"{self.measured:.6g}", f"{self.predicted:.6g}",
            "" if self.low is None else f"{self.low:.6g}", "" if self.high is None else f"{self.high:.6g}", p.doubtful,
        )  # fmt: skip


class Line(NamedTuple):
    """Errors of a group: (measure, mean absolute error, signed bias, values); order by throughput; share in band."""

    name: str
    errors: tuple[tuple[str, float, float, int], ...]
    tau: float | None
    inside: float | None


def evaluated(
    paths: Iterable[Path], *, parameters: Path | None = None, uncalibrated: bool = False, window_s: int = WINDOW_S
) -> tuple[list[Row], list[str]]:
    """Rows of every file, and what was left out with the reason. Raises InputError for files that cannot be read."""
    rows: list[Row] = []
    refused: list[str] = []
    for path in paths:
        if path.suffix == ".json":
            rows += _steps(path, parameters, uncalibrated)
            continue
        points = read_points(path)
        fixed, gone = covered([point for point in points if point.kind == "fixed"])
        refused += [f"{path.name} line {one.point.row}: {one.reason}" for one in gone]
        prices: dict[tuple[str, str], dict[int, StepCost]] = defaultdict(dict)
        for point in fixed:
            p = _parameters(point.hardware, point.engine, parameters, uncalibrated)
            seen = predict(point, p, prices[point.hardware, point.engine])
            values = (
                (MEASURES[0], point.tput, seen.tput_per_gpu),
                (MEASURES[1], point.tpot_s, seen.tpot_s),
                (MEASURES[2], point.ttft_s, seen.ttft_s),
            )
            rows += [_row(path, point, *value, p.spread) for value in values if value[1]]  # type: ignore[arg-type]
        for point in points:
            if point.kind == "agentic":
                try:
                    rows += _agentic(path, point, parameters, uncalibrated, window_s)
                except InputError as error:
                    reason = error.problems[0].message if error.problems else str(error)
                    refused.append(f"{path.name} line {point.row}: {reason[:160]}")
    return rows, refused


@lru_cache(maxsize=256)
def _parameters(gpu: str, engine: str, extra: Path | None, uncalibrated: bool) -> CostParameters:

    if uncalibrated:
        return parameters_for("default", "default", measured_only=True)
    return parameters_for(gpu, engine, extra)


def _row(path: Path, point: Measured, measure: str, measured: float, predicted: float, spread: float | None) -> Row:
    low, high = None, None
    if spread is not None and measure in MEASURES[:2]:
        width = math.exp(BAND * spread)
        low, high = predicted / width, predicted * width
    return Row(path.name, point, measure, measured, predicted, low, high)


def _agentic(path: Path, point: Measured, extra: Path | None, uncalibrated: bool, window_s: int) -> list[Row]:
    found = predicted(point, _parameters(point.hardware, point.engine, extra, uncalibrated), window_s)
    if found is None:
        return []
    values = (
        (MEASURES[0], point.tput, found.tput_per_gpu),
        (MEASURES[1], point.tpot_s, found.itl_s),
        (MEASURES[2], point.ttft_s, found.ttft_median_s if point.ttft_median else found.ttft_mean_s),
        (MEASURES[3], point.hit, found.hit),
    )
    return [_row(path, point, name, a, b, None) for name, a, b in values if a is not None and b is not None]


# What even routing, which those steps simulated, changes: measured with them, fused experts at 1 to 8,192 tokens.
EVENNESS, EXPERT_TOP = 1e6, 0.47
_STEP_MODELS = {
    "llama8b_graph": ("llama-3.1-8b", "FULL_AND_PIECEWISE"),
    "llama8b_eager": ("llama-3.1-8b", "NONE"),
    "qwen3moe_graph": ("qwen3-30b-a3b", "FULL_AND_PIECEWISE"),
    "qwen3moe_eager": ("qwen3-30b-a3b", "NONE"),
    "llama8b": ("llama-3.1-8b", "FULL_AND_PIECEWISE"),
}


def _steps(path: Path, extra: Path | None, uncalibrated: bool) -> list[Row]:
    """Decode steps by batch and context, prefill chunks behind a cached context: vLLM on one H200, bf16."""
    parts, rows = read_steps(path), []
    p = replace(_parameters("h200", "vllm", extra, uncalibrated), expert_evenness=EVENNESS, expert_top=EXPERT_TOP)
    for kind, tables in parts.items():
        for name, items in tables.items():
            if name not in _STEP_MODELS or not isinstance(items, list):
                continue
            model, mode = _STEP_MODELS[name]
            price = StepCost(options_from(model, "h200", Topology(1), "bf16", cudagraph_mode=mode), p)
            for number, item in enumerate(items):
                if kind == "decode":
                    predicted = price.seconds([decode_batch(item["B"], item["C"])])
                    conc, isl = item["B"], item["C"]
                else:
                    chunk = prefill_batch(item["c"], item["C"], 16)
                    chunk.attached = (item["c"] + item["C"]) / 16
                    predicted, conc, isl = price.seconds([chunk], from_idle=True), 1, item["c"]
                label = f"{kind} {name}"
                point = Measured(
                    row=number, hardware="h200", engine="vllm", model=label, precision="bf16", spec="none",
                    topology=Topology(1), conc=conc, isl=isl, osl=1,
                )  # fmt: skip
                rows.append(_row(path, point, MEASURES[4], item["ms"] / 1e3, predicted, None))
    return rows


def table(rows: Sequence[Row]) -> list[Line]:
    """A line for every hardware, framework, model, precision and speculation, and one for everything."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        point = row.point
        name = f"{point.hardware}/{point.engine} {point.model}" + (
            "" if row.measure == MEASURES[4] else f" {point.precision} {point.spec}"
        )
        groups[name].append(row)
    return [_line(name, own) for name, own in sorted(groups.items())] + ([_line("all", list(rows))] if rows else [])


def _error(row: Row) -> float:
    return row.predicted - row.measured if row.measure == MEASURES[3] else row.predicted / row.measured - 1


def _line(name: str, rows: Sequence[Row]) -> Line:
    found = []
    for measure in MEASURES:
        shares = [_error(row) for row in rows if row.measure == measure]
        if shares:
            found.append((measure, statistics.fmean(map(abs, shares)), statistics.fmean(shares), len(shares)))
    order = [(row.predicted, row.measured) for row in rows if row.measure == MEASURES[0]] if name != "all" else []
    banded = [row for row in rows if row.low is not None and row.high is not None and row.measure == MEASURES[0]]
    inside = [(row.low or 0) <= row.measured <= (row.high or 0) for row in banded]
    return Line(
        name, tuple(found), tau(order) if len(order) >= 3 else None, sum(inside) / len(inside) if inside else None
    )
