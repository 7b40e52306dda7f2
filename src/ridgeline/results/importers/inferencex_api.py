"""Rows of InferenceX's public interface: `benchmarks`, `benchmarks/history`, `evaluations`, `workflow-info`.

In: JSON arrays as served. Out: one run per CI run. A row's id is not looked at (it is text in one answer and a number
in the next). GPUs of one pool are tp x pp x pcp whatever `num_prefill_gpu` says; both halves of such a row describe
the same GPUs. Where pools are apart, input is per prefill GPU and output per decode GPU: both are brought to all GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.cell import Arm, Cell
from ridgeline.core.point import Caution, Measure
from ridgeline.results.importers import foreign
from ridgeline.results.importers import inferencex_names as names
from ridgeline.results.importers.api import (
    Bundle,
    ChangelogEntry,
    Evaluation,
    Imported,
    ImportedPoint,
    ImportedRun,
    Importer,
    Notes,
    json_or_none,
)

ORIGIN = "inferencex"
FIELDS = {
    "id", "config_id", "hardware", "framework", "model", "precision", "spec_method", "disagg", "is_multinode",
    "benchmark_type", "offload_mode", "isl", "osl", "conc", "image", "recipe_fingerprint", "metrics", "workers",
    "date", "run_url", "num_prefill_gpu", "num_decode_gpu",
    *(f"{role}_{name}" for role in ("prefill", "decode") for name in ("tp", "ep", "dp_attention", "num_workers")),
}  # fmt: skip
_RUN = re.compile(r"/runs/(\d+)(?:/attempts/(\d+))?")
_OVERLOADED = 10.0  # mean over median of the wait: then the queue is what was measured
TOLERANCE = 1e-3  # rounding of stored numbers


class RunName(NamedTuple):
    """A CI run and its attempt."""

    key: str
    attempt: int


class Layout(NamedTuple):
    """GPUs of a row, and the shares that input and output throughput were divided by (None with a reason: unknown)."""

    gpus: int
    parts: tuple[float, float] | None
    why_not: str = ""


def run_name(url: str | None, fallback: str) -> RunName:
    """Run and attempt of a CI address; rows without one belong to `fallback`."""
    match = _RUN.search(url or "")
    return RunName(match.group(1), int(match.group(2) or 1)) if match else RunName(fallback, 1)


def take(path: Path) -> Bundle | None:
    """A file of rows, or a folder of answers with at least one."""
    if path.is_file():
        return Bundle.of_file(path) if path.suffix == ".json" and _kind_of_file(path) else None
    found = {file.name: file for file in sorted(path.glob("*.json")) if _kind_of_file(file)}
    return Bundle(path.name, found) if any(_kind_of_file(file) == "benchmarks" for file in found.values()) else None


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """Every row of the bundle. What is not a benchmark, evaluation or changelog (reliability, submissions,
    availability: views that follow from the rest) is noted."""
    notes = Notes()
    points: dict[str, list[ImportedPoint]] = {}
    evaluations: dict[str, list[Evaluation]] = {}
    changelog: dict[str, list[ChangelogEntry]] = {}
    about: dict[str, dict[str, Any]] = {}
    for name in bundle.matching("*.json"):
        data = bundle.data(name)
        kind = _kind(data)
        if kind == "benchmarks":
            for row in data:
                run = run_name(row.get("run_url"), f"date:{row.get('date')}")
                points.setdefault(run.key, []).append(point_of(row, run, notes))
                _describe(about, run.key, row.get("run_url"), row.get("date"))
        elif kind == "evaluations":
            for row in data:
                run = run_name(row.get("run_url"), f"date:{row.get('date')}")
                evaluations.setdefault(run.key, []).append(evaluation_of(row))
                _describe(about, run.key, row.get("run_url"), row.get("date"))
        elif kind == "workflow-info":
            _workflows(data, about, changelog)
        else:
            notes.add(name, "a view that follows from the rows", kind)
    runs = tuple(
        ImportedRun(
            origin=ORIGIN,
            key=key,
            name=str(about[key].get("name") or f"CI run {key}"),
            started_at=about[key].get("created_at") or about[key].get("date"),
            url=about[key].get("url"),
            header={k: v for k, v in about[key].items() if v is not None},
            points=_unique(points.get(key, [])),
            evaluations=tuple({item.key: item for item in evaluations.get(key, [])}.values()),
            changelog=tuple(changelog.get(key, [])),
        )
        for key in sorted(about)
    )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=runs, unmapped=notes.all())


def point_of(row: Mapping[str, Any], run: RunName, notes: Notes) -> ImportedPoint:
    """One row. Early rows lack benchmark_type, offload_mode, image and p90: absent stays absent."""
    for name in row:
        if name not in FIELDS:
            notes.add(name, "a field this importer does not know", row[name])
    values = row.get("metrics") or {}
    cell, layout = cell_of(row), layout_of(row)
    agentic = cell.scenario.kind == "agentic-coding"
    measures = names.latencies(values, agentic=agentic, notes=notes)
    measures |= names.throughput(values, layout.gpus, layout.parts, layout.why_not)
    measures |= names.power(values)
    names.unknown(values, notes)
    facts = {
        "recipe_fingerprint": row.get("recipe_fingerprint"),
        "kv_cache_pool_tokens": values.get("kv_cache_pool_tokens"),
        "workers": row.get("workers"),
        "run_url": row.get("run_url"),
    }
    point = foreign.make_point(
        cell,
        origin=ORIGIN,
        run=run.key,
        attempt=run.attempt,
        measures=measures,
        gpus=layout.gpus,
        measured_at=foreign.instant(row.get("date")),
        facts={name: value for name, value in facts.items() if value not in (None, "")},
        cautions=overloaded(measures),
    )
    return ImportedPoint(
        point=point, documents={"cell": cell}, asked={"image": row["image"]} if row.get("image") else {}
    )


def overloaded(measures: Mapping[str, Measure]) -> tuple[Caution, ...]:
    """A mean far above its median says that requests queued; the two must not stand for each other."""
    mean, median = (measures[name].value if name in measures else None for name in ("ttft.mean", "ttft.p50"))
    if mean is None or median is None or mean <= _OVERLOADED * median:
        return ()
    message = f"mean TTFT is {mean:.3g} s, the median {median:.3g} s: requests queued"
    return (Caution("overloaded", message, "read percentiles and the mean apart; lower the concurrency"),)


def cell_of(row: Mapping[str, Any]) -> Cell:
    """The cell of a row, with pools where prefill and decode are apart."""
    values = row.get("metrics") or {}
    sizes = (values.get("pp", 1), values.get("dcp_size", 1), values.get("pcp_size", 1))
    halves = {
        role: foreign.topology(row.get(f"{role}_tp"), row.get(f"{role}_ep"), row.get(f"{role}_dp_attention"), *sizes)
        for role in ("prefill", "decode")
    }
    spec = str(row.get("spec_method") or "none")
    offload = str(row.get("offload_mode") or "none")
    common: dict[str, Any] = {
        "spec_decoding": spec,
        "kv_offloading": "none" if offload == "off" else offload,
        "router": foreign.component(
            {"name": values["router_name"], "version": values.get("router_version")}
            if values.get("router_name")
            else None
        ),
        "kv_p2p_transfer": values.get("kv_p2p_transfer") or None,
    }
    if two_pools(row):
        pools = tuple(foreign.pool(role, row.get(f"{role}_num_workers"), half) for role, half in halves.items())
        arm = Arm(pools=pools, **common)
    else:
        arm = Arm(topology=halves["decode" if row.get("decode_tp") else "prefill"], **common)
    return foreign.make_cell(
        prefix=str(row.get("model") or ""),
        scenario=foreign.scenario(row.get("isl"), row.get("osl")),
        concurrency=foreign.whole(row.get("conc")),
        arm=arm,
        precision=str(row.get("precision") or ""),
        framework=str(row.get("framework") or ""),
        hardware=str(row.get("hardware") or ""),
        image=str(row.get("image") or ""),
        disagg=bool(row.get("disagg")),
        multinode=bool(row.get("is_multinode")),
    )


def two_pools(row: Mapping[str, Any]) -> bool:
    """Whether prefill and decode ran on GPUs of their own. Rows of one pool repeat it in both halves; a row that says
    `disagg` but names no workers tells only the total."""
    workers = [foreign.whole(row.get(f"{role}_num_workers")) for role in ("prefill", "decode")]
    return bool(row.get("disagg") or row.get("is_multinode")) and any(workers) and bool(row.get("decode_tp"))


def layout_of(row: Mapping[str, Any]) -> Layout:
    """GPUs and shares of a row.

    One pool: tp x pp x pcp, since `num_prefill_gpu` of expert-parallel rows is tp x ep. Two pools: the counts for
    which (input x prefill + output x decode) = total x all holds; the row's own counts first, then workers x tp.
    """
    values = row.get("metrics") or {}
    total, given_in, given_out = (
        foreign.number(values.get(name)) for name in ("tput_per_gpu", "input_tput_per_gpu", "output_tput_per_gpu")
    )
    if not two_pools(row):
        cell = cell_of(row)
        if not row.get("disagg"):
            return Layout(cell.gpus, (1.0, 1.0))
        # Pools without workers: both halves state the whole, and how it was split follows from the three numbers.
        gpus = foreign.whole(row.get("num_decode_gpu"), cell.gpus)
        if total is None or given_in is None or given_out is None or given_in == given_out:
            return Layout(gpus, None, "the row does not tell how its GPUs were split into pools")
        share = (total - given_out) / (given_in - given_out)
        if not 0 <= share <= 1:
            return Layout(gpus, None, "input, output and total throughput of the row do not fit together")
        return Layout(gpus, (share, 1 - share))
    told = [foreign.whole(row.get(f"num_{role}_gpu")) for role in ("prefill", "decode")]
    counted = [
        foreign.whole(row.get(f"{role}_num_workers")) * foreign.whole(row.get(f"{role}_tp"))
        for role in ("prefill", "decode")
    ]
    for prefill, decode in (told, counted):
        everything = prefill + decode
        if everything <= 0:
            continue
        if total is None or given_in is None or given_out is None:
            return Layout(everything, None, "the row does not report all three throughputs")
        shares = (prefill / everything, decode / everything if decode else 1.0)
        if abs(given_in * shares[0] + given_out * shares[1] - total) <= TOLERANCE * total:
            return Layout(everything, shares)
    return Layout(sum(told) or sum(counted), None, "input, output and total throughput do not fit its GPU counts")


def evaluation_of(row: Mapping[str, Any]) -> Evaluation:
    """One accuracy row: the score is the strict match, else the score the source names, else none."""
    values = row.get("metrics") or {}
    strict, given = foreign.number(values.get("em_strict")), foreign.number(values.get("score"))
    metric = "em_strict" if strict is not None else "score"
    cell = cell_of({**row, "isl": 0, "osl": 0, "metrics": {}})
    where = f"{cell.benchmark.key}/{cell.arm.label}"
    return Evaluation(
        key=f"{where}/{row.get('task')}/c{row.get('conc')}/{row.get('timestamp') or row.get('date')}",
        task=str(row.get("task")),
        metric=metric,
        score=strict if strict is not None else given,
        stderr=foreign.number(values.get(f"{metric}_se")),
        n=foreign.whole(values.get("n_eff")) or None,
        line=where,
        concurrency=row.get("conc"),
        measured_at=foreign.instant(row.get("timestamp") or row.get("date")),
        facts={"metrics": dict(values), "run_url": row.get("run_url")},
    )


def _describe(about: dict[str, dict[str, Any]], key: str, url: str | None, date: str | None) -> None:
    known = about.setdefault(key, {})
    if url and "url" not in known:
        known["url"] = url.partition("/attempts/")[0]
    if date:
        known["date"] = min(str(date), str(known.get("date") or date))


def _workflows(data: Mapping[str, Any], about: dict[str, Any], changelog: dict[str, list[ChangelogEntry]]) -> None:
    for run in data.get("runs") or []:
        key = str(run.get("github_run_id"))
        _describe(about, key, run.get("html_url"), run.get("date"))
        name = str(run.get("name") or "").partition("\n")[0]
        about[key] |= {"name": name, "created_at": foreign.instant(run.get("created_at"))}
        about[key] |= {name: run.get(name) for name in ("conclusion", "head_sha", "branch") if run.get(name)}
    for entry in data.get("changelogs") or []:
        key = str(entry.get("workflow_run_id"))
        _describe(about, key, None, entry.get("date"))
        found = ChangelogEntry(
            base_ref=str(entry.get("base_ref") or ""),
            head_ref=str(entry.get("head_ref") or ""),
            config_keys=tuple(entry.get("config_keys") or ()),
            description=str(entry.get("description") or ""),
            link=entry.get("pr_link"),
            date=entry.get("date"),
            append_only=bool(entry.get("append_only")),
        )
        changelog.setdefault(key, []).append(found)


def _unique(points: list[ImportedPoint]) -> tuple[ImportedPoint, ...]:
    """One point an id: a snapshot serves a row in several answers, and the one that tells more is kept."""
    found: dict[str, ImportedPoint] = {}
    for item in points:
        before = found.get(item.point.id)
        if before is None or _told(item) > _told(before):
            found[item.point.id] = item
    return tuple(found.values())


def _told(item: ImportedPoint) -> tuple[int, int]:
    known = sum(measure.value is not None for measure in item.point.measures.values())
    return (known, len(item.point.facts))


def _kind_of_file(path: Path) -> str | None:
    return _kind(json_or_none(path))


def _kind(data: Any) -> str | None:
    """Which answer this is, by its shape: file names are anybody's."""
    if isinstance(data, Mapping):
        if "runs" in data and "changelogs" in data:
            return "workflow-info"
        return "submissions" if "summary" in data and "volume" in data else None
    row = data[0] if isinstance(data, list) and data else None
    if not isinstance(row, Mapping):
        return None
    if isinstance(row.get("metrics"), Mapping) and "task" in row:
        return "evaluations"
    if isinstance(row.get("metrics"), Mapping) and "conc" in row:
        return "benchmarks"
    if {"n_success", "total"} <= set(row):
        return "reliability"
    return "availability" if {"model", "hardware", "framework", "date"} <= set(row) else None


IMPORTER = Importer("inferencex-api", 1, "rows of InferenceX's public interface", take, read)
