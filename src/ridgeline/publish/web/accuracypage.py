"""Accuracy beside speed: what evaluations of a channel's configurations scored.

In: evaluations as shelves list them (run, task, metric, score, stderr, n, line, concurrency, source). Out: one
group a task and metric, best score first, each row with a mark and its standard error on a scale that the group shares.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDTH = 240.0  # of a mark's scale, in its own units
_STEP = 0.05  # the scale begins at a multiple of it


def groups(evaluations: Iterable[Mapping[str, Any]], words: str = "") -> list[dict[str, Any]]:
    """Evaluations whose line, task, metric or run holds every word, by task and metric; scores fall. A row without a
    score keeps its place at the end, with the reason."""
    wanted = [word.lower() for word in words.split()]
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for one in evaluations:
        text = f"{one['line']} {one['task']} {one['metric']} {one['run']} {one['source']}".lower()
        if all(word in text for word in wanted):
            found[str(one["task"]), str(one["metric"])].append(one)
    return [_group(task, metric, rows) for (task, metric), rows in sorted(found.items())]


def _group(task: str, metric: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scores = sorted(row["score"] for row in rows if row["score"] is not None)
    low = _begin(scores)
    high = max([1.0, *scores])
    ranked = sorted(rows, key=lambda row: (row["score"] is None, -(row["score"] or 0.0), row["line"]))
    return {"task": task, "metric": metric, "low": low, "high": high, "rows": [_row(row, low, high) for row in ranked]}


def _begin(scores: Sequence[float]) -> float:
    """Where the scale begins: so that nineteen of twenty scores lie on it; what lies below it is marked as being so.
    Scores crowd near the top: on a scale from zero they would all look alike."""
    if not scores:
        return 0.0
    twentieth = min(scores[len(scores) // 20], 1 - _STEP)  # there is a scale, even where every score is full
    return max(0.0, math.floor(twentieth / _STEP) * _STEP)


def _row(row: Mapping[str, Any], low: float, high: float) -> dict[str, Any]:
    score, error = row["score"], row["stderr"]

    def at(value: float) -> float:
        return round(WIDTH * min(1.0, max(0.0, (value - low) / (high - low))), 1)

    mark = None
    if score is not None:
        mark = {"at": at(score), "below": score < low}
        if error:
            mark |= {"from": at(score - error), "to": at(score + error)}
    return {**row, "mark": mark, "when": str(row["measured_at"] or "")[:10]}


def sentence(found: Sequence[Mapping[str, Any]]) -> str:
    """The landing answer."""
    count = sum(len(group["rows"]) for group in found)
    if not count:
        return "No evaluation is stored here: speed without accuracy may reward a broken kernel."
    lines = {row["line"] for group in found for row in group["rows"]}
    tasks = sorted({group["task"] for group in found})
    on = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
    others = sorted({row["source"] for group in found for row in group["rows"]} - {"measured"})
    kinds = f", some of them {' and '.join(others)}" if others else ""
    return f"{count:,} scores of {len(lines):,} configurations on {on}{kinds}."
