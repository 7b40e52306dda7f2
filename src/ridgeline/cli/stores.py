"""Where the store is and what a side of a question names: a run in it, a run folder, or another tool's results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.core.errors import InputError, Problem

if TYPE_CHECKING:
    from ridgeline.results.compare import Side
    from ridgeline.results.store import Store

DEFAULT = Path("ridgeline-store")
STORE_HELP = "Store: a folder, or a postgresql:// address. (default: $RIDGELINE_STORE, else ./ridgeline-store)"
DATA_HELP = "Folder of the store's files; needed with PostgreSQL. (default: $RIDGELINE_DATA, else STORE/data)"


def open_store(store: str | None, data: Path | None, *, make: bool = False) -> Store:
    """The store the user means. Raises InputError when there is none and it is not to be made."""
    from ridgeline.results.store import Store

    target = store or os.environ.get("RIDGELINE_STORE") or str(DEFAULT)
    place = data or (Path(os.environ["RIDGELINE_DATA"]) if os.environ.get("RIDGELINE_DATA") else None)
    if not make and "://" not in target and not (Path(target) / "catalogue.sqlite").exists():
        hint = "import something first: `ridgeline results import RUN`, or name the store with --store"
        raise InputError([Problem(f"no store at {target}", key="--store", hint=hint)])
    return Store.open(target, place)


def side(text: str, store: str | None, data: Path | None) -> Side:
    """Points of one or several runs (`a,b,c`), each a path that an importer reads or a run of the store."""
    from ridgeline.results.compare import Side

    parts = [_one(part, store, data) for part in text.split(",") if part]
    if not parts:
        raise InputError([Problem("names no run", hint="a run folder, results of another tool, or a run of the store")])
    return Side(
        text,
        tuple(point for part in parts for point in part.points),
        {id: facts for part in parts for id, facts in part.about.items()},
        tuple(item for part in parts for item in part.failed),
    )


def latest(store: str | None, data: Path | None, channel: str | None, where: Sequence[str]) -> Side:
    """The latest points of every line of a store, of one channel or any, that match every `name=value` of `where`."""
    from ridgeline.results.compare import Side

    with open_store(store, data) as opened:
        points = opened.points(channel=channel, **told(where, "--where"))
    return Side("the store's latest points", points)


def _one(text: str, store: str | None, data: Path | None) -> Side:
    path = Path(text)
    return _of_path(path) if path.exists() else _of_store(text, store, data)


def _of_path(path: Path) -> Side:
    from dataclasses import replace

    from ridgeline.results import importers
    from ridgeline.results.compare import Side
    from ridgeline.results.store.ingest import catalogued_id, flatten

    importer, bundle = importers.find(path)
    imported = importer.read(bundle, False)
    points, about, failed = [], {}, []
    for run in imported.runs:
        newest: dict[tuple[str, int], Any] = {}
        for item in run.points:
            place = (item.point.run_key, item.repeat)
            if place not in newest or item.point.attempt > newest[place].point.attempt:
                newest[place] = item
        for item in newest.values():
            point = replace(item.point, id=catalogued_id(run.id, item.point))
            points.append(point)
            sides = (("asked", item.asked), ("found", item.found))
            told = {f"{name}.{key}": value for name, facts in sides for key, value in flatten(facts).items()}
            about[point.id] = {**told, "run": run.id}
        failed += [(item.line, item.concurrency, f"{item.layer}: {item.message}") for item in run.failures]
    return Side(str(path), tuple(points), about, tuple(failed))


def _of_store(text: str, store: str | None, data: Path | None) -> Side:
    from ridgeline.results.compare import Side

    try:
        store_of_it = open_store(store, data)
    except InputError as error:
        message = f"no file or folder here, and {error.problems[0].message}"
        raise InputError([Problem(message, key=text, hint=error.problems[0].hint)]) from error
    with store_of_it as opened:
        run = opened.run_id(text)
        points = opened.points(run=run)
        told = opened.provenance([point.id for point in points])
        failed = tuple(
            (item["line"], item["concurrency"], f"{item['layer']}: {item['message']}") for item in opened.failures(run)
        )
    about = {point.id: {**told.get(point.id, {}), "run": run} for point in points}
    return Side(text, points, about, failed)


def told(settings: Sequence[str], option: str = "--set") -> dict[str, str]:
    """`name=value` options as a mapping. Raises InputError with every one that is not such a pair."""
    problems = [Problem(f"not name=value: {item}", key=option) for item in settings if "=" not in item]
    if problems:
        raise InputError(problems)
    return dict(item.split("=", 1) for item in settings)
