from __future__ import annotations

import pickle
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.trace.blocks import BlockIds

ids = st.lists(st.integers(-5, 5), max_size=12)


@given(ids, ids)
def test_common_prefix_is_what_comparing_one_by_one_gives(left: list[int], right: list[int]) -> None:
    expected = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    assert BlockIds.of(left).common(right) == expected
    assert BlockIds.of(left).starts_with(BlockIds.of(right)) == (left[: len(right)] == right)


@given(ids, st.integers(-14, 14), st.integers(-14, 14), st.integers(1, 3))
def test_it_is_the_sequence_it_was_made_of(items: list[int], start: int, stop: int, step: int) -> None:
    found = BlockIds.of(items)
    assert list(found) == items
    assert len(found) == len(items)
    assert list(found[start:stop:step]) == items[start:stop:step]
    assert found == tuple(items)
    assert hash(found) == hash(tuple(items))
    assert found.numpy().tolist() == items


def test_windows_share_their_array_and_know_their_length() -> None:
    whole = BlockIds(array("q", range(10)))
    window = whole[:4]
    assert isinstance(window, BlockIds) and window.base is whole.base
    assert whole.common(window) == 4
    assert list(window) == [0, 1, 2, 3]
    with pytest.raises(IndexError):
        window[4]
    assert window[-1] == 3


def test_ids_beyond_signed_64_bits_are_kept() -> None:
    large = BlockIds.of([2**64 - 1, 7])
    assert list(large) == [2**64 - 1, 7]
    assert large.numpy().tolist() == [2**64 - 1, 7]


def test_pickling_keeps_the_ids_even_of_a_mapped_file() -> None:
    for base in (array("q", [1, 2, 3]), memoryview(array("q", [1, 2, 3]))):
        assert pickle.loads(pickle.dumps(BlockIds(base, 2))) == (1, 2)
