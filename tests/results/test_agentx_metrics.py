"""Every metric of the AgentX replay, on numbers that tell one definition from the next: in AIPerf's rows and summary,
in InferenceX's row, and among our own measures.

One request: sent at 0; reasoning at 100 ms, visible text at 160 ms, five content events until 260 ms, the response over
at 300 ms; 640 prompt tokens, 512 of them cached; 9 output tokens, 3 of them reasoning and 2 in the first event; 7 of 10
blocks seen before. A second one is the same, a second later; one failed, one was too long, one belongs to the warm-up.
"""

from __future__ import annotations

import pytest
from tests.results.builders import MS, S, cell, failed, record, replay

from ridgeline.core.point import Source
from ridgeline.core.record import Outcome, Record
from ridgeline.results.aggregate import aggregate
from ridgeline.results.export import aiperf, aiperf_rows
from ridgeline.results.export.agentic import agentic_row


def one(serial: int, at: int, **changes: object) -> Record:
    times = {
        "sent_ns": at,
        "scheduled_ns": at - 2 * MS,
        "first_byte_ns": at + 90 * MS,
        "first_token_ns": at + 100 * MS,
        "first_visible_ns": at + 160 * MS,
        "last_token_ns": at + 260 * MS,
        "end_ns": at + 300 * MS,
        "chunk_ns": tuple(at + ms * MS for ms in (100, 130, 160, 200, 260)),
    }
    counts = {
        "prompt_tokens": 640,
        "asked_prompt_tokens": 630,
        "cached_tokens": 512,
        "completion_tokens": 9,
        "reasoning_tokens": 3,
        "first_chunk_tokens": 2,
        "chunks": 5,
        "theoretical_hit_blocks": 7,
        "theoretical_total_blocks": 10,
    }
    return record(serial, at, **(times | counts | changes))


RUN = replay(
    [
        one(0, -5 * S, phase="warmup"),
        one(1, 0),
        one(2, S),
        failed(3, 2 * S, scheduled_ns=2 * S - 4 * MS),
        failed(4, 3 * S, outcome=Outcome.OVERFLOW),
    ]
)

TAGS = {
    "time_to_first_token": 100.0,
    "time_to_second_token": 30.0,
    "time_to_first_output_token": 160.0,
    "request_latency": 260.0,
    "inter_token_latency": 160 / 8,
    "inter_chunk_latency": [30.0, 30.0, 40.0, 60.0],
    "decode_duration": 160.0,
    "full_decode_duration": 200.0,
    "full_response_inter_token_latency": 200 / 8,
    "full_response_output_token_throughput_per_user": 1000 / 25,
    "output_token_throughput_per_user": 1000 / 20,
    "e2e_output_token_throughput": 9 / 0.26,
    "prefill_throughput_per_user": 640 / 0.1,
    "input_sequence_length": 640,
    "output_sequence_length": 9,
    "output_token_count": 6,
    "reasoning_token_count": 3,
    "usage_prompt_tokens": 640,
    "usage_completion_tokens": 9,
    "usage_total_tokens": 649,
    "usage_reasoning_tokens": 3,
    "usage_prompt_cache_read_tokens": 512,
    "osl_mismatch_diff_pct": 100 * (9 - 11) / 11,
    "http_req_waiting": 90.0,
    "http_req_receiving": 210.0,
    "http_req_blocked": 0.0,
    "http_req_dns_lookup": 0.0,
}
RUN_LEVEL = {
    "request_count": 2,
    "error_request_count": 1,
    "completed_request_count": 3,
    "request_error_rate": 100 / 3,
    "context_overflow_count": 1,
    "benchmark_duration": 1.26,
    "request_throughput": 2 / 61,  # over the phase with its drain
    "output_token_throughput": 18 / 61,
    "input_token_throughput": 1280 / 61,
    "total_token_throughput": 1298 / 61,
    "total_isl": 1280,
    "total_osl": 18,
    "total_output_tokens": 12,
    "total_usage_total_tokens": 1298,
    "total_usage_prompt_cache_read_tokens": 1024,
    "overall_usage_prompt_cache_read_pct": 80.0,
    "theoretical_prefix_cache_hit": 70.0,
    "credit_to_start_latency": (2 + 2 + 4) / 3,  # failed requests included
}
MEASURES = {
    "ttfb.p50": 0.09,
    "ttft.p50": 0.1,
    "ttft_visible.p50": 0.16,
    "ttst.p50": 0.03,
    "icl.mean": 0.04,
    "e2e_latency.p50": 0.26,
    "decode_duration.p50": 0.16,
    "full_decode_duration.p50": 0.2,
    "itl.p50": 0.02,
    "full_itl.p50": 0.025,
    "tpot.p50": 0.16 / 7,  # seven tokens came after the first event
    "interactivity.p50": 50.0,
    "full_interactivity.p50": 40.0,
    "e2e_interactivity.p50": 9 / 0.26,
    "prefill_throughput.p50": 6400.0,
    "input_tokens.p50": 640,
    "output_tokens.p50": 9,
    "reasoning_tokens.p50": 3,
    "tokens.input": 1280,
    "tokens.output": 18,
    "tokens_per_chunk.p50": 9 / 5,
    "usage_cache_hit": 0.8,
    "theoretical_cache_hit": 0.7,
    "prompt_difference.p50": 10,
    "prompt_drift": 640 / 630 - 1,
    "duration": 1.3,
    "throughput.output": 18 / 1.3,
    "throughput_per_gpu.total": 1298 / 1.3 / 2,
    "request_rate": 2 / 1.3,
    "error_rate": 1 / 3,
    "overflow_rate": 1 / 4,
    "send_lag.max": 0.004,
    "requests.good": 2,
    "requests.overflow": 1,
    "requests.warmup": 1,
}


