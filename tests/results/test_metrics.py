"""Every metric against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.results.builders import MS, S, cell, failed, record, replay, sample

from ridgeline.core.errors import InputError
from ridgeline.core.point import Measure, Source
from ridgeline.core.record import Outcome, Phases, Record, Replay, ServerSample
from ridgeline.results import records
from ridgeline.results.aggregate import aggregate, measures_of, scope_of
from ridgeline.results.metrics import METRICS, Slo, axis, metric_of


def measures(rows: list[Record], concurrency: int = 1, gpus: int = 2, slo: Slo | None = None, **changes: Any) -> Any:
    scope, _ = scope_of(replay(rows, **changes), gpus=gpus, cell=cell(concurrency), slo=slo)
    return measures_of(scope, withhold=False)


def value(found: dict[str, Measure], name: str) -> float:
    measure = found[name]
    assert measure.value is not None, f"{name}: {measure.reason}"
    return measure.value


def test_the_latencies_of_one_request() -> None:
    found = measures([record()])
    expected = {
        "ttfb.mean": 0.040,
        "ttft.mean": 0.050,
        "ttft_visible.mean": 0.060,
        "ttst.mean": 0.010,
        "icl.mean": 0.010,
        "e2e_latency.mean": 0.150,
        "decode_duration.mean": 0.100,
        "itl.mean": 0.010,
        "tpot.mean": 0.010,
        "interactivity.mean": 100.0,
        "e2e_interactivity.mean": 11 / 0.150,
        "prefill_throughput.mean": 2000.0,
        "send_lag.mean": 0.001,
        "tokens_per_chunk.mean": 1.0,
    }
    for name, number in expected.items():
        assert value(found, name) == pytest.approx(number, rel=1e-6), name
    assert found["icl.mean"].n == 10


def test_itl_and_tpot_part_when_chunks_hold_several_tokens() -> None:
    # 11 tokens in 3 chunks: 5 at 50 ms, then 3 and 3 until 150 ms.
    chunks = tuple(t * MS for t in (50, 100, 150))
    found = measures([record(chunks=3, first_chunk_tokens=5, chunk_ns=chunks)])
    assert value(found, "itl.mean") == pytest.approx(0.100 / 10)
    assert value(found, "tpot.mean") == pytest.approx(0.100 / 6)
    assert value(found, "icl.mean") == pytest.approx(0.050)
    assert value(found, "tokens_per_chunk.mean") == pytest.approx(11 / 3)


def test_tpot_without_a_first_chunk_count_needs_one_token_a_chunk() -> None:
    assert value(measures([record(first_chunk_tokens=None)]), "tpot.mean") == pytest.approx(0.010)
    gone = measures([record(first_chunk_tokens=None, chunks=7)])["tpot.mean"]
    assert gone.value is None and gone.reason
    whole = measures([record(first_chunk_tokens=11, chunks=1)])["tpot.mean"]
    assert whole.value is None, "all tokens in the first chunk: nothing after it to time"


def test_zero_and_one_token_have_no_itl_and_are_counted() -> None:
    one = record(1, completion_tokens=1, chunks=1, first_chunk_tokens=1, last_token_ns=50 * MS, chunk_ns=(50 * MS,))
    empty = failed(2, outcome=Outcome.EMPTY, status=200)
    found = measures([one, empty])
    assert value(found, "ttft.mean") == pytest.approx(0.050)
    for name in ("itl.mean", "tpot.mean", "interactivity.mean", "icl.mean", "ttst.mean"):
        assert found[name].value is None and found[name].reason, name
    assert value(found, "requests.empty") == 1 and value(found, "error_rate") == 0.5


def test_missing_visible_content_is_left_out_not_zero() -> None:
    found = measures([record(0, first_visible_ns=None), record(1)])
    assert found["ttft_visible.mean"].n == 1
    gone = measures([record(first_visible_ns=None)])["ttft_visible.p50"]
    assert gone.value is None and "visible" in (gone.reason or "")


def test_failures_are_neither_fast_successes_nor_lost() -> None:
    rows = [
        record(0),
        failed(1),
        failed(2, outcome=Outcome.TIMEOUT),
        failed(3, outcome=Outcome.CANCELLED),
        failed(4, outcome=Outcome.OVERFLOW),
        record(5, phase="warmup"),
        failed(6, phase="warmup"),
    ]
    found = measures(rows)
    counts = {name: value(found, f"requests.{name}") for name in ("total", "good", "ok", "http_error", "timeout")}
    assert counts == {"total": 5, "good": 1, "ok": 1, "http_error": 1, "timeout": 1}
    assert value(found, "requests.warmup") == 2
    assert value(found, "error_rate") == pytest.approx(2 / 3), "cancelled and overflow are not errors"
    assert value(found, "overflow_rate") == pytest.approx(1 / 4)
    assert found["e2e_latency.mean"].n == 1 and value(found, "e2e_latency.mean") == pytest.approx(0.150)
    # {0.05, inf, inf}: p25 is nearest to the success, p50 lies among the failures.
    assert value(found, "ttft_adjusted.p25") == pytest.approx(0.050)
    assert found["ttft_adjusted.p50"].value is None
    assert "2 of 3 requests failed" in (found["ttft_adjusted.p50"].reason or "")


def test_times_out_of_order_are_kept_out() -> None:
    rows = [record(0), record(1, first_token_ns=200 * MS), record(2, last_token_ns=20 * MS)]
    found = measures(rows)
    assert value(found, "requests.disordered") == 2 and value(found, "requests.good") == 1
    assert found["ttft.mean"].n == 1


def test_throughput_over_the_full_window() -> None:
    rows = [record(0, 0), record(1, int(1.849 * S), prompt_tokens=300)]  # last end at 2.0 s
    found = measures(rows, gpus=4)
    assert value(found, "duration") == pytest.approx(2.0)
    assert value(found, "throughput.input") == pytest.approx(400 / 2)
    assert value(found, "throughput.output") == pytest.approx(22 / 2)
    assert value(found, "throughput.total") == pytest.approx(211)
    assert value(found, "throughput_per_gpu.total") == pytest.approx(211 / 4)
    assert value(found, "request_rate") == pytest.approx(1.0)
    assert value(found, "tokens.output") == 22


def test_no_usage_means_no_token_throughput_but_a_request_rate() -> None:
    found = measures([record(0, prompt_tokens=None, completion_tokens=None)])
    for name in ("throughput.output", "throughput.total", "tokens.input", "output_tokens.mean"):
        assert found[name].value is None and "report" in (found[name].reason or ""), name
    assert value(found, "request_rate") > 0


def test_nothing_at_all_has_reasons_everywhere() -> None:
    found = measures([])
    assert set(found) == {name for metric in METRICS.values() for name in metric.measures}
    for name, measure in found.items():
        if measure.value is None:
            assert measure.reason, name
        else:
            assert name.startswith("requests.") and measure.value == 0


def test_steady_window_leaves_out_ramp_and_drain() -> None:
    # Two lanes: lane 0 works 0..10 s, lane 1 works 4..10 s; one request of a second each, 100 output tokens.
    def job(i: int, lane: int, at: float) -> Record:
        start = int(at * S)
        return record(
            i,
            start,
            lane=lane,
            tree=i,
            first_byte_ns=start,
            first_token_ns=start,
            last_token_ns=start + S,
            end_ns=start + S,
            completion_tokens=100,
            chunk_ns=(),
        )

    rows = [job(i, 0, i) for i in range(10)] + [job(10 + i, 1, 4 + i) for i in range(6)]
    found = measures(rows, concurrency=2, end_s=10.0)
    assert value(found, "steady_duration") == pytest.approx(6.0)
    assert value(found, "throughput_steady.output") == pytest.approx(200.0)
    assert value(found, "throughput.output") == pytest.approx(160.0)
    assert value(found, "throughput_steady.input") == pytest.approx((2 * 6) * 100 / 6)
    assert value(found, "throughput_per_gpu_steady.output") == pytest.approx(100.0)
    never = measures(rows, concurrency=3, end_s=10.0)["throughput_steady.output"]
    assert never.value is None and "never were 3 of 3 lanes held" in (never.reason or "")


def test_think_time_inside_a_tree_and_handing_over_hold_a_lane() -> None:
    # One lane: a tree with two turns 20 s apart, then the next tree 0.5 s later.
    rows = [record(0, 0, tree=1), record(1, 20 * S, tree=1), record(2, 20 * S + 650 * MS, tree=2)]
    found = measures(rows, end_s=21.0)
    assert value(found, "steady_duration") == pytest.approx(20.801, abs=1e-3)
    later = [record(0, 0, tree=1), record(2, 15 * S, tree=2)]  # the lane stands empty for 15 s
    assert value(measures(later, end_s=21.0), "steady_duration") == pytest.approx(0.151, abs=1e-3)


def test_goodput_needs_a_service_level() -> None:
    rows = [record(0), record(1, first_token_ns=90 * MS, chunk_ns=()), record(2, 849 * MS)]
    none = measures(rows)["goodput"]
    assert none.value is None and "no service level" in (none.reason or "")
    assert value(measures(rows, slo=Slo(ttft_s=0.06)), "goodput") == pytest.approx(2.0)
    assert value(measures(rows, slo=Slo(itl_s=0.008)), "goodput") == pytest.approx(1.0)
    assert value(measures(rows, slo=Slo(ttft_s=0.06, e2e_s=0.1)), "goodput") == 0.0


def test_prompt_differences() -> None:
    found = measures([record(0, asked_prompt_tokens=90), record(1), record(2, asked_prompt_tokens=None)])
    assert value(found, "prompt_difference.mean") == pytest.approx(5.0)
    assert value(found, "prompt_drift") == pytest.approx(200 / 190 - 1)


def test_cache_hits_are_ratios_of_sums() -> None:
    rows = [
        record(0, cached_tokens=90),
        record(1, prompt_tokens=300, asked_prompt_tokens=300, cached_tokens=0, theoretical_hit_blocks=0),
        record(2, cached_tokens=None),
    ]
    counters = [
        sample(-1, vllm__prefix_cache_hits_total=1000.0, vllm__prefix_cache_queries_total=5000.0),  # warm-up
        sample(30, vllm__prefix_cache_hits_total=1010.0, vllm__prefix_cache_queries_total=5100.0),
        sample(61, vllm__prefix_cache_hits_total=1120.0, vllm__prefix_cache_queries_total=5400.0),
        sample(80, vllm__prefix_cache_hits_total=9999.0, vllm__prefix_cache_queries_total=9999.0),  # somebody else's
    ]
    found = measures(rows, samples=tuple(counters))
    assert value(found, "usage_cache_hit") == pytest.approx(90 / 400)
    assert value(found, "theoretical_cache_hit") == pytest.approx(6 / 12)
    assert value(found, "server_cache_hit") == pytest.approx(120 / 400)
    assert value(found, "cache_hit_gap") == pytest.approx(0.2)


def test_sglang_names_and_an_engine_that_never_hit() -> None:
    rows = [record(0)]
    hits = {'sglang:cached_tokens_total{cache_source="device"}': 50.0}
    before = ServerSample(at_ns=0, endpoint="e", values={"sglang:prompt_tokens_total": 0.0})
    after = ServerSample(at_ns=61 * S, endpoint="e", values={"sglang:prompt_tokens_total": 200.0})
    hit = ServerSample(at_ns=61 * S, endpoint="e", values={"sglang:prompt_tokens_total": 200.0} | hits)
    assert value(measures(rows, samples=(before, after)), "server_cache_hit") == 0.0
    assert value(measures(rows, samples=(before, hit)), "server_cache_hit") == pytest.approx(0.25)


def test_counts_of_client_and_server() -> None:
    counters = (
        sample(0, vllm__generation_tokens_total=5.0, vllm__prompt_tokens_total=0.0),
        sample(61, vllm__generation_tokens_total=25.0, vllm__prompt_tokens_total=100.0),
    )
    found = measures([record(0)], samples=counters)
    assert value(found, "count_difference.output") == pytest.approx(11 / 20 - 1)
    assert value(found, "count_difference.input") == 0.0
    assert measures([record(0)])["count_difference.input"].reason


def test_counts_agree_where_the_scrapes_leave_room_for_it() -> None:
    """Warm-up tokens that were counted after the last scrape before the window belong to nobody's difference."""
    at = [(-1, 5.0), (1, 14.0), (30, 20.0), (61, 25.0)]
    counters = tuple(sample(second, vllm__generation_tokens_total=total) for second, total in at)
    assert value(measures([record(0)], samples=counters), "count_difference.output") == 0.0
    behind = tuple(sample(second, vllm__generation_tokens_total=10 * total) for second, total in at)
    least = 10 * (25 - 14)
    assert value(measures([record(0)], samples=behind), "count_difference.output") == pytest.approx(11 / least - 1)


