"""InferenceX's files: one aggregate (`agg_*.json`), a collection of them, or a whole folder of run artifacts.

In: `bmk_*`, `results_bmk`, `eval_*`, `gpu_metrics_*` and `server_logs_*` as downloaded. Out: the run's points, its
evaluations and failed jobs. A row that appears in its own artifact and in a collection counts once. Power is
integrated again where a raw result and its log lie side by side, server logs are kept and read for what they prove;
other files are counted, not dropped silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeline.core.cell import digest
from ridgeline.results.importers import aggregate_rows, foreign, server_logs
from ridgeline.results.importers.api import (
    Bundle,
    Evaluation,
    Imported,
    ImportedPoint,
    ImportedRun,
    Importer,
    Notes,
    json_or_none,
)
from ridgeline.results.importers.inferencex_api import ORIGIN
from ridgeline.results.importers.reports import Repeats
from ridgeline.results.power import integrate

_ATTEMPT = re.compile(r"attempt[_-]?(\d+)", re.IGNORECASE)
_FOLDERS = ("bmk_*", "results_bmk*", "results_all*", "eval_*", "gpu_metrics_*", "server_logs_*", "agentic_*")


def take(path: Path) -> Bundle | None:
    """An aggregate file, or a folder that holds aggregates or InferenceX's artifact folders."""
    if path.is_dir() and _looks_like_artifacts(path):
        bundle = Bundle.of_folder(path, ("*.json", "*.csv", *server_logs.PATTERNS))
        known = any(_is_eval(name) or _rows(json_or_none(bundle.files[name])) for name in bundle.matching("*.json"))
        return bundle if known else None
    return Bundle.of_json(path, _rows, deep=True)


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """One run. Its key is the CI run's number when told (`--set run=NUMBER`) or in the folder's name, else what its
    rows are about, so that a row imported alone and again in a folder of its run need not be one point."""
    notes = Notes()
    rows: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name in bundle.matching("*.json"):
        data = json_or_none(bundle.files[name])
        found = [] if _of_eval(name) else _rows(data)
        for row in found:
            rows.setdefault(digest(_plain(row)), (name, row))
        if not found and not _is_eval(name) and not _is_raw(data):
            notes.add(_family(name), "no aggregate row in it", name)
    run = bundle.told.get("run") or _run_number(bundle) or digest(sorted(rows))[:16]
    told_at = bundle.told.get("measured_at")
    points = []
    repeats = Repeats()
    for key in sorted(rows, key=lambda key: (rows[key][0], key)):
        name, row = rows[key]
        attempt = _attempt(name)
        repeat = repeats.next(aggregate_rows.cell_of(row), attempt)
        result, when = _raw_result(bundle, name, row)
        item = aggregate_rows.point_of(
            row, run=run, attempt=attempt, repeat=repeat, measured_at=told_at or when, notes=notes
        )
        item = _with_power(bundle, item, name, result, notes)
        points.append(server_logs.beside(item, bundle, _beside(name, "server_logs_")))
    evaluations = tuple(_evaluations(bundle, notes))
    for name in bundle.files:
        if name.endswith(".csv") and not name.rpartition("/")[2].startswith("gpu_metrics"):
            notes.add(_family(name), "a table beside the aggregate", name)
    started = min((item.point.measured_at for item in points if item.point.measured_at), default=told_at)
    found_run = ImportedRun(
        origin=ORIGIN,
        key=run,
        name=bundle.told.get("name") or f"artifacts {bundle.title}",
        started_at=started,
        points=tuple(points),
        evaluations=evaluations,
    )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=(found_run,), unmapped=notes.all())


def _with_power(
    bundle: Bundle, item: ImportedPoint, name: str, result: Mapping[str, Any] | None, notes: Notes
) -> ImportedPoint:
    log = _power_log(bundle, name)
    if log is None or result is None:
        return item
    power = integrate(bundle.text(log), result, item.point.gpus)
    told = item.point.value("power.total_gpu_energy_j")
    ours = power.metrics.get("total_gpu_energy_j")
    if told is not None and ours is not None and abs(told - ours) > 0.01 * told:
        notes.add("power", "integrated again from the log it differs from the row by more than 1 %", name)
    measures = {**item.point.measures, **power.measures}
    documents = {**item.documents, "power": dict(power.sidecar)}
    return replace(item, point=replace(item.point, measures=measures), documents=documents)


def _raw_result(bundle: Bundle, name: str, row: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str | None]:
    """The raw benchmark result beside an aggregate, and when it began."""
    folder = name.rpartition("/")[0]
    for other in bundle.matching(f"{folder}/*.json" if folder else "*.json"):
        data = json_or_none(bundle.files[other])
        if _is_raw(data) and foreign.whole(data.get("max_concurrency")) == foreign.whole(row.get("conc")):
            return data, foreign.instant(data.get("benchmark_start_time_unix"))
    return None, None


