"""Points as CSV: one row a point, chosen measures as columns with their units, blank for missing and 0 for zero."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from ridgeline.core.point import Point

_HEAD = (
    "name", "line", "series", "source", "concurrency", "repeat", "gpus", "validity", "reasons", "cautions",
    "measured_at", "id",
)  # fmt: skip


def to_csv(points: Iterable[Point], measures: Sequence[str] | None = None) -> str:
    """CSV text with a header. `measures`: columns in this order; None takes every measure of any point, sorted.

    A column is headed `measure (unit)`; a missing value is an empty cell, its reason is in the point. Points that were
    priced have their price sheet and its prices in columns of their own.
    """
    listed = list(points)
    units = {name: measure.unit for point in listed for name, measure in point.measures.items()}
    names = sorted(units) if measures is None else list(measures)
    sheets = [point.facts.get("price_sheet") or {} for point in listed]
    prices = sorted({name for sheet in sheets for name in sheet.get("prices", ())})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    costs = ["price sheet", *(f"{name} (USD)" for name in prices)] if prices else []
    writer.writerow([*_HEAD, *costs, *(f"{name} ({units[name]})" if name in units else name for name in names)])
    for point, sheet in zip(listed, sheets, strict=True):
        told = {name: getattr(point, name, "") for name in _HEAD}
        told |= {
            "repeat": point.provenance.get("repeat", ""),
            "reasons": "; ".join(point.reasons),
            "cautions": " ".join(caution.code for caution in point.cautions),
            "measured_at": point.measured_at or "",
        }
        paid = [f"{sheet['name']} {sheet['digest'][:8]}" if sheet else ""] if prices else []
        paid += [_text(sheet.get("prices", {}).get(name)) for name in prices]
        writer.writerow([*told.values(), *paid, *(_text(point.value(name)) for name in names)])
    return out.getvalue()


def _text(value: float | None) -> str:
    return "" if value is None else repr(value)
