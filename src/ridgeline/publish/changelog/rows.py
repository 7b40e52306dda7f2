"""What this room needs to know of a matrix row: its kind, bucket, recipe and concurrencies. Rows stay plain mappings.

A row is one job: a mapping with kebab-case keys. Single-node rows hold one concurrency as a number, multi-node rows
hold `prefill`, `decode` and a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ridgeline.core.cell import digest

Row: TypeAlias = dict[str, Any]
_NOT_RECIPE = ("conc", "exp-name", "recipe-fingerprint")
_SHORT_NAMES = {(1024, 1024): "1k1k", (8192, 1024): "8k1k"}


def is_multinode(row: Mapping[str, Any]) -> bool:
    """Multi-node rows are those with a prefill pool."""
    return row.get("prefill") is not None


def is_agentic(row: Mapping[str, Any]) -> bool:
    return row.get("scenario-type") == "agentic-coding"


def bucket(row: Mapping[str, Any]) -> str:
    """`agentic`, or the name of the sequence lengths: `1k1k`, `8k1k`, else `{isl}_{osl}` (tokens)."""
    if is_agentic(row):
        return "agentic"
    return _SHORT_NAMES.get((row["isl"], row["osl"]), f"{row['isl']}_{row['osl']}")


def concurrencies(row: Mapping[str, Any]) -> tuple[int, ...]:
    """As written, repeats kept."""
    conc = row["conc"]
    return tuple(conc) if isinstance(conc, list) else (conc,)


def fingerprint(row: Mapping[str, Any]) -> str:
    """The row fingerprint: sha256 (hex) of the expanded row without concurrency and name, before any output default."""
    return digest({key: value for key, value in row.items() if key not in _NOT_RECIPE})


def lowest_concurrency(rows: Iterable[Row]) -> list[Row]:
    """The trimmed matrix: each multi-node row keeps its lowest concurrency, each single-node recipe its lowest row.

    The first row wins a tie; the order stays. Multi-node agentic rows hold one concurrency each and all stay.
    """
    rows = list(rows)
    lowest: dict[str, int] = {}
    for index, row in enumerate(rows):
        if not is_multinode(row):
            recipe = fingerprint(row)
            if recipe not in lowest or row["conc"] < rows[lowest[recipe]]["conc"]:
                lowest[recipe] = index
    kept = set(lowest.values())
    return [
        {**row, "conc": [min(row["conc"])]} if is_multinode(row) else row
        for index, row in enumerate(rows)
        if is_multinode(row) or index in kept
    ]
