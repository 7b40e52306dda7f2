"""guidellm's reports (`benchmarks.json`).

In: a report with one benchmark a rate or concurrency. Out: one run with a point each. Only the `successful` part of
its distributions is read: errored and incomplete requests are counted, not averaged in. Its `time_per_output_token`
contains the wait for the first token, so it becomes `e2e_interactivity`; its inter-token latency is our `itl`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ridgeline.core.cell import Arm, Cell, digest
from ridgeline.core.point import Measure
from ridgeline.results.importers import foreign
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer, Notes
from ridgeline.results.importers.withhold import withheld

ORIGIN = "guidellm"
_PERCENTILES = {
    "p01": "p1", "p05": "p5", "p10": "p10", "p25": "p25", "p50": "p50", "p75": "p75", "p90": "p90", "p95": "p95",
    "p99": "p99", "p999": "p99.9",
}  # fmt: skip
_SIMPLE = {"mean": "mean", "std_dev": "std", "min": "min", "max": "max"}
# Theirs -> (ours, unit, factor)
_METRICS = {
    "time_to_first_token_ms": ("ttft", "s", 1e-3),
    "inter_token_latency_ms": ("itl", "s", 1e-3),
    "request_latency": ("e2e_latency", "s", 1.0),
    "prompt_token_count": ("input_tokens", "tokens", 1.0),
    "output_token_count": ("output_tokens", "tokens", 1.0),
}
_RATES = {
    "output_tokens_per_second": "output",
    "prompt_tokens_per_second": "input",
    "tokens_per_second": "total",
}
_HANDLED = {"request_totals", "requests_per_second", "request_concurrency", "time_per_output_token_ms"}


def take(path: Path) -> Bundle | None:
    """One report, or a folder with one or more."""
    if path.is_file():
        return Bundle.of_file(path) if path.suffix == ".json" and _is_report(_load(path)) else None
    files = {file.name: file for file in sorted(path.glob("*.json")) if _is_report(_load(file))}
    return Bundle(path.name, files) if files else None


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """One run a report."""
    notes = Notes()
    runs = []
    for name in sorted(bundle.files):
        report = bundle.data(name)
        benchmarks = report["benchmarks"]
        starts = [start for item in benchmarks for start in [foreign.instant(item.get("start_time"))] if start]
        key = digest([[item.get("id_") or item.get("start_time") for item in benchmarks]])[:16]
        counted: dict[tuple[str, int], int] = {}
        points = []
        for item in benchmarks:
            cell, facts = _cell(bundle.told, report, item)
            place = (cell.line, cell.concurrency)
            counted[place] = counted.get(place, 0) + 1
            points.append(_point(bundle.told, cell, facts, item, key, counted[place], notes))
        title = bundle.told.get("name") or f"guidellm {name}"
        runs.append(
            ImportedRun(
                origin=ORIGIN,
                key=key,
                name=title,
                started_at=min(starts, default=None),
                header={"args": report.get("args") or {}},
                points=tuple(points),
            )
        )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=tuple(runs), unmapped=notes.all())


def _point(
    told: Mapping[str, str],
    cell: Cell,
    facts: dict[str, Any],
    item: Mapping[str, Any],
    run: str,
    repeat: int,
    notes: Notes,
) -> ImportedPoint:
    metrics = item.get("metrics") or {}
    measures: dict[str, Measure] = {}
    for name, block in metrics.items():
        good = _successful(block)
        if name in _METRICS:
            ours, unit, factor = _METRICS[name]
            measures |= _distribution(good, ours, unit, factor)
        elif name == "time_per_output_token_ms":
            for statistic, measure in _distribution(good, "", "s", 1e-3).items():
                swapped = {".min": ".max", ".max": ".min"}.get(statistic, statistic)
                if measure.value and statistic != ".std":
                    measures[f"e2e_interactivity{swapped}"] = Measure(1 / measure.value, "tok/s/user", measure.n)
        elif name not in _RATES and name not in _HANDLED:
            notes.add(name, "no measure of ours", "")
    for statistic, measure in _distribution(_successful(metrics.get("inter_token_latency_ms")), "", "s", 1e-3).items():
        swapped = {".min": ".max", ".max": ".min"}.get(statistic, statistic)
        if measure.value and statistic != ".std":
            measures[f"interactivity{swapped}"] = Measure(1 / measure.value, "tok/s/user", measure.n)
    measures = withheld(measures)
    gpus = foreign.whole(told.get("gpus"))
    for name, part in _RATES.items():
        rate = foreign.number(_successful(metrics.get(name)).get("mean"))
        measures[f"throughput.{part}"] = foreign.measure(rate, "tok/s")
        per_gpu = rate / gpus if rate is not None and gpus else None
        reason = "not reported" if rate is None else "the number of GPUs is unknown: import with --set gpus=N"
        measures[f"throughput_per_gpu.{part}"] = foreign.measure(per_gpu, "tok/s/GPU", None, reason)
    achieved = _successful(metrics.get("requests_per_second")).get("mean")
    measures["request_rate"] = foreign.measure(achieved, "req/s")
    measures["duration"] = foreign.measure(item.get("duration"), "s")
    totals = metrics.get("request_totals") or {}
    good_n, bad = foreign.whole(totals.get("successful")), foreign.whole(totals.get("errored"))
    reasons: tuple[str, ...] = ()
    if good_n + bad:
        measures["error_rate"] = Measure(bad / (good_n + bad), "ratio", good_n + bad)
        if bad / (good_n + bad) > 0.10:
            reasons = (f"error-rate: {bad} of {good_n + bad} requests failed; at most 10 % may",)
    if foreign.whole(totals.get("incomplete")):
        facts["incomplete_requests"] = foreign.whole(totals.get("incomplete"))
    point = foreign.make_point(
        cell,
        origin=ORIGIN,
        run=run,
        repeat=repeat,
        measures=measures,
        gpus=gpus,
        measured_at=foreign.instant(item.get("start_time")),
        facts=facts,
        reasons=reasons,
    )
    return ImportedPoint(point=point, repeat=repeat, documents={"cell": cell})


def _distribution(block: Mapping[str, Any], name: str, unit: str, factor: float) -> dict[str, Measure]:
    n = foreign.whole(block.get("count")) or None
    percentiles = block.get("percentiles") or {}
    found = {}
    told = {ours: block.get(theirs) for theirs, ours in _SIMPLE.items()}
    told |= {ours: percentiles.get(theirs) for theirs, ours in _PERCENTILES.items()}
    if told.get("p50") is None:
        told["p50"] = block.get("median")
    for statistic, value in told.items():
        known = foreign.number(value)
        if known is not None:
            found[f"{name}.{statistic}"] = Measure(known * factor, unit, n)
    return found


def _successful(block: Any) -> Mapping[str, Any]:
    if not isinstance(block, Mapping):
        return {}
    good = block.get("successful", block if "mean" in block else None)
    return good if isinstance(good, Mapping) else {}


def _cell(told: Mapping[str, str], report: Mapping[str, Any], item: Mapping[str, Any]) -> tuple[Cell, dict[str, Any]]:
    """A benchmark at a concurrency keeps it; one at a rate has the concurrency it reached, and says so."""
    args = report.get("args") or {}
    config = item.get("config") or item.get("args") or {}
    strategy = config.get("strategy") or {}
    strategy = strategy if isinstance(strategy, Mapping) else {"type_": strategy}
    facts: dict[str, Any] = {"tool": "guidellm", "strategy": strategy.get("type_")}
    asked = next((strategy[name] for name in ("streams", "max_concurrency") if strategy.get(name)), None)
    metrics = item.get("metrics") or {}
    if asked is None:
        asked = round(foreign.number(_successful(metrics.get("request_concurrency")).get("mean")) or 0)
        facts |= {"concurrency_is": "reached, not asked for"}
    if strategy.get("rate") is not None and strategy.get("type_") in ("constant", "poisson", "async"):
        facts["requested_rate"] = strategy["rate"]
    model = str(args.get("model") or (item.get("benchmarker") or {}).get("model") or told.get("model") or "")
    lengths = {
        short: told.get(short) or round(foreign.number(_successful(metrics.get(name)).get("median")) or 0)
        for short, name in (("isl", "prompt_token_count"), ("osl", "output_token_count"))
    }
    cell = foreign.make_cell(
        prefix=told.get("model_prefix") or model.rpartition("/")[2].lower(),
        model=model,
        scenario=foreign.scenario(lengths["isl"], lengths["osl"]),
        concurrency=foreign.whole(told.get("concurrency") or asked),
        arm=Arm(topology=foreign.topology(told.get("tp") or told.get("gpus") or 1, told.get("ep") or 1)),
        precision=told.get("precision", ""),
        framework=told.get("framework", ""),
        hardware=told.get("hardware", ""),
        image=told.get("image", ""),
    )
    return cell, {name: value for name, value in facts.items() if value is not None}


def _is_report(data: Any) -> bool:
    benchmarks = data.get("benchmarks") if isinstance(data, Mapping) else None
    return (
        isinstance(benchmarks, list)
        and bool(benchmarks)
        and all(isinstance(item, Mapping) and isinstance(item.get("metrics"), Mapping) for item in benchmarks)
    )


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes(), parse_constant=lambda _: None)
    except ValueError:
        return None


IMPORTER = Importer("guidellm", 1, "guidellm's reports", take, read)
