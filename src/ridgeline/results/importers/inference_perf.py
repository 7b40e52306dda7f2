"""inference-perf's report folders (`stage_N_lifecycle_metrics.json`).

In: the stage files of one run (the summary over all stages mixes loads and is not a point). Out: one run with a point a
stage. Seconds throughout. Its `time_per_output_token` is (end - first token)/(tokens - 1), our `itl`; its
`inter_token_latency` are gaps of chunks, our `icl`; its normalised one is end to end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ridgeline.core.cell import Arm, Cell, digest
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Measure
from ridgeline.results.importers import foreign
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer, Notes
from ridgeline.results.importers.withhold import withheld

ORIGIN = "inference-perf"
_STAGE = re.compile(r"stage_(\d+)_lifecycle_metrics\.json$")
_LATENCIES = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "itl",
    "inter_token_latency": "icl",
    "request_latency": "e2e_latency",
}
_RATES = {"input_tokens_per_sec": "input", "output_tokens_per_sec": "output", "total_tokens_per_sec": "total"}


def take(path: Path) -> Bundle | None:
    """A report folder, or one stage file."""
    if path.is_file():
        return Bundle.of_file(path) if _STAGE.search(path.name) else None
    bundle = Bundle.of_folder(path, ("*lifecycle_metrics.json", "*config.yaml"))
    return bundle if any(_STAGE.search(name) for name in bundle.files) else None


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """One run; equal loads in several stages are repeats."""
    notes = Notes()
    config = _config(bundle)
    stages: list[tuple[int, str, Mapping[str, Any]]] = []
    for name in bundle.files:
        match = _STAGE.search(name)
        if match:
            stages.append((int(match.group(1)), name, bundle.data(name)))
        elif not name.endswith(".yaml"):
            notes.add(name.rpartition("/")[2], "mixes the loads of all stages, or repeats them", name)
    stages.sort(key=lambda stage: stage[:2])
    key = bundle.told.get("run") or digest([data for _, _, data in stages])[:16]
    counted: dict[tuple[str, int], int] = {}
    points = []
    for number, name, data in stages:
        cell, facts = _cell(bundle.told, config, data, number)
        place = (cell.line, cell.concurrency)
        counted[place] = counted.get(place, 0) + 1
        if not isinstance(data.get("successes"), Mapping):
            raise InputError([Problem("has no `successes`: not a stage report", bundle.where(name))])
        points.append(_point(bundle.told, cell, facts, data, key, counted[place], notes))
    run = ImportedRun(
        origin=ORIGIN,
        key=key,
        name=bundle.told.get("name") or f"inference-perf {bundle.title}",
        started_at=bundle.told.get("measured_at"),
        header={"config": config},
        points=tuple(points),
    )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=(run,), unmapped=notes.all())


def _point(
    told: Mapping[str, str],
    cell: Cell,
    facts: dict[str, Any],
    data: Mapping[str, Any],
    run: str,
    repeat: int,
    notes: Notes,
) -> ImportedPoint:
    good = data["successes"]
    n = foreign.whole(good.get("count"))
    bad = foreign.whole((data.get("failures") or {}).get("count"))
    measures: dict[str, Measure] = {}
    for name, block in (good.get("latency") or {}).items():
        if not isinstance(block, Mapping):
            continue
        for statistic, value in block.items():
            ours = "p50" if statistic == "median" else statistic
            known = foreign.number(value)
            if known is None:
                continue
            if name in _LATENCIES:
                measures[f"{_LATENCIES[name]}.{ours}"] = Measure(known, "s", n)
            if name in ("time_per_output_token", "normalized_time_per_output_token") and known > 0 and ours != "std":
                speed = "interactivity" if name == "time_per_output_token" else "e2e_interactivity"
                swapped = {"min": "max", "max": "min"}.get(ours, ours)
                measures[f"{speed}.{swapped}"] = Measure(1 / known, "tok/s/user", n)
        if name not in _LATENCIES and name != "normalized_time_per_output_token":
            notes.add(name, "no measure of ours", "")
    for name, ours in (("prompt_len", "input_tokens"), ("output_len", "output_tokens")):
        for statistic, value in (good.get(name) or {}).items():
            label = "p50" if statistic == "median" else statistic
            if foreign.number(value) is not None:
                measures[f"{ours}.{label}"] = foreign.measure(value, "tokens", n)
    measures = withheld(measures)
    gpus = foreign.whole(told.get("gpus"))
    rates = good.get("throughput") or {}
    for name, part in _RATES.items():
        rate = foreign.number(rates.get(name))
        measures[f"throughput.{part}"] = foreign.measure(rate, "tok/s", n)
        per_gpu = rate / gpus if rate is not None and gpus else None
        reason = "not reported" if rate is None else "the number of GPUs is unknown: import with --set gpus=N"
        measures[f"throughput_per_gpu.{part}"] = foreign.measure(per_gpu, "tok/s/GPU", n, reason)
    measures["request_rate"] = foreign.measure(rates.get("requests_per_sec"), "req/s", n)
    reasons: tuple[str, ...] = ()
    if n + bad:
        measures["error_rate"] = Measure(bad / (n + bad), "ratio", n + bad)
        if bad / (n + bad) > 0.10:
            reasons = (f"error-rate: {bad} of {n + bad} requests failed; at most 10 % may",)
    else:
        reasons = ("no-requests: the stage has no requests",)
    point = foreign.make_point(
        cell,
        origin=ORIGIN,
        run=run,
        repeat=repeat,
        measures=measures,
        gpus=gpus,
        measured_at=foreign.instant(told.get("measured_at")),
        facts=facts,
        reasons=reasons,
    )
    return ImportedPoint(point=point, repeat=repeat, documents={"cell": cell})


def _cell(
    told: Mapping[str, str], config: Mapping[str, Any], data: Mapping[str, Any], number: int
) -> tuple[Cell, dict[str, Any]]:
    """A concurrent stage keeps its concurrency; one at a rate has that rate as a fact, the reached one as a measure,
    and as concurrency what Little's law gives: achieved rate times mean latency."""
    load, good = data.get("load_summary") or {}, data.get("successes") or {}
    facts: dict[str, Any] = {"tool": "inference-perf", "stage": number}
    asked = foreign.number(load.get("concurrency")) or foreign.number(load.get("concurrency_level"))
    if asked is None:
        rate = foreign.number(load.get("achieved_rate")) or foreign.number(load.get("requested_rate")) or 0.0
        mean = foreign.number(((good.get("latency") or {}).get("request_latency") or {}).get("mean")) or 0.0
        asked = float(round(rate * mean))
        facts["concurrency_is"] = "achieved rate times mean latency, not asked for"
    if foreign.number(load.get("requested_rate")) is not None:
        facts["requested_rate"] = load["requested_rate"]
    server = config.get("server") or {}
    model = told.get("model") or str(server.get("model_name") or "")
    lengths = {
        short: told.get(short) or round(foreign.number((good.get(name) or {}).get("median")) or 0)
        for short, name in (("isl", "prompt_len"), ("osl", "output_len"))
    }
    cell = foreign.make_cell(
        prefix=told.get("model_prefix") or model.rpartition("/")[2].lower(),
        model=model,
        scenario=foreign.scenario(lengths["isl"], lengths["osl"]),
        concurrency=foreign.whole(told.get("concurrency") or asked),
        arm=Arm(topology=foreign.topology(told.get("tp") or told.get("gpus") or 1, told.get("ep") or 1)),
        precision=told.get("precision", ""),
        framework=told.get("framework") or str(server.get("type") or ""),
        hardware=told.get("hardware", ""),
        image=told.get("image", ""),
    )
    return cell, facts


def _config(bundle: Bundle) -> dict[str, Any]:
    for name in bundle.matching("*config.yaml"):
        try:
            found = yaml.load(bundle.text(name), Loader=yaml.CSafeLoader)
        except yaml.YAMLError as error:
            raise InputError([Problem(f"not YAML: {error}", bundle.where(name))]) from error
        if isinstance(found, dict):
            plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
            return plain
    return {}


IMPORTER = Importer("inference-perf", 1, "inference-perf's reports", take, read)