def test_kv_use_names_mean_and_peak() -> None:
    scrapes = tuple(
        sample(t, vllm__kv_cache_usage_perc=v, vllm__num_requests_waiting=10 * v)
        for t, v in ((-5, 1.0), (1, 0.2), (2, 0.9), (3, 0.4), (99, 1.0))
    )
    found = measures([record(0)], samples=scrapes)
    assert value(found, "kv_usage.mean") == pytest.approx(0.5) and value(found, "kv_usage.peak") == 0.9
    assert value(found, "queue_depth.mean") == pytest.approx(5.0) and value(found, "queue_depth.peak") == 9.0
    assert found["preemptions"].value is None


@pytest.mark.parametrize(
    ("pools", "mean"),
    [
        ((2000, 6000), 0.3),  # by size: 0.25 * 0.9 + 0.75 * 0.1
        ((2000, None), 0.5),  # a size is not shown: equally
    ],
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_kv_use_weighs_pools_by_their_size(engine: str, pools: tuple[int | None, ...], mean: float) -> None:
    def page(at: int, port: int, use: float, size: int | None) -> ServerSample:
        if engine == "vllm":
            config = f'vllm:cache_config_info{{block_size="10",engine="0",num_gpu_blocks="{(size or 0) // 10}"}}'
            values = {'vllm:kv_cache_usage_perc{engine="0",model_name="m"}': use, config: 1.0}
        else:
            config = 'sglang:max_total_num_tokens{model_name="m",tp_rank="0"}'
            values = {'sglang:token_usage{model_name="m",tp_rank="0"}': use, config: float(size or 0)}
        if size is None:
            del values[config]
        return ServerSample(at_ns=at * S, endpoint=f"http://e:{port}", values=values)

    uses = zip((1, 2), (0.9, 0.1), pools, strict=True)
    found = measures([record(0)], samples=tuple(page(30, port, use, size) for port, use, size in uses))
    assert value(found, "kv_usage.mean") == pytest.approx(mean) and value(found, "kv_usage.peak") == 0.9


def test_ranks_of_one_page_weigh_the_same_though_each_line_tells_the_sum() -> None:
    def page(at: int) -> ServerSample:
        values = {f'vllm:kv_cache_usage_perc{{engine="{rank}"}}': use for rank, use in enumerate((0.9, 0.1))}
        lines = [f'vllm:cache_config_info{{block_size="10",engine="{rank}",num_gpu_blocks="400"}}' for rank in (0, 1)]
        return ServerSample(at_ns=at * S, endpoint="http://e:1", values=values | dict.fromkeys(lines, 1.0))

    def alone(at: int) -> ServerSample:
        config = 'vllm:cache_config_info{block_size="10",engine="0",num_gpu_blocks="200"}'
        values = {'vllm:kv_cache_usage_perc{engine="0"}': 0.2, config: 1.0}
        return ServerSample(at_ns=at * S, endpoint="http://e:2", values=values)

    found = measures([record(0)], samples=(page(30), alone(31)))
    assert value(found, "kv_usage.mean") == pytest.approx((0.9 + 0.1 + 0.2) / 3), "all three hold 2,000 tokens"


def test_server_histograms_give_values_or_say_where_they_end() -> None:
    def page(at: int, counts: tuple[float, float, float]) -> ServerSample:
        name = "vllm:time_to_first_token_seconds_bucket"
        values = {f'{name}{{le="{b}"}}': c for b, c in zip(("0.1", "0.2", "+Inf"), counts, strict=True)}
        return ServerSample(at_ns=at * S, endpoint="e", values=values)

    found = measures([record(0)], samples=(page(0, (5, 5, 5)), page(61, (11, 14, 15))))
    assert value(found, "server_ttft.p50") == pytest.approx(0.1 * 5 / 6)
    assert value(found, "server_ttft.p90") == pytest.approx(0.2)
    assert found["server_ttft.p99"].value is None and "above 0.2 s" in (found["server_ttft.p99"].reason or "")
    assert "not scraped" in (found["server_queue_time.p50"].reason or "")


def test_client_health_and_emulator_lag() -> None:
    found = measures(
        [record(0), failed(1, scheduled_ns=-3 * MS)],
        health={"loop_lag_p99_s": 0.002, "cpu_share": 0.4},
        samples=(sample(1, ridgeline__emulator_lag_seconds=0.01), sample(2, ridgeline__emulator_lag_seconds=0.03)),
    )
    assert value(found, "schedule_lag.p99") == 0.002 and value(found, "client_cpu") == 0.4
    assert found["schedule_lag.p50"].value is None
    assert value(found, "send_lag.max") == pytest.approx(0.003) and found["send_lag.max"].n == 2
    assert value(found, "emulator_lag") == 0.03


def test_a_table_and_a_file_give_the_same_point_as_the_replay(tmp_path: Path) -> None:
    rows = [
        record(i, i * 100 * MS, lane=i % 3, cached_tokens=None if i % 4 else 10, chunk_ns=(1, 5) if i % 2 else ())
        for i in range(40)
    ] + [failed(40), record(41, phase="warmup")]
    scrapes = (sample(0, vllm__prompt_tokens_total=0.0), sample(61, vllm__prompt_tokens_total=4000.0))
    data = replay(rows, health={"cpu_share": 0.5}, speed=2.0, samples=scrapes)
    records.write_records(tmp_path / "r.parquet", data)
    keep: dict[str, Any] = {"cell": cell(3), "source": Source.EMULATED, "run_key": "k"}
    point = aggregate(data, **keep)
    assert aggregate(records.read_table(tmp_path / "r.parquet"), samples=scrapes, **keep) == point
    assert aggregate(tmp_path / "r.parquet", samples=scrapes, **keep) == point
    assert point.id == "k.1" and point.gpus == 2 and point.facts["speed"] == 2.0
    assert point.series.endswith("/emulated")


def test_withheld_percentiles_can_be_kept() -> None:
    keep: dict[str, Any] = {"cell": cell(1), "source": Source.MEASURED, "run_key": "k"}
    data = replay([record(i) for i in range(20)])
    assert aggregate(data, **keep).measures["ttft.p99"].value is None
    assert aggregate(data, withhold=False, **keep).value("ttft.p99") == pytest.approx(0.050)


def test_a_replay_without_a_window_still_has_its_counts() -> None:
    found = measures([record(0, phase="warmup")], phases=Phases())
    assert value(found, "requests.warmup") == 1
    assert "no profiling window" in (found["steady_duration"].reason or "")


def test_axes_come_from_the_register() -> None:
    assert axis("interactivity.p90").better == "higher" and axis("ttft.p50").better == "lower"
    assert axis("kv_usage.peak").better is None and axis("duration").unit == "s"
    assert metric_of("throughput_per_gpu.output").name == "throughput_per_gpu"
    with pytest.raises(InputError, match=r"did you mean `interactivity\.p90`"):
        axis("interactivty.p90")
    with pytest.raises(InputError, match="no measure is called"):
        axis("ttft")


def test_every_metric_is_documented() -> None:
    for metric in METRICS.values():
        for text in (metric.title, metric.unit, metric.formula, metric.source, metric.pitfalls):
            assert text.strip(), metric.name


def test_no_measure_is_nan() -> None:
    odd = [record(i, completion_tokens=i, chunks=i, prompt_tokens=0, asked_prompt_tokens=0) for i in range(4)]
    for name, measure in measures([*odd, failed(9)]).items():
        assert measure.value is None or np.isfinite(measure.value), name


def test_replay_is_not_needed_to_be_sorted() -> None:
    rows = [record(i, i * S) for i in range(5)]
    assert measures(rows) == measures(list(reversed(rows)))
    assert isinstance(replay(rows), Replay)
