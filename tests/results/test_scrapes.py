"""Counters and gauges over a window: restarts, gaps, mirrors, late-born series."""

from __future__ import annotations

import pytest
from tests.results.builders import S, sample

from ridgeline.core.record import ServerSample
from ridgeline.results.metrics.scrapes import Quantile, Scrapes, quantile

WINDOW = (0.0, 100.0 * S)
HITS = "x_hits_total"


def counter(values: list[tuple[float, float]], endpoint: str = "a") -> list[ServerSample]:
    return [sample(t, endpoint, **{HITS: v}) for t, v in values]


def scrapes(*groups: list[ServerSample]) -> Scrapes:
    return Scrapes(sorted((s for group in groups for s in group), key=lambda s: s.at_ns))


def test_the_window_takes_the_scrapes_around_it() -> None:
    inside = scrapes(counter([(-50, 1), (-10, 5), (50, 20), (101, 30), (150, 99)]))
    assert inside.increase((HITS,), WINDOW) == 25
    assert scrapes(counter([(10, 5), (50, 20), (90, 22)])).increase((HITS,), WINDOW) == 17
    assert scrapes(counter([(10, 5)])).increase((HITS,), WINDOW) is None
    assert scrapes().increase((HITS,), WINDOW) is None
    assert inside.increase(("missing", HITS), WINDOW) == 25


def test_a_restart_goes_on_from_zero() -> None:
    assert scrapes(counter([(0, 90), (10, 100), (20, 7), (100, 10)])).increase((HITS,), WINDOW) == 10 + 7 + 3


def test_a_failed_scrape_is_a_gap_and_not_zero() -> None:
    gap = [ServerSample(at_ns=5 * S, endpoint="a", values=None)]
    found = scrapes(counter([(0, 10), (100, 30)]), gap)
    assert found.increase((HITS,), WINDOW) == 20 and found.failed == 1


def test_a_series_born_inside_the_window_began_at_zero() -> None:
    born = [sample(0, "a", other=1.0), *counter([(50, 8), (100, 12)])]
    assert scrapes(born).increase((HITS,), WINDOW) == 12


def test_ranks_and_workers_add_up_and_mirrors_do_not() -> None:
    worker_1 = counter([(0, 0), (10, 100), (20, 210), (30, 330), (99, 400)])
    worker_2 = counter([(0.1, 0), (10.1, 40), (20.1, 41), (30.1, 300), (99.1, 350)], "b")
    assert scrapes(worker_1, worker_2).increase((HITS,), WINDOW) == 750
    router = counter([(0.2, 0), (10.2, 100), (20.2, 210), (30.2, 335), (99.2, 400)], "r")
    assert scrapes(worker_1, router).increase((HITS,), WINDOW) == 400
    assert scrapes(worker_1, worker_2, router).increase((HITS,), WINDOW) == 750


def test_two_workers_with_few_scrapes_are_not_called_mirrors() -> None:
    a, b = counter([(0, 0), (100, 100)]), counter([(0.1, 0), (100.1, 120)], "b")
    assert scrapes(a, b).increase((HITS,), WINDOW) == 220


def test_a_mirror_is_left_out_of_gauges_too() -> None:
    def page(t: float, endpoint: str) -> ServerSample:
        return sample(t, endpoint, **{HITS: 10 * t, "queue": 4.0})

    times = (0.0, 10.0, 20.0, 30.0)
    both = scrapes([page(t, "a") for t in times], [page(t, "b") for t in times])
    level = both.level(("queue",), WINDOW)
    assert level is not None and (level.sum_mean, level.series) == (4.0, 1)


def test_a_gauge_over_ranks() -> None:
    rows = [
        ServerSample(at_ns=int(t * S), endpoint="a", values={'kv{engine="0"}': x, 'kv{engine="1"}': y})
        for t, x, y in ((10, 0.2, 0.4), (20, 0.6, 0.1), (200, 1.0, 1.0))
    ]
    level = scrapes(rows).level(("kv",), WINDOW)
    assert level is not None
    assert level.mean == pytest.approx((0.4 + 0.25) / 2) and level.peak == 0.6
    assert level.sum_peak == pytest.approx(0.7) and level.series == 2
    assert scrapes(rows).level(("kv",), (30.0 * S, 40.0 * S)) is None


def test_labels_choose_series() -> None:
    rows = [
        ServerSample(
            at_ns=t * S, endpoint="a", values={'c_total{source="gpu"}': 1.0 * t, 'c_total{source="cpu"}': 3.0 * t}
        )
        for t in (0, 100)
    ]
    assert scrapes(rows).increase(("c_total",), WINDOW, 'source="cpu"') == 300
    assert scrapes(rows).increase(("c_total",), WINDOW) == 400


def buckets(at_s: float, counts: tuple[float, ...], rank: int = 0) -> ServerSample:
    bounds = ("0.1", "0.5", "1.0", "+Inf")
    values = {f'h_bucket{{engine="{rank}",le="{b}"}}': c for b, c in zip(bounds, counts, strict=True)}
    return ServerSample(at_ns=int(at_s * S), endpoint=f"e{rank}", values=values)


def test_a_quantile_of_the_increase_and_beyond_the_last_bound() -> None:
    rows = [buckets(0, (10, 20, 20, 20)), buckets(100, (10, 20, 60, 100))]
    found = scrapes(rows).histogram(("h",), WINDOW)
    assert found == [(0.1, 0), (0.5, 0), (1.0, 40), (float("inf"), 80)]
    assert quantile(found, 0.5) == Quantile(1.0), "the rank lies on the bucket's upper bound"
    assert quantile(found, 0.25) == Quantile(0.75)
    assert quantile(found, 0.95) == Quantile(None, above=1.0), "more than 1, not 1"
    assert quantile([], 0.5) == Quantile(None) == quantile([(1.0, 0.0)], 0.5)


def test_histograms_of_ranks_add_up() -> None:
    first = [buckets(0, (0, 0, 0, 0)), buckets(100, (4, 4, 4, 4))]
    second = [buckets(0, (1, 1, 1, 1), 1), buckets(100, (1, 1, 5, 5), 1)]
    found = scrapes(first, second).histogram(("missing", "h"), WINDOW)
    assert found == [(0.1, 4), (0.5, 4), (1.0, 8), (float("inf"), 8)]
