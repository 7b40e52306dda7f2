"""Measures in blocks: what goes in comes out, in the order of the points."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.point import Measure
from ridgeline.results.store import blocks

VALUES = st.lists(st.floats(allow_nan=False), max_size=30)


@settings(max_examples=50, deadline=None)
@given(VALUES, VALUES)
def test_what_is_packed_is_unpacked(one: list[float], two: list[float]) -> None:
    told = {number: [(at, Measure(value, "s")) for at, value in enumerate(values, 10)]
            for number, values in ((1, one), (2, two), (3, []))}  # fmt: skip
    rows = blocks.rows(told, dict.fromkeys(told, "s"))
    assert [row["measure"] for row in rows] == [number for number, values in told.items() if values]
    for row in rows:
        numbers, values = blocks.columns([(row["numbers"], row["packed"])])
        assert row["first"] == numbers[0] == 10
        assert row["counts"] is None and row["said"] is None, "nothing is said of what is usual"
        pairs = [(at, measure.value) for at, measure in told[row["measure"]]]
        assert list(zip(numbers.tolist(), values.tolist(), strict=True)) == pairs


def test_blocks_follow_each_other() -> None:
    (one,) = blocks.rows({7: [(1, Measure(0.5, "s"))]}, {7: "s"})
    (two,) = blocks.rows({7: [(3, Measure(2.0, "s")), (9, Measure(-1.0, "s"))]}, {7: "s"})
    numbers, values = blocks.columns([(row["numbers"], row["packed"]) for row in (one, two)])
    assert numbers.tolist() == [1, 3, 9] and values.tolist() == [0.5, 2.0, -1.0]
    numbers, values = blocks.columns([])
    assert not len(numbers) and not len(values), "a measure that nobody has"


def test_what_is_missing_is_no_number_and_keeps_its_reason() -> None:
    told = [(4, Measure(None, "s", None, "no log")), (5, Measure(0.0, "ms", 0)), (6, Measure(None, "s", 3, "no log"))]
    (row,) = blocks.rows({1: told}, {1: "s"})
    numbers, values = blocks.columns([(row["numbers"], row["packed"])])
    assert numbers.tolist() == [4, 5, 6] and values[1] == 0.0 and (values[[0, 2]] != values[[0, 2]]).all()
    assert json.loads(row["said"]) == {"reasons": {"no log": [0, 2]}, "units": {"1": "ms"}}
