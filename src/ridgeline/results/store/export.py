"""What the store gives back in other people's formats.

In: a store and a run. Out: InferenceX's rows (fixed-sequence or agentic), so that a run of ours can be ingested by what
people have. Rows of points with records are made from those, with every percentile; others from the point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError
from ridgeline.core.point import Point
from ridgeline.results.store.store import Store


class Row(NamedTuple):
    """A row with the name of its file. `refused`: why there is none."""

    name: str
    row: dict[str, Any] | None
    refused: str = ""


def inferencex_rows(store: Store, run: str) -> Iterator[Row]:
    """`agg_*.json` rows of a run's valid points, one a repeat."""
    for point in store.points(run=run):
        about = store.describe(point.id)
        told = about["documents"].get("cell")
        repeat = about["repeat"]
        name = f"agg_{point.name.replace('/', '_')}" + (f"_r{repeat}" if repeat > 1 else "")
        if str(point.validity) not in ("valid", "unproven"):
            yield Row(name, None, f"{point.validity}: {'; '.join(point.reasons)}")
        elif told is None:
            yield Row(name, None, "its cell is not known")
        else:
            yield _row(store, point, msgspec.convert(told, Cell), name)


def _row(store: Store, point: Point, cell: Cell, name: str) -> Row:
    from ridgeline.results.export.agentic import agentic_row
    from ridgeline.results.export.inferencex import gpus_by_role, row_of_point

    fingerprint = str(point.facts.get("recipe_fingerprint") or "")
    path = store.request_file(point.id)
    try:
        if cell.scenario.kind == "agentic-coding":
            if path is None:
                return Row(name, None, "an agentic row needs the requests, and only the point is stored")
            from ridgeline.results.stored import StoredReplay

            samples = store.request_file(point.id, "samples")
            replay, gpus = StoredReplay(path, samples), gpus_by_role(point)
            return Row(name, agentic_row(replay, cell, recipe_fingerprint=fingerprint, gpus_by_role=gpus))
        if path is not None:
            from ridgeline.results.aggregate import aggregate

            whole = aggregate(
                path, cell=cell, source=point.source, run_key=point.run_key, gpus=point.gpus, withhold=False
            )
            point = replace(point, measures={**point.measures, **whole.measures})
        return Row(name, row_of_point(point, cell, recipe_fingerprint=fingerprint))
    except InputError as error:
        return Row(name, None, str(error))