def _beside(name: str, family: str) -> str:
    """The folder of another artifact of the same job: `server_logs_REST` beside `bmk_REST`."""
    folder = name.rpartition("/")[0]
    return folder.replace("bmk_", family, 1) if folder.startswith("bmk_") else folder


def _power_log(bundle: Bundle, name: str) -> str | None:
    """The power log of an aggregate: in its folder, or in `gpu_metrics_REST` beside `bmk_REST`."""
    for place in (name.rpartition("/")[0], _beside(name, "gpu_metrics_")):
        found = bundle.matching(f"{place}/*gpu_metrics*.csv" if place else "*gpu_metrics*.csv")
        if len(found) == 1:
            return found[0]
    return None


def _evaluations(bundle: Bundle, notes: Notes) -> Iterator[Evaluation]:
    """Results of lm-eval beside a `meta_env.json`: one a task; a task scored twice counts as its newest."""
    for meta_name in bundle.matching("*meta_env.json"):
        folder = meta_name.rpartition("/")[0]
        meta = bundle.data(meta_name)
        newest: dict[str, Evaluation] = {}
        for name in bundle.matching(f"{folder}/*.json" if folder else "*.json"):
            data = json_or_none(bundle.files[name])
            if isinstance(data, Mapping) and "lm_eval_version" in data:
                for task, scores in sorted((data.get("results") or {}).items()):
                    found = _evaluation(meta, name, task, scores)
                    before = newest.get(found.key)
                    if before is None or (found.measured_at or "") >= (before.measured_at or ""):
                        newest[found.key] = found
        if not newest:
            notes.add(_family(meta_name), "an evaluation without results", meta_name)
        yield from newest.values()


def _evaluation(meta: Mapping[str, Any], name: str, task: str, scores: Mapping[str, Any]) -> Evaluation:
    """Strict match first, then accuracy, as InferenceX scores; a flexible match alone gives no score."""
    metric, score = None, None
    for key, value in scores.items():
        base, _, chosen = key.partition(",")
        if base.endswith("_stderr") or foreign.number(value) is None:
            continue
        if base == "exact_match" and any(word in chosen for word in ("strict", "resolved")):
            metric, score = key, foreign.number(value)
            break
        if metric is None and (base in ("acc", "accuracy") or (base == "exact_match" and chosen in ("", "none"))):
            metric, score = key, foreign.number(value)
    base, _, chosen = (metric or "").partition(",")
    error = scores.get(f"{base}_stderr,{chosen}" if chosen else f"{base}_stderr")
    line = foreign.benchmark_key(
        str(meta.get("infmax_model_prefix") or meta.get("model_prefix") or ""),
        str(meta.get("precision") or "").lower(),
        str(meta.get("hw") or meta.get("runner_type") or "").removeprefix("cluster:").lower(),
        str(meta.get("framework") or "").lower(),
    )
    conc = re.search(r"_conc(\d+)", name)
    number = int(conc.group(1)) if conc else meta.get("conc")
    return Evaluation(
        key=f"{line}/{task}/c{number}",
        task=task,
        metric=metric or "none",
        score=score,
        stderr=foreign.number(error),
        n=None,
        line=line,
        concurrency=number if isinstance(number, int) else None,
        measured_at=None,
        facts={"scores": dict(scores), "meta": dict(meta)},
    )


def _rows(data: Any) -> list[Mapping[str, Any]]:
    """Aggregate rows of a document: one, or a list of them (a list inside a list is a collected collection)."""
    if aggregate_rows.is_row(data):
        return [data]
    return [row for item in data for row in _rows(item)] if isinstance(data, list) else []


def _plain(row: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(row))


def _is_raw(data: Any) -> bool:
    return isinstance(data, Mapping) and {"max_concurrency", "duration", "completed"} <= set(data)


def _is_eval(name: str) -> bool:
    return _of_eval(name) or name.rpartition("/")[2].startswith("results_")


def _of_eval(name: str) -> bool:
    """Whether a file lies in an evaluation's artifact: its metadata and rows say what was evaluated, as points do."""
    return name.endswith("meta_env.json") or "/eval_" in f"/{name}"


def _looks_like_artifacts(path: Path) -> bool:
    return any(item.is_dir() for pattern in _FOLDERS for item in path.glob(pattern))


def _family(name: str) -> str:
    """The kind of an artifact: `server_logs`, `gpu_metrics`, ... or the file's suffix."""
    top = name.split("/", 1)[0]
    known = next((pattern.rstrip("*_") for pattern in _FOLDERS if top.startswith(pattern.rstrip("*"))), None)
    return known or Path(name).suffix or name


def _attempt(name: str) -> int:
    match = _ATTEMPT.search(name)
    return int(match.group(1)) if match else 1


def _run_number(bundle: Bundle) -> str | None:
    match = re.search(r"\d{9,}", bundle.title)
    return match.group(0) if match else None


IMPORTER = Importer("inferencex-artifacts", 2, "InferenceX aggregates and run artifacts", take, read)
