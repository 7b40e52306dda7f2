"""Values of one measure, packed: a block holds those of up to a thousand points of one import, side by side.

In: measures of points, or a measure's name. Out: rows of `measure_blocks`, one measure as two columns, or all of them
as a table. A row a value would be three quarters of an import's work, and reading an axis of 100,000 points would take
longer than its frontier. A value that is missing is NaN here, which no stored value is, and its reason is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Connection, select, text

from ridgeline.core.point import Measure
from ridgeline.results.store import tables as t
from ridgeline.results.sweepline import Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 1000  # points in one block, at most
_NUMBERS, _VALUES = np.dtype("<i8"), np.dtype("<f8")  # as they lie in the catalogue, whatever the machine
_UNCOUNTED = -1

Told = Sequence[tuple[int, Measure]]


def rows(measures: Mapping[int, Told], units: Mapping[int, str]) -> list[dict[str, Any]]:
    """Rows of the table for (number of the point, measure) by the measure's number, by rising number of the point.
    `units`: the usual unit of each; a point that has another one says so."""
    return [_row(measure, units[measure], told) for measure, told in measures.items() if told]


def _row(measure: int, unit: str, told: Told) -> dict[str, Any]:
    values = [np.nan if one.value is None else one.value for _, one in told]
    counts = [_UNCOUNTED if one.n is None else one.n for _, one in told]
    reasons: dict[str, list[int]] = {}
    for at, (_, one) in enumerate(told):
        if one.reason is not None:
            reasons.setdefault(one.reason, []).append(at)
    others = {at: one.unit for at, (_, one) in enumerate(told) if one.unit != unit}
    said = {name: found for name, found in (("reasons", reasons), ("units", others)) if found}
    return {
        "measure": measure,
        "first": told[0][0],
        "numbers": np.array([number for number, _ in told], dtype=_NUMBERS).tobytes(),
        "packed": np.array(values, dtype=_VALUES).tobytes(),
        "counts": np.array(counts, dtype=_NUMBERS).tobytes() if any(n != _UNCOUNTED for n in counts) else None,
        "said": json.dumps(said, ensure_ascii=False) if said else None,
    }


def columns(blocks: Iterable[tuple[bytes, bytes]]) -> tuple[Ints, Floats]:
    """Numbers of points and their values, in the order of the blocks; NaN where the value is missing."""
    listed = list(blocks)
    numbers = b"".join(block[0] for block in listed)
    values = b"".join(block[1] for block in listed)
    return np.frombuffer(numbers, _NUMBERS).astype(np.int64), np.frombuffer(values, _VALUES).astype(np.float64)


def read(connection: Connection, measure: str) -> tuple[Ints, Floats]:
    """Every revision's value of a measure, by rising number of the point; empty for a measure that nobody has."""
    b, n = t.measure_blocks.c, t.measure_names.c
    query = select(b.numbers, b.packed).join_from(t.measure_blocks, t.measure_names, n.no == b.measure)
    return columns((bytes(one), bytes(two)) for one, two in connection.execute(query.where(n.name == measure)
                                                                               .order_by(b.first)))  # fmt: skip


def table(connection: Connection, numbers: Ints, ids: pa.Array) -> pa.Table:
    """Every measure of the points with these rising `numbers`: point (of `ids`), measure, value, unit, n, reason."""
    import pyarrow as pa

    names, usual = _Words(), _Words()
    about = {}
    for no, name, unit in connection.execute(select(t.measure_names.c.no, t.measure_names.c.name,
                                                    t.measure_names.c.unit)):  # fmt: skip
        about[no] = (names.code(name), usual.code(unit))
    b, reasons = t.measure_blocks.c, _Words()
    query = select(b.measure, b.numbers, b.packed, b.counts, b.said).order_by(b.measure, b.first)
    places = np.full(int(numbers.max(initial=-1)) + 2, -1, np.int32)  # by number; what lies behind the last is nowhere
    places[numbers] = np.arange(len(numbers), dtype=np.int32)
    parts: list[tuple[Any, ...]] = []
    for measure, packed_numbers, packed, packed_counts, said in connection.execute(query):
        of = np.frombuffer(packed_numbers, _NUMBERS)
        place = places[np.minimum(of, len(places) - 1)]
        keep = place >= 0
        if not keep.any():
            continue
        name, unit = about[measure]
        units, why = np.full(len(of), unit, np.int32), np.full(len(of), -1, np.int32)
        told = json.loads(said) if said else {}
        for reason, spots in told.get("reasons", {}).items():
            why[spots] = reasons.code(reason)
        for at, other in told.get("units", {}).items():
            units[int(at)] = usual.code(other)
        counts = np.frombuffer(packed_counts, _NUMBERS) if packed_counts else np.full(len(of), _UNCOUNTED, np.int64)
        whole = (place, np.full(len(of), name, np.int32), np.frombuffer(packed, _VALUES), units, counts, why)
        parts.append(whole if keep.all() else tuple(column[keep] for column in whole))
    kinds = (np.int32, np.int32, np.float64, np.int32, np.int64, np.int32)
    place, name, value, unit, count, why = (
        np.concatenate([part[at] for part in parts]) if parts else np.empty(0, kind) for at, kind in enumerate(kinds)
    )
    return pa.table(
        {
            "point": pa.DictionaryArray.from_arrays(place, ids),
            "measure": names.column(name),
            "value": pa.array(value, mask=np.isnan(value)),
            "unit": usual.column(unit),
            "n": pa.array(count, mask=count == _UNCOUNTED),
            "reason": reasons.column(why),
        }
    )


class _Words:
    """Words by number, in the order in which they came."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, word: str) -> int:
        return self._codes.setdefault(word, len(self._codes))

    def column(self, codes: Any) -> pa.Array:
        """As words, nothing where the code is negative."""
        import pyarrow as pa

        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(list(self._codes), pa.string()))


def pack(connection: Connection) -> None:
    """Migration 4: rows of the narrow table that was there before become blocks of values."""
    found = connection.execute(text("SELECT measure, point, value FROM measures ORDER BY measure, point"))
    for packed in found.yield_per(100_000).partitions():
        by: dict[int, list[tuple[int, Measure]]] = {}
        for measure, point, value in packed:
            by.setdefault(measure, []).append((point, Measure(value, "")))
        units = dict.fromkeys(by, "")
        made = [row for part in _cut(by) for row in rows(part, units)]
        bare = ("measure", "first", "numbers", "packed")  # what the table had then
        connection.execute(t.measure_blocks.insert(), [{name: row[name] for name in bare} for row in made])


def _cut(by: Mapping[int, Told]) -> Iterator[dict[int, Told]]:
    for measure, told in by.items():
        for at in range(0, len(told), AT_ONCE):
            yield {measure: told[at : at + AT_ONCE]}
