"""Points as CSV: one row a point, chosen measures as columns with their units, blank for missing and 0 for zero."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from ridgeline.core.point import Point

_HEAD = (
    "name",
    "line",
    "series",
    "source",
    "concurrency",
    "gpus",
    "validity",
    "reasons",
    "cautions",
    "measured_at",
    "id",
)


def to_csv(points: Iterable[Point], measures: Sequence[str] | None = None) -> str:
    """CSV text with a header. `measures`: columns in this order; None takes every measure of any point, sorted.

    A column is headed `measure (unit)`; a missing value is an empty cell, its reason is in the point.
    """
    listed = list(points)
    units = {name: measure.unit for point in listed for name, measure in point.measures.items()}
    names = sorted(units) if measures is None else list(measures)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_HEAD, *(f"{name} ({units[name]})" if name in units else name for name in names)])
    for point in listed:
        values = [point.value(name) for name in names]
        facts = [
            point.name,
            point.line,
            point.series,
            point.source,
            point.concurrency,
            point.gpus,
            point.validity,
            "; ".join(point.reasons),
            " ".join(caution.code for caution in point.cautions),
            point.measured_at or "",
            point.id,
        ]
        writer.writerow([*facts, *("" if value is None else repr(value) for value in values)])
    return out.getvalue()
