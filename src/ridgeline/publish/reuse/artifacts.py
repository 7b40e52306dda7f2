"""Validates the artifacts of a run that is to be reused, from a folder with one folder per artifact. Offline.

First, evaluations that were repeated are collapsed to the newest. Then everything is counted: each identity once, each
aggregate equal to what it was made from, raw results for every point. `validate` changes nothing; `prune` carries out
what it found obsolete, after which the folder validates as before.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.publish.forge.event import read_json
from ridgeline.publish.reuse import evals, identity
from ridgeline.publish.reuse.identity import Identity, Row

SHOWN = 20
FIXED, AGENTIC_AGGREGATES, EVALS = "results_bmk", ("results_bmk_agentic", "results_agentic"), "eval_results_all"
POINT, RAW = "bmk_agentic_", "agentic_"
RUN_STATS = ("run-stats", "run_stats")
_NOT_RAW_EVALS = (EVALS, "eval_server_logs_", "eval_gpu_metrics_")


class Report(NamedTuple):
    """`removed`: files and folders that a repeated evaluation made obsolete; `rewritten`: what stays of files that told
    of them. `counts`: what was found, by kind."""

    problems: tuple[Problem, ...]
    removed: tuple[Path, ...]
    rewritten: Mapping[Path, Any]
    counts: Mapping[str, int]


def validate(folder: Path) -> Report:
    """Check every artifact below `folder`. Raises InputError when it is no folder."""
    if not folder.is_dir():
        raise InputError([Problem("is not a folder of artifacts", Where(str(folder)))])
    problems: list[Problem] = []
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    fixed = _rows(folder / FIXED, problems)
    points = [row for name in names if name.startswith(POINT) for row in _rows(folder / name, problems)]
    problems += _repeated(fixed, identity.fixed, folder / FIXED, "fixed-sequence result")
    problems += _repeated(points, identity.agentic, folder, "agentic point")
    problems += _agentic(folder, names, points)
    raws: list[evals.Raw] = []
    older: list[Path] = []
    for name in names:
        if name.startswith("eval_") and not name.startswith(_NOT_RAW_EVALS):
            found, obsolete = evals.read_sets(folder / name, problems)
            raws, older = raws + found, older + obsolete
    aggregate = _aggregate(folder / EVALS)
    rows = _rows(folder / EVALS, problems)
    told = evals.collapse(raws, older, aggregate, rows)
    problems += _evals(folder / EVALS, told.kept, told.rewritten.get(aggregate, rows))
    if fixed and not any((folder / name).is_dir() for name in RUN_STATS):
        problems.append(Problem(f"no `{RUN_STATS[0]}`, although there are fixed-sequence results", Where(str(folder))))
    if not (fixed or points or raws):
        problems.append(Problem("no results at all", Where(str(folder))))
    superseded = len(raws) + len(older) - len(told.kept)
    counts = {"fixed": len(fixed), "agentic": len(points), "evaluations": len(told.kept), "superseded": superseded}
    return Report(tuple(problems), told.removed, told.rewritten, counts)


def prune(report: Report) -> None:
    """Remove what is obsolete and rewrite what told of it."""
    for path, data in report.rewritten.items():
        path.write_text(json.dumps(data, indent=2), encoding="utf-8")
    for path in report.removed:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def _aggregate(folder: Path) -> Path:
    """The aggregate's file; several are never rewritten as one."""
    files = sorted(folder.rglob("*.json")) if folder.is_dir() else []
    return files[0] if len(files) == 1 else folder


def _repeated(rows: Iterable[Row], of: Callable[[Row], Identity], folder: Path, what: str) -> list[Problem]:
    many = [key for key, count in Counter(map(of, rows)).items() if count > 1]
    return [Problem(f"{what} stands more than once: {_listed(many)}", Where(str(folder)))] if many else []


def _agentic(folder: Path, names: list[str], points: list[Row]) -> Iterable[Problem]:
    have = {name.removeprefix(POINT) for name in names if name.startswith(POINT)}
    raw = {name.removeprefix(RAW) for name in names if name.startswith(RAW)}
    for left, right, what in ((have, raw, "has no raw results"), (raw, have, "has raw results and no point")):
        if left - right:
            yield Problem(f"{what}: {_listed(sorted(left - right))}", Where(str(folder)))
    for name in set(AGENTIC_AGGREGATES) & set(names):
        unread: list[Problem] = []
        rows = _rows(folder / name, unread)
        yield from unread
        if {identity.agentic(row) for row in rows} != {identity.agentic(row) for row in points}:
            yield Problem("does not hold the same points as the single artifacts", Where(str(folder / name)))


def _evals(folder: Path, kept: Iterable[evals.Raw], aggregate: Iterable[Row]) -> Iterable[Problem]:
    place = Where(str(folder))
    found = Counter((identity.evaluation(row), str(row.get("task"))) for row in aggregate)
    made = Counter((raw.identity, task) for raw in kept for task in raw.scores)
    if made and not folder.is_dir():
        yield Problem("is missing, although there are raw evaluations", place)
    elif made and not found:
        yield Problem("is empty, although there are raw evaluations", place)
    elif found and not made:
        yield Problem("holds evaluations, and there are no raw ones", place)
    else:
        many = [key for key, count in found.items() if count > 1]
        if many:
            yield Problem(f"rows stand more than once: {_listed(many)}", place)
        odd = sorted(set(found) ^ set(made), key=repr)
        if odd:
            yield Problem(f"differs from the raw evaluations: {_listed(odd)}", place)


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
