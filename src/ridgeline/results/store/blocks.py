"""Values of one measure, packed: a block holds those of up to a thousand points of one import, side by side.

In: values by measure, or a measure's name. Out: rows of `measure_blocks`, or two columns. A row a value would be three
quarters of an import's work, and reading an axis of 100,000 points would take longer than its frontier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, select, text

from ridgeline.results.store import tables as t
from ridgeline.results.sweepline import Floats, Ints

AT_ONCE = 1000  # points in one block, at most
_NUMBERS, _VALUES = np.dtype("<i8"), np.dtype("<f8")  # as they lie in the catalogue, whatever the machine

Values = Sequence[tuple[int, float]]


def rows(values: Mapping[int, Values]) -> list[dict[str, Any]]:
    """Rows of the table for values by measure: (number of the point, value) each, by rising number."""
    return [_row(measure, pairs) for measure, pairs in values.items() if pairs]


def _row(measure: int, pairs: Values) -> dict[str, Any]:
    numbers, values = zip(*pairs, strict=True)
    return {
        "measure": measure,
        "first": numbers[0],
        "numbers": np.array(numbers, dtype=_NUMBERS).tobytes(),
        "packed": np.array(values, dtype=_VALUES).tobytes(),
    }


def columns(blocks: Iterable[tuple[bytes, bytes]]) -> tuple[Ints, Floats]:
    """Numbers of points and their values, in the order of the blocks."""
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


def pack(connection: Connection) -> None:
    """Migration 4: rows of the narrow table that was there before become blocks."""
    found = connection.execute(text("SELECT measure, point, value FROM measures ORDER BY measure, point"))
    for packed in found.yield_per(100_000).partitions():
        by: dict[int, list[tuple[int, float]]] = {}
        for measure, point, value in packed:
            by.setdefault(measure, []).append((point, value))
        connection.execute(t.measure_blocks.insert(), [row for part in _cut(by) for row in rows(part)])


def _cut(by: Mapping[int, Values]) -> Iterator[dict[int, Values]]:
    for measure, pairs in by.items():
        for at in range(0, len(pairs), AT_ONCE):
            yield {measure: pairs[at : at + AT_ONCE]}
