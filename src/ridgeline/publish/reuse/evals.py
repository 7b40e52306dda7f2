"""Evaluations of a run: raw results, which of repeated ones counts, and what the others leave behind.

A set is a folder with `meta_env.json`. A plain set has one result, its newest; a batched one (`eval_concs` is a list)
has one for each concurrency that it finished. Of one identity the result counts whose file's name has the newest time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.publish.forge.event import read_json
from ridgeline.publish.reuse import identity
from ridgeline.publish.reuse.identity import Identity, Row

META, COMPLETED = "meta_env.json", "completed_eval_concs"
_STAMP = re.compile(r"results_(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:[.-]\d+)?)(?:_conc\d+)?\.json\Z")
_CONC = re.compile(r"_conc(\d{1,6})\.json\Z")


class Raw(NamedTuple):
    """One result file. `at` None: its name says no time. `conc`: of a batch's file. `scores`: numbers of each task."""

    folder: Path
    file: Path
    identity: Identity
    at: str | None
    conc: int | None
    scores: Mapping[str, frozenset[float]]


class Collapsed(NamedTuple):
    """`kept` results count. `removed`: files and whole folders that are obsolete; `rewritten`: what stays of files that
    told of them."""

    kept: tuple[Raw, ...]
    removed: tuple[Path, ...]
    rewritten: Mapping[Path, Any]


def read_sets(folder: Path, problems: list[Problem]) -> tuple[list[Raw], list[Path]]:
    """(results, obsolete files) of one artifact: the folder itself is a set, or its children are."""
    sets = [one for one in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())) if (one / META).is_file()]
    if not sets:
        problems.append(Problem("is missing: a raw evaluation says what it evaluated", Where(str(folder / META))))
    found: list[Raw] = []
    obsolete: list[Path] = []
    for one in sets:
        results, older = _read_set(one, problems)
        found += results
        obsolete += older
    return found, obsolete


def _read_set(folder: Path, problems: list[Problem]) -> tuple[list[Raw], list[Path]]:
    meta = _json(folder / META, problems)
    if not isinstance(meta, dict):
        if meta is not None:
            problems.append(Problem("is no object", Where(str(folder / META))))
        return [], []
    batched = isinstance(meta.get("eval_concs"), list)
    done = meta.get(COMPLETED, meta.get("eval_concs")) if batched else None
    if batched and not isinstance(done, list):
        problems.append(Problem("must be a list", Where(str(folder / META)), COMPLETED))
        return [], []
    newest: dict[int | None, Raw] = {}
    older: list[Path] = []
    for file in sorted(folder.rglob("results*.json")):
        data = _json(file, problems)
        if not isinstance(data, dict) or "lm_eval_version" not in data:
            continue
        match = _CONC.search(file.name)
        conc = int(match[1]) if match and batched else None
        if done is not None and conc not in done:
            continue  # a batch counts only for the concurrencies it finished
        stamp = _STAMP.search(file.name)
        raw = Raw(folder, file, identity.evaluation(meta, conc), stamp[1] if stamp else None, conc, _scores(data))
        before = newest.get(conc)
        if before is not None:
            older.append(min(before, raw, key=_age).file)
            raw = max(before, raw, key=_age)
        newest[conc] = raw
    lacking = [one for one in done or () if one not in newest]
    if lacking:
        problems.append(
            Problem(f"says {lacking} were evaluated; there is no result", Where(str(folder / META)), COMPLETED)
        )
    return list(newest.values()), older


def collapse(raws: Iterable[Raw], older: Sequence[Path], aggregate: Path, rows: Sequence[Row]) -> Collapsed:
    """The newest of each identity. Identities with a file that says no time are left alone. `rows`: of the aggregate,
    which keeps the row of the result that counts, where its score tells which one that is."""
    groups: dict[Identity, list[Raw]] = {}
    for raw in raws:
        groups.setdefault(raw.identity, []).append(raw)
    kept: list[Raw] = []
    lost: list[Raw] = []
    for group in groups.values():
        told = all(raw.at is not None for raw in group)
        winner = max(group, key=_age)
        kept += [winner] if told else group
        lost += [raw for raw in group if told and raw is not winner]
    removed = [*older]
    rewritten: dict[Path, Any] = {}
    for folder in dict.fromkeys(raw.folder for raw in lost):
        stays = [raw for raw in kept if raw.folder == folder]
        if not stays:
            removed.append(folder)
            continue
        removed += [raw.file for raw in lost if raw.folder == folder]
        meta = read_json((folder / META).read_bytes(), META)
        rewritten[folder / META] = {**meta, COMPLETED: [raw.conc for raw in stays]}
    reduced = _reduced(rows, kept, {raw.identity for raw in lost})
    if len(reduced) < len(rows):
        rewritten[aggregate] = reduced
    return Collapsed(tuple(kept), tuple(removed), rewritten)


def _reduced(rows: Sequence[Row], kept: Sequence[Raw], repeated: set[Identity]) -> list[Row]:
    """Rows of the aggregate without those of obsolete results. Rows that cannot be told apart all stay."""
    winners = {raw.identity: raw for raw in kept if raw.identity in repeated}
    by_task: dict[tuple[Identity, str], list[Row]] = {}
    for row in rows:
        by_task.setdefault((identity.evaluation(row), str(row.get("task"))), []).append(row)
    drop: set[int] = set()
    for (about, task), several in by_task.items():
        if about not in winners or len(several) == 1:
            continue
        scores = winners[about].scores.get(task, frozenset())
        mine = [row for row in several if row.get("score") in scores]
        if len({repr(row) for row in several}) == 1 or len({repr(row) for row in mine}) == 1:
            stays = (mine or several)[0]
            drop |= {id(row) for row in several if row is not stays}
    return [row for row in rows if id(row) not in drop]


def _scores(data: Mapping[str, Any]) -> dict[str, frozenset[float]]:
    results = data.get("results")
    tasks = results.items() if isinstance(results, dict) else ()
    return {
        task: frozenset(v for v in values.values() if isinstance(v, (int, float)))
        if isinstance(values, dict)
        else frozenset()
        for task, values in tasks
    }


def _age(raw: Raw) -> tuple[str, str]:
    return raw.at or "", raw.file.name


def _json(file: Path, problems: list[Problem]) -> Any:
    try:
        return read_json(file.read_bytes(), str(file))
    except (OSError, InputError) as error:
        what = error.problems[0].message if isinstance(error, InputError) else str(error.strerror)
        problems.append(Problem(f"cannot be read: {what}", Where(str(file))))
        return None
