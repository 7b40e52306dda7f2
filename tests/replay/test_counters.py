from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.replay.counters import Bound, histogram_increase, histogram_quantile, increase, ratio_of_sums

INF = math.inf


@pytest.mark.parametrize(
    ("samples", "grown"),
    [
        ([1.0, 4.0, 9.0], 8.0),
        ([5.0, 9.0, 2.0, 3.0], 7.0),  # restarted: 4, then 2, then 1
        ([5.0, None, 9.0, None], 4.0),
        ([3.0, 3.0], 0.0),
        ([3.0], None),
        ([None, None], None),
        ([], None),
        ([1.0, math.nan, 2.0], 1.0),
    ],
)
def test_increase_knows_resets_and_gaps(samples: list[float | None], grown: float | None) -> None:
    assert increase(samples) == grown


def test_quantiles_of_a_histogram_delta() -> None:
    before = {0.1: 10.0, 0.5: 20.0, 1.0: 20.0, INF: 20.0}
    after = {0.1: 10.0, 0.5: 20.0, 1.0: 60.0, INF: 100.0}
    grown = histogram_increase([before, None, after])
    assert grown == {0.1: 0.0, 0.5: 0.0, 1.0: 40.0, INF: 80.0}
    assert histogram_quantile(grown, 0.5) == Bound(1.0, open=False)
    assert str(histogram_quantile(grown, 0.95)) == "> 1"
    assert histogram_quantile(grown, 0.25) == Bound(0.75, open=False)


def test_a_histogram_without_growth_says_nothing() -> None:
    same = {1.0: 5.0, INF: 5.0}
    assert histogram_increase([same]) is None
    grown = histogram_increase([same, same])
    assert grown is not None and histogram_quantile(grown, 0.5) is None
    assert histogram_quantile({}, 0.5) is None


def test_a_restart_in_the_window_is_counted_from_zero() -> None:
    assert histogram_increase([{1.0: 50.0, INF: 90.0}, {1.0: 2.0, INF: 3.0}]) == {1.0: 2.0, INF: 3.0}


def test_a_share_out_of_range_is_a_bug() -> None:
    with pytest.raises(ValueError, match=r"0\.\.1"):
        histogram_quantile({1.0: 1.0}, 1.5)


@given(st.lists(st.integers(0, 9), min_size=3, max_size=6), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_and_stay_inside_the_bounds(counts: list[int], one: float, other: float) -> None:
    total, cumulative = 0, {}
    for bound, count in zip([*range(1, len(counts)), INF], counts, strict=True):
        total += count
        cumulative[float(bound)] = float(total)
    found = [histogram_quantile(cumulative, share) for share in sorted((one, other))]
    if total == 0:
        assert found == [None, None]
        return
    values = [bound for bound in found if bound is not None]
    assert len(values) == 2 and all(0 <= bound.value <= len(counts) - 1 for bound in values)
    assert all(low.value <= high.value for low, high in pairwise(values))


def test_ratio_of_sums_weighs_by_size() -> None:
    assert ratio_of_sums([(9.0, 10.0), (0.0, 90.0)]) == pytest.approx(0.09)
    assert ratio_of_sums([(9.0, 10.0), (None, 90.0), (1.0, None)]) == pytest.approx(0.9)
    assert ratio_of_sums([(0.0, 0.0)]) is None and ratio_of_sums([]) is None
