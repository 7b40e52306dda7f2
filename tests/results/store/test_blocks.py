"""Values in blocks: what goes in comes out, in the order of the points."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.results.store import blocks

VALUES = st.lists(st.floats(allow_nan=False), max_size=30)


@settings(max_examples=50, deadline=None)
@given(VALUES, VALUES)
def test_what_is_packed_is_unpacked(one: list[float], two: list[float]) -> None:
    pairs = {1: list(enumerate(one, 10)), 2: list(enumerate(two, 10)), 3: []}
    rows = blocks.rows(pairs)
    assert [row["measure"] for row in rows] == [number for number, values in pairs.items() if values]
    for row in rows:
        numbers, values = blocks.columns([(row["numbers"], row["packed"])])
        assert row["first"] == numbers[0] == 10
        assert list(zip(numbers.tolist(), values.tolist(), strict=True)) == pairs[row["measure"]]


def test_blocks_follow_each_other() -> None:
    (one,), (two,) = blocks.rows({7: [(1, 0.5)]}), blocks.rows({7: [(3, 2.0), (9, -1.0)]})
    numbers, values = blocks.columns([(row["numbers"], row["packed"]) for row in (one, two)])
    assert numbers.tolist() == [1, 3, 9] and values.tolist() == [0.5, 2.0, -1.0]
    numbers, values = blocks.columns([])
    assert not len(numbers) and not len(values), "a measure that nobody has"
