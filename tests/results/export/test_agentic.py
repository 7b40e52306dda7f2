"""The agentic row: shape of a real one, and numbers worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.golden import golden
from tests.results.builders import MS, S, cell, failed, record, replay

from ridgeline.core.cell import Arm, Component
from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome, ServerSample
from ridgeline.core.topology import Pool, Topology
from ridgeline.results.export.agentic import agentic_row, tidy

VLLM = {
    "vllm:prefix_cache_hits_total": (0.0, 30.0),
    "vllm:prefix_cache_queries_total": (0.0, 100.0),
    "vllm:prompt_tokens_total": (50.0, 250.0),
    "vllm:kv_cache_usage_perc": (0.1, 0.4),
}


def scrapes(values: dict[str, tuple[float, float]], **labels: float) -> tuple[ServerSample, ...]:
    return tuple(
        ServerSample(at_ns=at * S, endpoint="e", values={name: pair[i] for name, pair in values.items()} | labels)
        for i, at in enumerate((0, 60))
    )


def keys(value: Any, path: str = "") -> set[str]:
    if not isinstance(value, dict):
        return set()
    return {f"{path}/{key}" for key in value} | {k for key, item in value.items() for k in keys(item, f"{path}/{key}")}


def test_the_shape_of_a_real_row() -> None:
    real = json.loads(next(golden("results/agg_json").glob("*.json")).read_text())
    hits = 'sglang:cached_tokens_total{cache_source="device"}'
    samples = scrapes({"sglang:prompt_tokens_total": (0.0, 100.0), hits: (0.0, 40.0)})
    rows = [record(i, i * S, completion_tokens=11 + i) for i in range(5)]
    ours = agentic_row(replay(rows, samples=samples), cell(), dataset=real["dataset"])
    power = {key for key in keys(real) if "power" in key or "joules" in key or "energy" in key}
    assert keys(ours) == keys(real) - power
    assert [key for key in ours if key in real] == [key for key in real if key in ours], "and in their order"


def test_request_metrics_by_hand() -> None:
    rows = [
        record(0, 0),  # 100 tokens in, 11 out; ttft 50 ms, e2e 150 ms, itl 10 ms, end 151 ms
        record(1, 2 * S, last_token_ns=2 * S + 250 * MS, end_ns=2 * S + 350 * MS, max_tokens=30),
        failed(2, 3 * S),
        failed(3, 3 * S, phase="warmup"),
        failed(4, 3 * S, outcome=Outcome.OVERFLOW),
        record(5, 3 * S, phase="warmup"),
    ]
    row = agentic_row(replay(rows), cell(tp=2))
    assert (row["num_requests_total"], row["num_requests_successful"]) == (5, 2)
    assert row["request_accounting"] == {
        "records_total": 5,
        "records_profiled": 2,
        "records_dropped_total": 3,
        "records_warmup_dropped": 2,
        "records_error_dropped": 2,
        "error_categories": {"500": 2},
    }
    latency = row["request_metrics"]["latency"]
    assert latency["ttft"]["mean"] == 0.05 and latency["e2el"]["p50"] == 0.2 and latency["itl"] == latency["tpot"]
    assert latency["itl"]["p50"] == 0.015 and latency["itl"]["p90"] == 0.019
    assert latency["intvty"]["p50"] == pytest.approx(1 / 0.015, abs=1e-5)
    assert latency["intvty"]["p90"] == pytest.approx(1 / 0.019, abs=1e-5), "the slow tail"
    assert latency["intvty"]["std"] == 25, "of 100 and 50"
    assert latency["full_response_itl"]["mean"] == pytest.approx((0.0101 + 0.03) / 2)
    assert latency["e2e_norm_intvty"]["mean"] == 55
    tokens = row["request_metrics"]["tokens"]
    assert tokens["output_expected"]["mean"] == 20.5 and tokens["input"]["std"] == 0.0
    throughput = row["request_metrics"]["throughput"]
    assert throughput["duration_seconds"] == 2.35
    assert throughput["output"]["tokens_per_second"] == pytest.approx(22 / 2.35, abs=1e-5)
    assert throughput["per_gpu"]["total_tput_tps"] == pytest.approx(222 / 2.35 / 2, abs=1e-5)
    assert row["request_metrics"]["cache"]["theoretical_cache_hit_rate"] == 0.75
    # Ends at 0.151 and 2.35 s: two whole windows, one request in the first.
    assert row["request_metrics"]["qps"] == {
        "window_seconds": 1, "samples": 2, "mean": 0.5, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "std": 0.5,
    }  # fmt: skip
    assert row["server_metrics"]["present"] is False and row["warnings"]


def test_little_to_report_is_left_out_not_zero() -> None:
    row = agentic_row(replay([record(0, first_token_ns=0, chunk_ns=())]), cell())
    assert "ttft" not in row["request_metrics"]["latency"], "0 is no latency"
    assert row["request_metrics"]["qps"] == {}
    nothing = agentic_row(replay([]), cell())
    assert nothing["request_metrics"]["throughput"] == {} and nothing["request_metrics"]["latency"] == {}
    assert nothing["request_metrics"]["cache"]["theoretical_cache_hit_rate"] is None
    both_at_once = agentic_row(replay([record(0), record(1, 200 * MS)]), cell())
    assert both_at_once["request_metrics"]["qps"] == {"window_seconds": 1, "samples": 0, "mean": 10}


def test_vllm_server_block() -> None:
    info = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"}'
    row = agentic_row(replay([record(0)], samples=scrapes(VLLM, **{info: 1.0})), cell())
    server = row["server_metrics"]
    assert (server["adapter"], server["metric_count"]) == ("vllm", 5)
    assert server["cache"]["gpu_cache_hit_rate"] == 0.3 and server["cache"]["prefix_cache_queries"] == 100
    assert server["kv_cache"]["gpu_usage_pct"] == 0.4 and row["kv_cache_pool_tokens"] == 16000
    assert server["tokens"]["prompt_total"] == 200 and server["cache"]["external_cache_hit_rate"] is None
    name = "vllm:prompt_tokens_by_source_total"
    sources = {
        f'{name}{{source="{kind}"}}': (0.0, n) for kind, n in (("local_compute", 60.0), ("local_cache_hit", 20.0))
    }
    split = agentic_row(replay([record(0)], samples=scrapes(VLLM | sources)), cell())["server_metrics"]
    assert split["cache"]["gpu_cache_hit_rate"] == 0.25, "one denominator for all tiers when sources are told"
    assert split["tokens"]["prompt_by_source"]["computed"] == 60


def pool(*pages: list[str], gone: str | None = None) -> float | None:
    """Pool tokens of an agentic row over pages of `cache_config_info` lines. `gone`: one of the first scrape only."""
    samples = []
    for number, lines in enumerate(pages):
        values = {f"vllm:cache_config_info{{{labels}}}": 1.0 for labels in lines} | {"vllm:x_total": float(number)}
        first = values | ({f"vllm:cache_config_info{{{gone}}}": 1.0} if gone else {})
        for at, shown in ((0, first), (30 * S, values)):
            samples.append(ServerSample(at_ns=at, endpoint=f"http://{number}", values=shown))
    found = agentic_row(replay([record(0)], samples=tuple(samples)), cell())["kv_cache_pool_tokens"]
    assert found is None or isinstance(found, (int, float))
    return found


def labels(engine: int, blocks: object, **more: object) -> str:
    shown = {"block_size": 16, "engine": engine, "num_gpu_blocks": blocks} | more
    return ",".join(f'{name}="{shown[name]}"' for name in sorted(shown))


def test_ranks_behind_one_front_end_share_its_sum_of_blocks() -> None:
    assert pool([labels(0, 1000), labels(1, 1000)]) == 16_000, "each line repeats the sum over both engines"
    assert pool([labels(0, 1000)], [labels(1, 1000)]) == 32_000, "two front ends have an engine each"
    assert pool([labels(0, 1000), labels(1, 600)]) == 25_600, "lines that differ are about a rank each"
    assert pool([labels(0, "None")]) is None, "not sized yet"
    assert pool([labels(0, 1000)], gone=labels(0, "None")) == pool([labels(0, 1000)], gone=labels(0, 700)) == 16_000


def test_an_engine_s_own_size_in_tokens_is_better_than_blocks() -> None:
    """Groups of a hybrid model take blocks of one pool each, so blocks times their size is too much."""
    ranks = [labels(rank, 1000, kv_cache_size_tokens=5000) for rank in range(2)]
    assert pool(ranks) == 10_000


def test_sglang_server_block() -> None:
    values = {
        "sglang:prompt_tokens_total": (0.0, 200.0),
        'sglang:cached_tokens_total{cache_source="device"}': (0.0, 50.0),
        'sglang:cached_tokens_total{cache_source="host"}': (0.0, 30.0),
        "sglang:max_total_num_tokens": (4096.0, 4096.0),
        "sglang:token_usage": (0.2, 0.1),
    }
    row = agentic_row(replay([record(0)], samples=scrapes(values)), cell())
    cache = row["server_metrics"]["cache"]
    assert (cache["gpu_cache_hit_rate"], cache["cpu_cache_hit_rate"], cache["overall_cache_hit_rate"]) == (
        0.25,
        0.15,
        0.4,
    )
    assert cache["cached_tokens_by_source"] == {"device": 50, "host": 30} and row["kv_cache_pool_tokens"] == 4096
    gauge = {"sglang:prompt_tokens_total": (0.0, 200.0), "sglang:cache_hit_rate": (0.1, 0.6)}
    old = agentic_row(replay([record(0)], samples=scrapes(gauge)), cell())["server_metrics"]["cache"]
    assert old["gpu_cache_hit_rate"] == 0.6


def test_pools_and_parts_of_the_stack() -> None:
    import dataclasses

    pools = (Pool("prefill", 1, Topology(tp=4), "b200"), Pool("decode", 2, Topology(tp=8, ep=8, dp_attn=True), "h200"))
    arm = Arm(pools=pools, router=Component("r", "1"), kv_offload_backend=Component("lmcache"), kv_offloading="dram")
    row = agentic_row(replay([record(0)]), dataclasses.replace(cell(), arm=arm))
    assert (row["is_multinode"], row["tp"], row["ep"], row["dp_attention"], row["num_gpus"]) == (
        True,
        12,
        8,
        "true",
        20,
    )
    assert (row["prefill_num_workers"], row["num_decode_gpu"], row["decode_hw"]) == (1, 16, "h200")
    assert row["router"] == {"name": "r", "version": "1"} and row["kv_offload_backend"] == {"name": "lmcache"}
    wide = agentic_row(
        replay([record(0)]), dataclasses.replace(cell(), arm=arm), gpus_by_role={"prefill": 8, "decode": 32}
    )
    assert (wide["num_gpus"], wide["num_prefill_gpu"], wide["num_decode_gpu"]) == (40, 8, 32)
    rates = [r["request_metrics"]["throughput"]["per_gpu"]["total_tput_tps"] for r in (row, wide)]
    assert rates[1] == pytest.approx(rates[0] / 2, rel=1e-4)
    with pytest.raises(InputError, match="no agentic cell"):
        agentic_row(replay([]), cell(kind="fixed-seq-len"))


def test_tidy_numbers() -> None:
    assert tidy({"a": [1.0, 0.0, 0.123456789, 59135.0, -2.0, float("inf"), True, "x", None]}) == {
        "a": [1, 0.0, 0.12346, 59135, -2, None, True, "x", None]
    }
    assert isinstance(tidy(1.0), int) and isinstance(tidy(0.0), float)
