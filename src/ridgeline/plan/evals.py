"""Which rows also run, or only run, an accuracy evaluation.

In: rows of `plan.rows` and a mode. Out: the rows with `run-eval`, `eval-only`, `eval-conc` and `eval-all-concs` set,
and without the rows that the mode leaves out. The policy (which concurrencies are worth an evaluation) is InferenceX's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

Row = dict[str, Any]
MIN_CONCURRENCY = 16  # evaluations below this take longer than they are worth
EVAL_LENGTHS = (8192, 1024)


class EvalMode(Enum):
    """DEFAULT marks a subset of fixed rows; NONE nothing; ONLY keeps the marked rows, agentic ones too; ALL widens
    the marked set to every point of the selection and keeps only it."""

    DEFAULT = "default"
    NONE = "none"
    ONLY = "only"
    ALL = "all"


def mark(rows: list[Row], mode: EvalMode) -> list[Row]:
    """Apply the policy of `mode`. The dicts are changed in place; the list is new where rows are left out."""
    if mode is EvalMode.NONE:
        return rows
    _mark_single_fixed(row for row in rows if not _agentic(row) and "prefill" not in row)
    _mark_multi(row for row in rows if not _agentic(row) and "prefill" in row)
    for row in rows:
        if _agentic(row):
            row["run-eval"] = False
    if mode is EvalMode.DEFAULT:
        return rows
    _mark_single_agentic(row for row in rows if _agentic(row) and "prefill" not in row)
    _mark_multi(row for row in rows if _agentic(row) and "prefill" in row)
    if mode is EvalMode.ALL:
        rows = _widen(rows)
    kept = [row for row in rows if row["run-eval"]]
    for row in kept:
        row["eval-only"] = True
    return kept


def _agentic(row: Row) -> bool:
    return row.get("scenario-type") == "agentic-coding"


def _long(row: Row) -> bool:
    return (row.get("isl"), row.get("osl")) == EVAL_LENGTHS


def _mark_single_fixed(rows: Iterable[Row]) -> None:
    """In each group the highest concurrency and the upper median of the distinct ones are evaluated, in every tp/ep."""
    eligible = [row for row in rows if _long(row) and row["conc"] >= MIN_CONCURRENCY]
    names = ("model", "runner", "framework", "precision", "isl", "osl", "spec-decoding", "dp-attn")
    for group in _groups(eligible, lambda row: tuple(row[name] for name in names)):
        values = sorted({row["conc"] for row in group})
        targets = {values[-1], values[len(values) // 2]}
        for row in group:
            if row["conc"] in targets:
                row["run-eval"] = True


def _mark_multi(rows: Iterable[Row]) -> None:
    """In each group of equal topology the row with the highest eligible concurrency is evaluated, at that one."""
    eligible = [row for row in rows if (_agentic(row) or _long(row)) and max(row["conc"], default=0) >= MIN_CONCURRENCY]
    for group in _groups(eligible, same_topology):
        best = max(group, key=lambda row: max(row["conc"]))  # the first of equals
        best["run-eval"] = True
        best["eval-conc"] = max(best["conc"])


def _mark_single_agentic(rows: Iterable[Row]) -> None:
    for group in _groups(rows, lambda row: tuple(row[n] for n in ("model", "runner", "framework", "precision"))):
        max(group, key=lambda row: row["conc"])["run-eval"] = True


def _widen(rows: list[Row]) -> list[Row]:
    """Every point is evaluated: single-node rows one by one, multi-node rows of one topology merged into the first."""
    result: list[Row] = []
    first: dict[Any, Row] = {}
    for row in rows:
        if not _agentic(row) and not _long(row):
            result.append(row)
        elif "prefill" not in row:
            row["run-eval"] = True
            result.append(row)
        else:
            key = same_topology(row)
            if key not in first:
                first[key] = row
                row["conc"] = list(row["conc"])
                result.append(row)
            else:
                first[key]["conc"] += row["conc"]
    for row in first.values():
        row["conc"] = sorted(set(row["conc"]))
        row["run-eval"] = True
        row.pop("eval-conc", None)
        if _agentic(row):
            row["eval-conc"] = row["conc"][-1]
        else:
            row["eval-all-concs"] = True
    return result


_NOT_TOPOLOGY = frozenset(("conc", "run-eval", "eval-only", "eval-conc", "eval-all-concs", "exp-name"))


def same_topology(row: Row) -> Any:
    """A key equal for rows that differ only in concurrency, evaluation marks and name; key order does not matter."""
    return hashable({name: value for name, value in row.items() if name not in _NOT_TOPOLOGY})


def hashable(value: Any) -> Any:
    """A hashable stand-in for JSON data, equal when the data is equal in values and types."""
    if isinstance(value, dict):
        return frozenset((key, hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(hashable(item) for item in value)
    return value.__class__, value


def _groups(rows: Iterable[Row], key: Callable[[Row], Any]) -> Iterable[list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups.values()
