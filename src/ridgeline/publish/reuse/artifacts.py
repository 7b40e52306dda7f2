"""Validates the artifacts of a run that is to be reused, from a folder with one folder per artifact. Offline.

First, evaluations that were repeated are collapsed: per identity the raw result with the newest time of its file name
wins, the others (and their rows of the aggregate) are superseded. Then everything is counted: each identity once, each
aggregate equal to what it was made from. Nothing is changed here; `superseded` says what a caller may remove.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.publish.forge.event import read_json

SHOWN = 20
FIXED, AGENTIC_AGGREGATES, EVALS = "results_bmk", ("results_bmk_agentic", "results_agentic"), "eval_results_all"
RUN_STATS = ("run-stats", "run_stats")
_NOT_RAW_EVALS = (EVALS, "eval_server_logs_", "eval_gpu_metrics_")
_STAMP = re.compile(r"results_(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:[.-]\d+)?)(?:_conc(\d+))?\.json\Z")
_SIZES = ("tp", "pp", "dcp_size", "pcp_size", "ep", "dp_attention")
Identity = tuple[Any, ...]
Row = Mapping[str, Any]


class Raw(NamedTuple):
    """One result file of a raw evaluation. `at` None: its name says no time."""

    folder: Path
    file: Path
    identity: Identity
    at: str | None
    tasks: tuple[str, ...]


class Report(NamedTuple):
    """`superseded`: files that a repeated evaluation made obsolete. `counts`: what was found, by kind."""

    problems: tuple[Problem, ...]
    superseded: tuple[Path, ...]
    counts: Mapping[str, int]


def validate(folder: Path) -> Report:
    """Check every artifact below `folder`. Raises InputError when it is no folder."""
    if not folder.is_dir():
        raise InputError([Problem("is not a folder of artifacts", Where(str(folder)))])
    problems: list[Problem] = []
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    fixed = _rows(folder / FIXED, problems)
    problems += _repeated(fixed, fixed_identity, folder / FIXED, "fixed-sequence result")
    points = [row for name in names if name.startswith("bmk_agentic_") for row in _rows(folder / name, problems)]
    problems += _repeated(points, agentic_identity, folder, "agentic point")
    problems += _agentic(folder, names, points, problems)
    raws = [raw for name in names if _raw_evals(name) for raw in _raws(folder / name, problems)]
    kept, superseded = collapse(raws)
    problems += _evals(folder, kept, superseded, problems)
    if fixed and not any((folder / name).is_dir() for name in RUN_STATS):
        problems.append(Problem(f"no `{RUN_STATS[0]}`, although there are fixed-sequence results", Where(str(folder))))
    if not (fixed or points or raws):
        problems.append(Problem("no results at all", Where(str(folder))))
    counts = {"fixed": len(fixed), "agentic": len(points), "evaluations": len(kept), "superseded": len(superseded)}
    return Report(tuple(problems), tuple(raw.file for raw in superseded), counts)


def collapse(raws: Iterable[Raw]) -> tuple[list[Raw], list[Raw]]:
    """(kept, superseded): the newest of each identity. Identities with a file that says no time are left alone."""
    groups: dict[Identity, list[Raw]] = {}
    for raw in raws:
        groups.setdefault(raw.identity, []).append(raw)
    kept, superseded = [], []
    for group in groups.values():
        if any(raw.at is None for raw in group):
            kept += group
            continue
        newest = max(group, key=lambda raw: raw.at or "")
        kept.append(newest)
        superseded += [raw for raw in group if raw is not newest]
    return kept, superseded


def fixed_identity(row: Row) -> Identity:
    """What may stand once among fixed-sequence results."""
    about = _common(row)
    return (*about, _text(row, "spec_decoding"), _flag(row, "disagg"), row.get("isl"), row.get("osl"), *_layout(row))


def agentic_identity(row: Row) -> Identity:
    """What may stand once among agentic points."""
    backend = row.get("kv_offload_backend")
    name = backend.get("name") if isinstance(backend, dict) else backend
    multi = (_text(row, "spec_decoding"), _flag(row, "disagg")) if row.get("is_multinode") else ()
    return (*_common(row), *multi, *_layout(row), row.get("kv_offloading") or "none", name)


def eval_identity(row: Row) -> Identity:
    """What may stand once among evaluations; lengths default to the evaluated ones."""
    hardware = str(_any(row, "hw", "runner_type") or "").lower()
    lengths = (_number(_any(row, "isl"), 8192), _number(_any(row, "osl"), 1024))
    model = _any(row, "infmax_model_prefix", "model_prefix")
    about = (hardware, model, str(_any(row, "framework")).lower(), str(_any(row, "precision")).lower())
    return (*about, _text(row, "spec_decoding"), *lengths, *_layout(row))


def _common(row: Row) -> Identity:
    return (
        _any(row, "hw"),
        _any(row, "infmax_model_prefix", "model_prefix"),
        _any(row, "framework"),
        _any(row, "precision"),
    )


def _layout(row: Row) -> Identity:
    conc = _number(_any(row, "conc"), None)
    if _flag(row, "is_multinode"):
        sides = ("prefill", "decode")
        sizes = [_value(row.get(f"{side}_{name}")) for side in sides for name in (*_SIZES, "num_workers")]
        return (True, *sizes, conc)
    return (False, *(_value(_any(row, name, f"{name}_size")) for name in _SIZES), conc)


def _value(value: Any) -> Any:
    text = str(value).lower() if value is not None else ""
    return {"true": True, "false": False, "": None}.get(text, int(text) if text.isascii() and text.isdigit() else text)


def _number(value: Any, default: int | None) -> Any:
    found = _value(value)
    return default if found is None else found


def _flag(row: Row, name: str) -> bool:
    return _value(_any(row, name)) is True


def _text(row: Row, name: str) -> str:
    return str(_any(row, name) or "none").lower()


def _any(row: Row, *names: str) -> Any:
    """The first of the names that is there, in lower or upper case: metadata is written from environments."""
    for name in names:
        for spelled in (name, name.upper()):
            if row.get(spelled) is not None:
                return row[spelled]
    return None


def _repeated(rows: Iterable[Row], identity: Any, folder: Path, what: str) -> list[Problem]:
    many = [key for key, count in Counter(map(identity, rows)).items() if count > 1]
    return [Problem(f"{what} stands more than once: {_listed(many)}", Where(str(folder)))] if many else []


def _agentic(folder: Path, names: list[str], points: list[Row], problems: list[Problem]) -> list[Problem]:
    found = []
    have = {name.removeprefix("bmk_agentic_") for name in names if name.startswith("bmk_agentic_")}
    raw = {name.removeprefix("agentic_") for name in names if name.startswith("agentic_")}
    for left, right, what in ((have, raw, "has no raw results"), (raw, have, "has raw results and no point")):
        if left - right:
            found.append(Problem(f"{what}: {_listed(sorted(left - right))}", Where(str(folder))))
    for name in AGENTIC_AGGREGATES:
        if name in names:
            rows = _rows(folder / name, problems)
            if {agentic_identity(row) for row in rows} != {agentic_identity(row) for row in points}:
                found.append(
                    Problem("does not hold the same points as the single artifacts", Where(str(folder / name)))
                )
    return found


def _evals(folder: Path, kept: list[Raw], superseded: list[Raw], problems: list[Problem]) -> list[Problem]:
    place = Where(str(folder / EVALS))
    aggregate = _rows(folder / EVALS, problems) if (folder / EVALS).is_dir() else None
    if not kept:
        return [Problem("holds evaluations, and there are no raw ones", place)] if aggregate else []
    if aggregate is None:
        return [Problem("is missing, although there are raw evaluations", place)]
    if not aggregate:
        return [Problem("is empty, although there are raw evaluations", place)]
    found = Counter((eval_identity(row), str(row.get("task"))) for row in aggregate)
    made = Counter((raw.identity, task) for raw in kept for task in raw.tasks)
    lost = Counter((raw.identity, task) for raw in superseded for task in raw.tasks)
    for key in lost:  # rows of repeated evaluations leave the aggregate with their files
        found[key] = min(found[key], max(1, found[key] - lost[key]))
    problems_ = []
    many = [key for key, count in found.items() if count > 1]
    if many:
        problems_.append(Problem(f"rows stand more than once: {_listed(many)}", place))
    if set(found) != set(made):
        odd = sorted(set(found) ^ set(made), key=repr)
        problems_.append(Problem(f"differs from the raw evaluations: {_listed(odd)}", place))
    return problems_


def _raw_evals(name: str) -> bool:
    return name.startswith("eval_") and not name.startswith(_NOT_RAW_EVALS)


def _raws(folder: Path, problems: list[Problem]) -> list[Raw]:
    meta_file = folder / "meta_env.json"
    try:
        meta = read_json(meta_file.read_bytes(), str(meta_file))
    except (OSError, InputError):
        meta = None
    if not isinstance(meta, dict):
        problems.append(Problem("missing or no JSON object", Where(str(meta_file))))
        return []
    batched = isinstance(meta.get("eval_concs"), list)
    found = []
    for file in sorted(folder.rglob("results*.json")):
        try:
            data = read_json(file.read_bytes(), str(file))
        except (OSError, InputError):
            problems.append(Problem("not readable JSON", Where(str(file))))
            continue
        if not isinstance(data, dict) or "lm_eval_version" not in data:
            continue
        stamp = _STAMP.search(file.name)
        conc = _suffix(file.name)
        if batched and (conc is None or conc not in _completed(meta)):
            continue  # a batch counts only for the concurrencies it finished
        row = {**meta, "conc": conc} if batched else meta
        tasks = tuple(sorted(data["results"])) if isinstance(data.get("results"), dict) else ()
        found.append(Raw(folder, file, eval_identity(row), stamp[1] if stamp else None, tasks))
    return found


def _suffix(name: str) -> int | None:
    match = re.search(r"_conc(\d{1,6})\.json\Z", name)
    return int(match[1]) if match else None


def _completed(meta: Row) -> list[Any]:
    done = meta.get("completed_eval_concs", meta.get("eval_concs"))
    return done if isinstance(done, list) else []


def _rows(folder: Path, problems: list[Problem]) -> list[Row]:
    """Every JSON object below a folder, lists opened."""
    rows: list[Row] = []
    for file in sorted(folder.rglob("*.json")) if folder.is_dir() else ():
        try:
            data = read_json(file.read_bytes(), str(file))
        except (OSError, InputError) as error:
            problems.append(Problem(f"not readable: {error}", Where(str(file))))
            continue
        for item in data if isinstance(data, list) else [data]:
            if isinstance(item, dict):
                rows.append(item)
            else:
                problems.append(Problem("holds something that is no row", Where(str(file))))
    return rows


def _listed(items: Iterable[Any]) -> str:
    items = list(items)
    shown = ", ".join(str(item) for item in items[:SHOWN])
    return shown + (f", and {len(items) - SHOWN} more" if len(items) > SHOWN else "")
