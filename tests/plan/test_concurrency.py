from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plan.spaces import fixed, load

from ridgeline.plan import concurrency
from ridgeline.spec.config import Space


def space(**conc: object) -> Space:
    names = {name.replace("_", "-"): value for name, value in conc.items()}
    return load(t=fixed({"tp": 8, **names}))["t"].fixed[0].spaces[0]


def test_ladder_ends_exactly_once_at_the_end() -> None:
    assert concurrency.ladder(4, 100, 2) == [4, 8, 16, 32, 64, 100]
    assert concurrency.ladder(4, 64, 2) == [4, 8, 16, 32, 64]
    assert concurrency.ladder(6, 6, 2) == [6]
    assert concurrency.ladder(1, 10, 3) == [1, 3, 9, 10]


@given(st.integers(1, 5000), st.integers(0, 5000), st.integers(2, 9))
@settings(max_examples=50, deadline=None)
def test_ladder_rises_from_start_to_end(start: int, more: int, step: int) -> None:
    values = concurrency.ladder(start, start + more, step)
    assert values[0] == start
    assert values[-1] == start + more
    assert values == sorted(set(values))
    assert all(b == a * step for a, b in itertools.pairwise(values[:-1]))


RANGE = {"conc_start": 4, "conc_end": 64}


@pytest.mark.parametrize(
    ("conc", "low", "high", "values"),
    [
        (RANGE, None, None, [4, 8, 16, 32, 64]),
        (RANGE, 5, None, [5, 10, 20, 40, 64]),
        (RANGE, 65, None, []),
        (RANGE, None, 20, [4, 8, 16, 20]),
        (RANGE, None, 3, [3]),
        (RANGE, 0, None, []),
        (RANGE, -1, None, []),
        (RANGE, None, 0, []),
        ({"conc_list": [32, 8, 8]}, None, None, [32, 8, 8]),
        ({"conc_list": [32, 8, 8]}, 9, None, [32]),
        ({"conc_list": [32, 8, 8]}, 33, None, []),
        ({"conc_list": [32, 8, 8]}, None, 7, [7]),
        ({"conc_list": [32, 8, 8]}, None, 8, [8, 8]),
        ({"conc_list": [32, 8, 8]}, 0, None, []),
        ({"conc_list": [32, 8, 8]}, None, 0, []),
    ],
)
def test_single_node_fixed_bounds(
    conc: dict[str, object], low: int | None, high: int | None, values: list[int]
) -> None:
    assert concurrency.single_fixed(space(**conc), 2, low, high) == values


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (None, None, [4, 8, 16, 32, 64]),
        (5, None, [8, 16, 32, 64]),
        (65, None, []),
        (None, 20, [4, 8, 16]),
        (None, 3, [3]),
        (None, 0, []),
        (0, None, []),
    ],
)
def test_multi_node_fixed_bounds_cut_the_ladder(low: int | None, high: int | None, values: list[int]) -> None:
    assert concurrency.multi_fixed(space(**RANGE), 2, low, high) == values


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [(None, None, [4, 8, 16, 32, 64]), (0, None, [4, 8, 16, 32, 64]), (5, 20, [8, 16]), (None, 3, []), (None, 0, [])],
)
def test_agentic_bounds_only_cut(low: int | None, high: int | None, values: list[int]) -> None:
    assert concurrency.agentic(space(**RANGE), 2, low, high) == values


def test_an_empty_list_beside_a_range() -> None:
    both = space(**RANGE, conc_list=[])
    assert concurrency.written(both, 2) == [4, 8, 16, 32, 64]
    assert concurrency.written(both, 2, list_wins=True) == []


def test_chosen_keeps_the_order_of_the_values() -> None:
    assert concurrency.chosen([32, 8, 8, 4], [4, 8]) == [8, 8, 4]
    assert concurrency.chosen([32, 8], []) == [32, 8]
