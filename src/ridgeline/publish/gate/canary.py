"""The canary: one cheap job that must pass before the others start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Canary(NamedTuple):
    """`job` is None when no row is fit for it: then all go at once. `remaining` is the single-node part without it."""

    job: dict[str, Any] | None
    remaining: dict[str, list[Row]]


def pick(single_node: Mapping[str, Sequence[Row]], buckets: Sequence[str]) -> Canary:
    """Of the single-node fixed-sequence rows that are not evaluated, the one with the lowest concurrency, searched in
    the order of `buckets`; the first wins a tie. One occurrence leaves its bucket."""
    remaining = {name: list(rows) for name, rows in single_node.items()}
    candidates = [
        (row["conc"], order, index, name)
        for order, name in enumerate(buckets)
        for index, row in enumerate(remaining.get(name, ()))
        if row.get("run-eval") is not True
    ]
    if not candidates:
        return Canary(None, remaining)
    _, _, index, name = min(candidates)
    row = remaining[name].pop(index)
    return Canary({**row, "run-eval": False}, remaining)
