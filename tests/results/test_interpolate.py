"""Monotone cubic reading: knots exactly, no overshoot between them, nothing outside."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.results.interpolate import read, slopes


def test_known_slopes() -> None:
    # Secants 1 and 3 on unit steps: the parabola has slope 2, Steffen takes (1+1) * min(1, 3, 1) = 2.
    assert slopes([0, 1, 2], [0, 1, 4]) == [pytest.approx(0.5), pytest.approx(2.0), pytest.approx(3.5)]
    assert slopes([0, 1, 2], [0, 1, 0])[1] == 0, "a turning point is flat"
    assert slopes([0, 2], [0, 6]) == [3, 3]


def test_a_straight_line_stays_straight() -> None:
    assert read([0, 1, 4], [0, 2, 8], 3).value == pytest.approx(6)
    assert read([0, 10], [5, 0], 4).value == pytest.approx(3)


def test_outside_there_is_a_reason_and_no_number() -> None:
    for at in (9.99, 30.01):
        reading = read([10, 20, 30], [3, 2, 1], at)
        assert reading.value is None and "10 to 30" in (reading.reason or "")
    assert read([], [], 1).value is None
    assert read([5], [7], 5).value == 7
    assert read([5], [7], 6).value is None


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.floats(0, 1000)), min_size=2, max_size=8),
    st.floats(0, 1),
)
def test_inner_values_stay_between_their_knots(steps: list[tuple[float, float]], t: float) -> None:
    x, y = [0.0], [sum(drop for _, drop in steps) + 1]
    for step, drop in steps:  # a falling curve, as frontiers are
        x.append(x[-1] + step)
        y.append(y[-1] - drop)
    for i in range(len(x)):
        assert read(x, y, x[i]).value == y[i]
    for i in range(1, len(x) - 2):  # the end pieces follow D3 and may leave their knots a little
        at = x[i] + t * (x[i + 1] - x[i])
        value = read(x, y, at).value
        assert value is not None
        assert min(y[i], y[i + 1]) - 1e-6 * y[0] <= value <= max(y[i], y[i + 1]) + 1e-6 * y[0]
