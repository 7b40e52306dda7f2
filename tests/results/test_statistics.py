"""Percentiles by linear interpolation, population deviation, and what is withheld."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.point import Measure
from ridgeline.results.metrics.statistics import PERCENTILES, STATISTICS, percentile, rates, samples_needed, summarise


def test_by_hand() -> None:
    values = np.array([4.0, 1.0, 3.0, 2.0])
    found = summarise(np.sort(values), "s", missing="none", withhold=False)
    assert tuple(found) == STATISTICS
    assert found["mean"].value == 2.5 and found["min"].value == 1 and found["max"].value == 4
    assert found["std"].value == pytest.approx(1.25**0.5), "population, not sample"
    assert found["p50"].value == 2.5 and found["p90"].value == pytest.approx(3.7)
    assert found["p50"].n == 4 and found["p50"].unit == "s"


@pytest.mark.parametrize(
    ("p", "n"), [(50, 10), (75, 20), (90, 50), (95, 100), (99, 500), (99.9, 5000), (25, 20), (1, 500)]
)
def test_a_percentile_needs_five_samples_beyond_it(p: float, n: int) -> None:
    assert samples_needed(p) == n
    name = f"p{p:g}"
    assert summarise(np.arange(n, dtype=float), "s", missing="")[name].value is not None
    short = summarise(np.arange(n - 1, dtype=float), "s", missing="")[name]
    assert short.value is None and f"needs {n} samples, there are {n - 1}" in (short.reason or "")
    assert summarise(np.arange(n - 1, dtype=float), "s", missing="", withhold=False)[name].value is not None


def test_nothing_measured_has_a_reason_everywhere() -> None:
    found = summarise(np.empty(0), "s", missing="no token came")
    assert {measure.reason for measure in found.values()} == {"no token came"}
    assert all(measure.value is None for measure in found.values())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40))
def test_percentiles_agree_with_numpy(values: list[float]) -> None:
    ordered = np.sort(np.array(values))
    for p in PERCENTILES:
        assert percentile(ordered, p) == pytest.approx(np.percentile(ordered, p), rel=1e-9, abs=1e-9)


def test_speeds_are_the_slow_tail_of_times() -> None:
    times = np.array([0.01] * 80 + [0.05] * 20)
    found = rates(summarise(np.sort(times), "s", missing=""), times, "tok/s")
    assert found["p50"].value == pytest.approx(100) and found["p90"].value == pytest.approx(20)
    assert found["mean"].value == pytest.approx(1 / times.mean()), "not the mean of the speeds"
    assert (found["min"].value, found["max"].value) == (pytest.approx(20), pytest.approx(100))
    assert found["std"].value == pytest.approx((1 / times).std())
    assert found["p99"].value is None and "withheld" in (found["p99"].reason or "")


def test_a_time_of_zero_has_no_speed() -> None:
    found = rates({"p50": Measure(0.0, "s", 9)}, np.zeros(9), "tok/s")
    assert found["p50"].value is None and "one chunk" in (found["p50"].reason or "")
