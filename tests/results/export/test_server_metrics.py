"""The servers' pages over the measured phase, in AIPerf's form."""

from __future__ import annotations

import dataclasses
import gzip
import json

import pytest
from tests.golden import golden

from ridgeline.core.record import Phases, Replay, ServerSample
from ridgeline.results.export.server_metrics import server_metrics

S = 10**9
WALL = 1_700_000_000 * S


def scrape(at_s: float, url: str = "http://a/metrics", **values: float) -> ServerSample:
    named = {name.replace("__", ":"): value for name, value in values.items()}
    return ServerSample(at_ns=round(at_s * S), endpoint=url, values=named, took_ns=5_000_000)


def replay(*samples: ServerSample) -> Replay:
    phases = Phases(start_ns=0, profiling_start_ns=2 * S, profiling_end_ns=5 * S, drained_ns=6 * S)
    return Replay(records=(), phases=phases, samples=samples)


def test_counters_grow_through_restarts_and_their_slices_share_nothing() -> None:
    values = {0.5: 3, 1.9: 10, 2.5: 14, 4.5: 20, 5.5: 5, 6.2: 6}  # it restarts between 4.5 and 5.5
    found = server_metrics(replay(*(scrape(at, v__done_total=v) for at, v in values.items())), WALL)
    entry = found["metrics"]["v:done"]
    (series,) = entry["series"]
    assert entry["type"] == "counter" and "labels" not in series
    assert series["stats"]["total"] == 4 + 6 + 5 + 1 and series["stats"]["rate"] == 16 / 4
    slices = {(one["start_ns"] - WALL) // S: one["total"] for one in series["timeslices"]}
    assert slices == {2: 4, 4: 6, 5: 5}, "no scrape fell into the second at 3: a gap, not a zero"
    assert found["warmup_metrics"]["v:done"]["series"][0]["stats"]["total"] == 11
    assert "timeslices" not in found["warmup_metrics"]["v:done"]["series"][0]


def test_gauges_are_distributions_over_the_scrapes_inside() -> None:
    found = server_metrics(replay(*(scrape(at, running=v) for at, v in ((1, 99), (2.2, 1), (2.8, 3), (4, 8)))), WALL)
    (series,) = found["metrics"]["running"]["series"]
    assert (series["stats"]["avg"], series["stats"]["max"], series["stats"]["p50"]) == (4, 8, 3)
    assert [(one["avg"], one["max"]) for one in series["timeslices"]] == [(2, 3), (8, 8)]


def test_histograms_are_differences_with_open_ends_left_open() -> None:
    def page(at: float, *counts: float) -> ServerSample:
        bounds = ("0.1", "0.5", "1", "+Inf")
        values = {f'wait_seconds_bucket{{le="{b}",m="x"}}': c for b, c in zip(bounds, counts, strict=True)}
        more = {'wait_seconds_sum{m="x"}': counts[-1], 'wait_seconds_count{m="x"}': counts[-1]}
        return ServerSample(at_ns=round(at * S), endpoint="http://a/metrics", values=values | more)

    found = server_metrics(replay(page(1, 10, 20, 20, 20), page(7, 10, 20, 60, 100)), WALL)
    entry = found["metrics"]["wait_seconds"]
    (series,) = entry["series"]
    assert (entry["type"], entry["unit"], series["labels"]) == ("histogram", "seconds", {"m": "x"})
    assert series["buckets"] == {"0.1": 0, "0.5": 0, "1": 40, "+Inf": 80}
    assert "timeslices" not in series, "no scrape lies inside the window"
    stats = series["stats"]
    assert (stats["count"], stats["sum"], stats["avg"], stats["p50_estimate"]) == (80, 80, 1, 1)
    assert "p95_estimate" not in stats, "it lies above the last bound"


def test_slices_of_a_histogram_hold_what_was_counted_in_them() -> None:
    def page(at: float, quick: int, all_: int) -> ServerSample:
        values = {'t_seconds_bucket{le="1"}': quick, 't_seconds_bucket{le="+Inf"}': all_, "t_seconds_count": all_}
        return ServerSample(
            at_ns=round(at * S), endpoint="http://a/metrics", values=values | {"t_seconds_sum": 2.0 * all_}
        )

    found = server_metrics(
        replay(page(1, 0, 0), page(2.5, 1, 3), page(3.5, 1, 3), page(4.5, 2, 4), page(7, 2, 4)), WALL
    )
    (series,) = found["metrics"]["t_seconds"]["series"]
    first, second = series["timeslices"]
    assert (first["start_ns"], first["count"], first["sum"], first["avg"]) == (WALL + 2 * S, 3, 6, 2)
    assert first["buckets"] == {"1": 1, "+Inf": 3}
    assert second["start_ns"] == WALL + 4 * S, "nothing was counted in the second at 3, so there is no average of it"
    assert series["stats"]["count"] == 4 and isinstance(series["stats"]["count"], int)


def test_what_pages_say_is_the_description_and_tells_counters_without_a_suffix() -> None:
    rows = [scrape(at, frontend_requests=10.0 * at, running=1.0, done_total=at) for at in range(8)]
    pages = {"frontend_requests": ["counter", "Requests."], "running": ["gauge", "Now."], "done": ["unknown", "Done."]}
    found = server_metrics(dataclasses.replace(replay(*rows), settings={"metrics_pages": pages}), WALL)["metrics"]
    assert {name: (entry["type"], entry["description"]) for name, entry in found.items()} == {
        "frontend_requests": ("counter", "Requests."), "running": ("gauge", "Now."), "done": ("counter", "Done."),
    }  # fmt: skip
    assert found["frontend_requests"]["series"][0]["stats"]["total"] == 40


def test_mirrors_are_listed_once_and_failures_are_gaps() -> None:
    rows = [
        scrape(at, url, v__x_total=10 * at + 1) for at in range(7) for url in ("http://a/metrics", "http://b/metrics")
    ]
    failed = ServerSample(at_ns=3 * S, endpoint="http://c/metrics", values=None)
    found = server_metrics(replay(*rows, failed), WALL)
    assert [one["endpoint_url"] for one in found["metrics"]["v:x"]["series"]] == ["http://a/metrics"]
    summary = found["summary"]
    assert summary["endpoints_successful"] == ["http://a/metrics", "http://b/metrics"]
    assert set(summary["endpoints_configured"]) - set(summary["endpoint_info"]) == {"http://c/metrics"}
    assert summary["phase_time_ranges"]["profiling"] == {"start_ns": WALL + 2 * S, "end_ns": WALL + 6 * S}


@pytest.mark.parametrize("run", ["v13-mini-n2", "fork-subagents-n2"])
def test_keys_are_those_of_a_recorded_export(run: str) -> None:
    theirs = json.loads(gzip.decompress(golden(f"traces/oracle/live/{run}/server_metrics_export.json.gz").read_bytes()))
    rows = [scrape(at, vllm__num_requests_running=at % 3, vllm__prompt_tokens_total=100 * at) for at in range(8)]
    endpoint, pacing = {"url": "http://a"}, {"benchmark_id": "b", "concurrency": 2, "seed": 1}
    ours = server_metrics(dataclasses.replace(replay(*rows), settings={"endpoint": endpoint, "pacing": pacing}), WALL)
    assert ours["schema_version"] == theirs["schema_version"]
    assert set(theirs) - set(ours) == {"aiperf_version"}, "no AIPerf wrote it"
    assert set(theirs["summary"]) == set(ours["summary"])
    (info,), (known,) = ours["summary"]["endpoint_info"].values(), theirs["summary"]["endpoint_info"].values()
    assert set(known) == set(info) and info["avg_fetch_latency_ms"] == 5.0
    gauge, theirs_gauge = (each["metrics"]["vllm:num_requests_running"] for each in (ours, theirs))
    assert set(gauge) == set(theirs_gauge) and gauge["unit"] == theirs_gauge["unit"]
    assert set(gauge["series"][0]["stats"]) == set(theirs_gauge["series"][0]["stats"])
    assert set(gauge["series"][0]["timeslices"][0]) == set(theirs_gauge["series"][0]["timeslices"][0])
