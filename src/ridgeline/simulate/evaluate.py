"""Predictions beside measurements, for any file of points that `points` reads.

Fixed-sequence points come from the steady state, agentic ones from a replay of synthetic agent sessions in virtual time
(their trace is not known, so only order and knee should be read off them), single steps from the price of a step.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.core.units import nanoseconds
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters, parameters_for
from ridgeline.simulate.fit import covered, predict
from ridgeline.simulate.points import MODELS, Measured, read_points, read_steps
from ridgeline.simulate.steady import decode_batch, prefill_batch
from ridgeline.simulate.validate import BAND, tau
from ridgeline.simulate.virtual import simulate
from ridgeline.trace.session import Session

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
    paths: Iterable[Path], *, parameters: Path | None = None, uncalibrated: bool = False, window_s: int = 1200
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


def agentic_options(point: Measured) -> EngineOptions:
    """How the engine of an agentic point was probably started: room for twice the lanes, SGLang's order and budget.

    Raises InputError: unknown model, or a layout in words only.
    """
    if point.topology is None:
        raise InputError("a layout given in words only is not modelled")
    sglang = "sglang" in point.engine
    topology = point.topology
    if topology.dp_attn and topology.ep == 1:
        topology = replace(topology, ep=topology.tp)
    return options_from(
        MODELS.get(point.model, point.model),
        point.hardware,
        topology,
        point.precision,
        engine=point.engine,
        kv_cache_dtype="fp8",
        num_speculative_tokens=point.drafts,
        acceptance_length=point.accepted,
        max_num_seqs=max(8, 2 * point.conc),
        max_num_batched_tokens=8192,
        prefill_first=sglang,
        scheduler_reserve_full_isl=not sglang,
        gpu_memory_utilization=0.85 if sglang else 0.9,
    )


def _agentic(path: Path, point: Measured, extra: Path | None, uncalibrated: bool, window_s: int) -> list[Row]:
    from ridgeline.trace.pacing import AgentPacer, PacingSettings
    from ridgeline.trace.prompts import make_prompts

    options = agentic_options(point)
    if point.offload:
        free = options.gpu.host_bandwidth and 1.5e12 / options.topology.gpus  # 1.5 TB of host memory a node of eight
        plan = memory_of(options).plan
        row = plan.needed(1 << 16, 0) / (1 << 16)
        options = replace(options, host_kv_tokens=int(free * options.topology.attention_tp / row))
    sessions = agent_sessions(None if point.model in _LONG else 256_000, options.max_model_len)
    pacing = PacingSettings(
        concurrency=point.conc, benchmark_id="evaluate", seed=42, duration_ns=nanoseconds(window_s),
    )  # fmt: skip
    parameters = _parameters(point.hardware, point.engine, extra, uncalibrated)
    replay = simulate(
        AgentPacer(sessions, pacing), make_prompts(sessions, "bytes", model="m", seed=42), options,
        parameters=parameters, sample_s=60.0,
    )  # fmt: skip
    start, end = replay.phases.profiling_start_ns or 0, replay.phases.profiling_end_ns
    done = [
        r for r in replay.records
        if r.phase == "profiling" and r.prompt_tokens and r.end_ns and start <= r.end_ns <= (end or r.end_ns)
    ]  # fmt: skip
    if not done:
        return []
    prompt = sum(r.prompt_tokens or 0 for r in done)
    total = prompt + sum(r.completion_tokens or 0 for r in done)
    tpots = [
        ((r.last_token_ns or 0) - (r.first_token_ns or 0)) / 1e9 / (r.completion_tokens - 1)
        for r in done
        if r.completion_tokens and r.completion_tokens > 1
    ]
    firsts = [((r.first_token_ns or 0) - (r.sent_ns or 0)) / 1e9 for r in done]
    values = (
        (MEASURES[0], point.tput, total / window_s / options.topology.gpus),
        (MEASURES[1], point.tpot_s, statistics.fmean(tpots) if tpots else None),
        (MEASURES[2], point.ttft_s, statistics.median(firsts)),
        (MEASURES[3], point.hit, sum(r.cached_tokens or 0 for r in done) / prompt),
    )
    return [_row(path, point, name, a, b, None) for name, a, b in values if a and b is not None]


# Models that the public harness loads with the whole set of sessions; the others get those cut to 256k.
_LONG = ("dsv4", "glm5.2", "minimaxm3", "kimik3")


@lru_cache(maxsize=4)
def agent_sessions(longest: int | None, model_len: int) -> tuple[Session, ...]:
    """393 synthetic agent sessions: statistics of the public set, not its content. Sessions that outgrow the model are
    left out, as the harness does."""
    from ridgeline.trace import load
    from ridgeline.trace.synth import synthesise

    with TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
            for session in synthesise(393, max_context=longest):
                file.write(json.dumps(session) + "\n")
        return load(path, max_context=model_len).sessions


_UNIFORM = 1e6
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
    p = replace(_parameters("h200", "vllm", extra, uncalibrated), expert_evenness=_UNIFORM)  # routing was simulated
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


def _line(name: str, rows: Sequence[Row]) -> Line:
    found = []
    for measure in MEASURES:
        shares = [row.predicted / row.measured - 1 for row in rows if row.measure == measure]
        if shares:
            found.append((measure, statistics.fmean(map(abs, shares)), statistics.fmean(shares), len(shares)))
    order = [(row.predicted, row.measured) for row in rows if row.measure == MEASURES[0]] if name != "all" else []
    banded = [row for row in rows if row.low is not None and row.high is not None and row.measure == MEASURES[0]]
    inside = [(row.low or 0) <= row.measured <= (row.high or 0) for row in banded]
    return Line(
        name, tuple(found), tau(order) if len(order) >= 3 else None, sum(inside) / len(inside) if inside else None
    )
