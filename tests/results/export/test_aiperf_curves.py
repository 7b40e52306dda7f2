"""Curves over time, by hand."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from ridgeline.results.export import aiperf_curves
from ridgeline.results.export.aiperf_curves import Requests, Steps, curves

S = 1e9
NAN = float("nan")


def requests(*rows: tuple[float, float, float, float, float, list[float]]) -> Requests:
    """Start, first token, end (s), prompt and output tokens, gaps (s)."""
    columns = [np.array([row[k] for row in rows]) for k in range(5)]
    gaps = array("f", [gap * 1e3 for row in rows for gap in row[5]])
    counts = np.array([len(row[5]) for row in rows])
    return Requests(columns[0] * S, columns[1] * S, columns[2] * S, columns[3], columns[4], counts, gaps)


ONE = requests((1, 2, 4, 100, 5, [0.5, 1.0]))
TWO = requests((1, 2, 4, 100, 5, [0.5, 1.0]), (3, 4, 6, 50, 3, [2.0]))


def test_one_request_in_a_window_of_ten_seconds() -> None:
    found = curves(ONE, (0.0, 10 * S))
    assert found["effective_concurrency"]["avg"] == pytest.approx(0.3)
    assert found["effective_prefill_concurrency"]["avg"] == pytest.approx(0.1)
    assert found["effective_decode_concurrency"]["avg"] == pytest.approx(0.2)
    prefill = found["effective_prefill_throughput"]
    assert (prefill["avg"], prefill["max"], prefill["p50"], prefill["p95"]) == pytest.approx((10, 100, 0, 100))
    assert found["active_prefill_throughput"]["avg"] == pytest.approx(100), "while there is a prefill at all"
    decode = found["effective_decode_throughput"]
    assert decode["avg"] == pytest.approx(0.4), "the token of the first chunk comes at one moment and has no rate"
    assert decode["max"] == pytest.approx(4.0), "two tokens in half a second"
    assert found["active_decode_throughput"]["avg"] == pytest.approx(2.0), "over the whole decode, its tail included"
    assert found["effective_total_throughput"]["avg"] == pytest.approx(10.4)
    held = found["tokens_in_flight"]
    # 100 for a second, then 101, 103 from 2.5 s, 105 from 3.5 s to 4 s.
    assert held["avg"] == pytest.approx((100 + 101 * 0.5 + 103 + 105 * 0.5) / 10) and held["max"] == 105


def test_users_share_a_rate() -> None:
    found = curves(TWO, (0.0, 10 * S))
    assert found["effective_concurrency"]["max"] == 2
    both = curves(requests((0, 1, 3, 10, 5, []), (0, 1, 3, 10, 3, [])), (0.0, 4 * S))
    assert both["active_decode_throughput"]["avg"] == pytest.approx(3.0), "without gaps tokens come evenly"
    assert both["active_decode_throughput_per_user"]["avg"] == pytest.approx(1.5)
    assert both["active_prefill_throughput_per_user"]["avg"] == pytest.approx(10)


def test_many_gaps_count_as_even(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiperf_curves, "MOST_GAPS", 1)
    found = curves(ONE, (0.0, 10 * S))
    assert found["effective_decode_throughput"]["max"] == pytest.approx(2.0)
    assert found["tokens_in_flight"]["avg"] == pytest.approx((100 + 2 * 105) / 10)


def test_what_is_not_told_is_not_in_the_sum() -> None:
    found = curves(requests((1, 2, 4, NAN, NAN, [1.0]), (1, 2, 4, 100, 1, [])), (0.0, 10 * S))
    assert found["effective_concurrency"]["max"] == 2
    assert found["effective_decode_throughput"]["max"] == 0, "one token has no rate, an unknown number neither"
    assert found["effective_prefill_throughput"]["max"] == pytest.approx(100)
    nothing = curves(requests((1, 2, 4, NAN, NAN, [])), (5 * S, 10 * S))
    assert all(statistics["max"] == 0 for statistics in nothing.values())


def test_chunks_at_one_moment_and_at_the_very_end() -> None:
    found = curves(requests((0, 1, 2, 10, 4, [0.0, 0.5, 0.5])), (0.0, 4 * S))
    assert found["effective_decode_throughput"]["avg"] == pytest.approx(3 / 4), "no token is lost with an empty gap"
    assert found["tokens_in_flight"]["min"] == 0 and found["tokens_in_flight"]["max"] == pytest.approx(13)


def test_a_step_holds_from_its_moment_on() -> None:
    steps = Steps.between(np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([1.0, 1.0]))
    assert list(steps.on(np.array([0.9, 1.0, 2.0, 3.0, 4.0]))) == [0, 1, 2, 1, 0]
    assert list(steps.per(steps).on(np.array([0.0, 2.5, 5.0]))) == [0, 1, 0]
