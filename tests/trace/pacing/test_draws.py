import itertools
import statistics

import pytest
from tests.trace.oracle import expected

from ridgeline.core.units import SECOND
from ridgeline.trace.pacing.draws import arrival_gaps, permutation, start_seed, start_time, start_turn


def test_the_published_vectors_of_the_start_draw() -> None:
    assert start_seed(42, "trace_0012", 0) == 471509553059106708
    assert start_seed(42, "trace_0012", 1) == 11487497081389507528
    assert start_time(42, "trace_0012", 0, 0.25, 0.75) == 0.4191973527772279
    assert start_time(42, "trace_0012", 1, 0.25, 0.75) == 0.4615105099509603


def test_every_recorded_start_draw_of_the_peer() -> None:
    drawn = 0
    for row in expected().values():
        for lane, draw in row["t_star_u01"].items():
            assert start_time(42, row["trace_id"], int(lane), 0.0, 1.0) == draw
            drawn += 1
    assert drawn > 100


def test_draws_depend_on_seed_session_and_lane() -> None:
    draws = {start_time(seed, id, lane, 0, 1) for seed in (1, 2) for id in "ab" for lane in (0, 1)}
    assert len(draws) == 8
    assert {start_turn(seed, "a", 0, 3, 5) for seed in range(60)} == {3, 4, 5}


def test_every_round_of_a_shuffled_pool_has_its_own_order() -> None:
    rounds = [permutation(42, 20, round_) for round_ in range(3)]
    assert all(sorted(order) == list(range(20)) for order in rounds)
    assert rounds[0] != rounds[1] != rounds[2]
    assert permutation(42, 20, 0) == rounds[0]


def gaps(count: int, rate: float, *how: object) -> list[int]:
    return list(itertools.islice(arrival_gaps(7, rate, *how), count))  # type: ignore[arg-type]


def test_constant_arrivals_do_not_drift() -> None:
    third = gaps(3000, 3.0, "constant", 1.0)
    assert sum(third) == 1000 * SECOND
    assert set(third) <= {333333333, 333333334}


def test_an_infinite_rate_has_no_gaps() -> None:
    assert gaps(5, float("inf"), "poisson", 1.0) == [0] * 5


@pytest.mark.parametrize(
    ("arrivals", "burstiness", "variation"),
    [("poisson", 9.0, 1.0), ("gamma", 1.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4.0, 0.5)],
)
def test_gaps_have_the_asked_mean_and_spread(arrivals: str, burstiness: float, variation: float) -> None:
    # A gamma variable of shape k has mean 1/rate and coefficient of variation 1/sqrt(k).
    drawn = gaps(20000, 5.0, arrivals, burstiness)
    mean = statistics.fmean(drawn)
    assert mean == pytest.approx(0.2 * SECOND, rel=0.05)
    assert statistics.pstdev(drawn) / mean == pytest.approx(variation, rel=0.05)
    assert drawn == gaps(20000, 5.0, arrivals, burstiness)
