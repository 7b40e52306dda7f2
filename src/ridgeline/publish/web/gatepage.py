"""The gates page: did the last run make it worse, what gates said, and why runs were made.

In: a channel's runs, stored gate judgements, changelogs. Out: plain data, newest first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.core.errors import InputError, RidgelineError
from ridgeline.publish.web import comparison
from ridgeline.publish.web.data import Holding, Run

PAIRS = 6


def recent(holding: Holding) -> list[dict[str, Any]]:
    """Each of the newest runs against the newest older one that shares a cell with it."""
    return holding.keep("recent", lambda: _recent(holding))


def _recent(holding: Holding) -> list[dict[str, Any]]:
    runs = [run for run in holding.runs if run.n and run.live is None][: PAIRS * 3]
    rows: list[dict[str, Any]] = []
    for at, run in enumerate(runs):
        mine = holding.cells(run.id)
        before = next((old for old in runs[at + 1 :] if mine & holding.cells(old.id)), None)
        if before is None or len(rows) == PAIRS:
            continue
        rows.append(_judged(holding, before, run))
    return rows


def _judged(holding: Holding, before: Run, run: Run) -> dict[str, Any]:
    row: dict[str, Any] = {
        "a": before,
        "b": run,
        "when": run.when[:16].replace("T", " "),
        "href": f"/compare?a={before.id}&b={run.id}&channel={holding.channel}",
    }
    try:
        found = comparison.compared((holding, before), (holding, run))
    except InputError as error:
        sources = sorted({*before.sources, *run.sources})
        return {**row, "verdict": "unclear", "reason": error.message, "points": 0, "changes": [], "sources": sources}
    return {
        **row,
        "sources": [str(source) for source in found.sources],
        "verdict": str(found.overall.verdict),
        "reason": found.overall.reason,
        "points": len(found.points),
        "changes": [f"{change.name}: {_told(change.before)} → {_told(change.after)}" for change in found.changes[:3]],
    }


def _told(value: object) -> str:
    return "not told" if value is None else str(value)


def gates(files: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Stored judgements (`ridgeline pr gate --json`), by name. A file that is none says so."""
    rows = []
    for name, file in sorted(files.items(), reverse=True):
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            rows.append(_gate(name, data))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            rows.append({"name": name, "wrong": f"is no stored judgement: {error}"})
    return rows


def _gate(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    performance = data.get("performance") or {}
    blocking = [one for one in data["remarks"] if one.get("severity") == "blocking"]
    return {
        "name": name,
        "wrong": "",
        "title": f"{data['repository']} #{data['pull_request']}"
        if data.get("pull_request")
        else str(data["repository"]),
        "head": str(data["head"])[:12],
        "ok": bool(data["ok"]),
        "why": data["decision"]["why"],
        "cells": len(data["will_run"]["cells"]),
        "hours": data["will_run"]["gpu_hours"],
        "blocking": [_remark(one) for one in blocking],
        "remarks": [_remark(one) for one in data["remarks"] if one.get("severity") != "blocking"],
        "not_proven": [_remark(one) for one in data.get("not_proven") or ()],
        "unlooked": {str(part): str(why) for part, why in (data.get("not_looked_at") or {}).items()},
        "signed": str((data.get("sign_off") or {}).get("verdict") or "").lower(),
        "verdict": performance.get("verdict"),
        "sentence": performance.get("sentence", ""),
    }


def _remark(one: Mapping[str, Any]) -> str:
    """`file:line: message` of a remark, with its rule."""
    where = one.get("where") or {}
    place = ":".join(str(where[part]) for part in ("file", "line") if where.get(part))
    return f"{place + ': ' if place else ''}{one.get('message', '')} ({one.get('rule', 'no rule')})"


def changelog(holding: Holding, files: Mapping[str, Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """Entries of changelog files (last one first) and those that came with runs; and what could not be read."""
    from ridgeline.publish.changelog.document import read_document

    rows: list[dict[str, Any]] = []
    problems = []
    for name, file in files.items():
        try:
            document = read_document(file.read_bytes(), name)
        except (RidgelineError, OSError) as error:
            problems.append(str(error))
            continue
        rows += [
            {
                "what": " ".join(entry.description),
                "keys": list(entry.config_keys),
                "link": _web(entry.pr_link),
                "where": f"{name}:{entry.line}",
                "run": "",
                "date": "",
            }
            for entry in reversed(document.entries)
        ]
    rows += [
        {
            "what": str(entry.get("description") or ""),
            "keys": list(entry.get("config_keys") or ()),
            "link": _web(entry.get("link")),
            "where": "",
            "run": str(entry.get("run") or ""),
            "date": str(entry.get("date") or "")[:10],
        }
        for entry in holding.changelog
    ]
    return rows, problems


def _web(link: object) -> str:
    """A link a page may carry: to the web, nothing else."""
    text = str(link or "")
    return text if text.startswith(("https://", "http://")) else ""


def sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """The landing answer."""
    if not rows:
        return "Nothing to compare yet: it takes two runs that share a cell."
    verdict = rows[0]["verdict"]
    others = [source for source in rows[0]["sources"] if source != "measured"]
    of_whom = f" ({' and '.join(others)}: no GPU took part)" if others else ""
    told = {
        "worse": "Yes: the last run is worse than the one before.",
        "better": "No: the last run is better than the one before.",
        "same": "No: the last run is the same as the one before, within noise.",
    }.get(str(verdict), "It is not clear: the differences of the last run are within what noise can do.")
    return told.removesuffix(".") + f"{of_whom}."