def test_a_row_of_aiperf_has_every_tag_with_its_definition() -> None:
    rows = [row for row in aiperf_rows.rows(RUN, 0) if row["metrics"]]
    assert len(rows) == 3, "warm-up has rows too"
    for row in rows:
        assert {tag: item["value"] for tag, item in row["metrics"].items()} == {
            tag: value if isinstance(value, list) else pytest.approx(value) for tag, value in TAGS.items()
        }


def test_the_summary_has_the_run_s_own_figures_over_its_population() -> None:
    found = aiperf.summary(RUN, 0)
    assert {tag: found[tag]["avg"] for tag in RUN_LEVEL} == {t: pytest.approx(v) for t, v in RUN_LEVEL.items()}
    for tag, value in TAGS.items():
        each = sum(value) / len(value) if isinstance(value, list) else value
        assert found[tag]["avg"] == pytest.approx(each), tag
        assert found[tag]["count"] == 2 * (len(value) if isinstance(value, list) else 1), "warm-up is not in it"
    assert {name for name in found["time_to_first_token"] if name.startswith("p")} == {
        f"p{p}" for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)
    }
    adjusted = found["adj_request_latency"]
    assert (adjusted["count"], adjusted["p50"], adjusted.get("p99")) == (3, 260.0, None), "an error ranks as endless"
    assert found["warmup_metrics"]["request_latency"]["count"] == 1


def test_our_measures_hold_the_same_definitions() -> None:
    point = aggregate(RUN, cell=cell(1), source=Source.MEASURED, run_key="k", withhold=False)
    assert {name: point.value(name) for name in MEASURES} == {n: pytest.approx(v) for n, v in MEASURES.items()}


def test_inferencex_s_row_has_them_in_seconds_with_the_slow_tail() -> None:
    requests = agentic_row(RUN, cell(1))["request_metrics"]
    latency = {name: block["p50"] for name, block in requests["latency"].items()}
    assert latency == {
        "ttft": 0.1, "e2el": 0.26, "itl": 0.02, "tpot": 0.02, "intvty": 50, "full_response_itl": 0.025,
        "full_response_intvty": 40, "e2e_norm_intvty": pytest.approx(9 / 0.26, abs=1e-5),
    }  # fmt: skip
    assert requests["throughput"]["duration_seconds"] == pytest.approx(1.3)
    assert requests["throughput"]["per_gpu"]["output_tput_tps"] == pytest.approx(18 / 1.3 / 2, abs=1e-5)
    assert requests["cache"]["theoretical_cache_hit_rate"] == 0.7
