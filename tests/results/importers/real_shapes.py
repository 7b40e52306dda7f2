"""Reports in the shapes that current versions of the tools write, with numbers of our own.

The shapes were seen on guidellm 0.8, inference-perf 0.7 and AIPerf 0.13 against the emulated engine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

QUANTILES = {"p001": 0.2, "p01": 0.3, "p05": 0.5, "p50": 1.0, "p90": 1.5, "p99": 2.0, "p999": 3.0}
STAGE_QUANTILES = {"p0.1": 0.2, "p1": 0.3, "p5": 0.5, "median": 1.0, "p90": 1.5, "p99": 2.0, "p99.9": 3.0}


def guidellm_block(middle: float, count: int) -> dict[str, Any]:
    """One distribution of guidellm, split by how requests ended."""

    def part(value: float, n: int) -> dict[str, Any]:
        return {
            "mean": value, "median": value, "mode": value, "variance": 0.0, "std_dev": 0.1 * value, "min": value / 2,
            "max": 4 * value, "count": n, "total_sum": value * n, "pdf": None, "mean_ci": None, "percentile_cis": None,
            "percentiles": {name: share * value for name, share in QUANTILES.items()},
        }  # fmt: skip

    return {"successful": part(middle, count), "errored": part(0.0, 0), "incomplete": part(0.0, 0),
            "total": part(middle, count)}  # fmt: skip


def guidellm_report(streams: tuple[int, ...] = (4, 8), n: int = 60) -> dict[str, Any]:
    """A report of version 2: model and strategy lie in each benchmark's config, ids too."""
    media = {"tokens": {"input": None, "output": None}, "images": {"input": {"mean": 0.0}}}

    def benchmark(index: int, count: int) -> dict[str, Any]:
        return {
            "type_": "generative_benchmark",
            "config": {
                "id_": f"id-{index}", "run_id": "run", "run_index": index,
                "strategy": {"type_": "concurrent", "worker_count": 4, "max_concurrency": count, "streams": count},
                "backend": {"kind": "openai_http", "target": "http://engine", "model": "acme/tiny"},
            },
            "metrics": {
                "request_totals": {"successful": n, "errored": 0, "incomplete": 0, "total": n},
                "requests_per_second": guidellm_block(2.0, n), "request_concurrency": guidellm_block(2.6, n),
                "request_latency": guidellm_block(4.0, n), "request_dispatch_delay": None,
                "prompt_token_count": guidellm_block(1000.0, n), "output_token_count": guidellm_block(100.0, n),
                "time_to_first_token_ms": guidellm_block(200.0, n),
                "time_to_first_output_token_ms": guidellm_block(300.0, n),
                "time_per_output_token_ms": guidellm_block(40.0, 100 * n),
                "inter_token_latency_ms": guidellm_block(10.0, 99 * n),
                "prompt_tokens_per_second": guidellm_block(2000.0, 1000 * n),
                "output_tokens_per_second": guidellm_block(200.0, 100 * n),
                "tokens_per_second": guidellm_block(2200.0, 1100 * n),
                "avg_round_trip_time_ms": guidellm_block(0.0, n), "image": media, "turns": None,
            },
            "requests": {"successful": [{"request_id": "a", "output": "text"}], "errored": []},
            "start_time": 1780000000.0 + index, "end_time": 1780000030.0 + index, "duration": 30.0,
            "warmup_duration": 0.0, "cooldown_duration": 0.0, "warnings": [],
        }  # fmt: skip

    return {
        "metadata": {"version": 2, "guidellm_version": "0.8.1"},
        "config": {"metadata": {"labels": {}}, "spec": {"backend": {"model": "acme/tiny"}}, "benchmarks": []},
        "benchmarks": [benchmark(index, count) for index, count in enumerate(streams)],
    }


def inference_perf_folder(root: Path, *, n: int = 60, client: float = 100.0, server: float = 100.0) -> Path:
    """Two concurrent stages with what lies beside them."""

    def block(middle: float) -> dict[str, float]:
        found = {name: share * middle for name, share in STAGE_QUANTILES.items()}
        return {"mean": middle, "min": middle / 2, "max": 4 * middle, **found}

    root.mkdir(parents=True, exist_ok=True)
    for stage, concurrency in enumerate((4, 8)):
        report = {
            "benchmark_time_seconds": 30.0,
            "load_summary": {
                "count": n, "schedule_delay": block(0.001), "send_duration": 29.0, "requested_rate": 40.0,
                "achieved_rate": 40.5, "concurrency": concurrency,
            },
            "successes": {
                "count": n,
                "latency": {
                    "request_latency": block(4.0), "normalized_time_per_output_token": block(0.04),
                    "time_per_output_token": block(0.01), "time_to_first_token": block(0.2),
                    "inter_token_latency": block(0.012),
                },
                "throughput": {
                    "input_tokens_per_sec": 2000.0, "output_tokens_per_sec": 200.0, "total_tokens_per_sec": 2200.0,
                    "requests_per_sec": 2.0, "images_per_sec": 0.0,
                },
                "request_size_bytes": block(135.0), "image": {"count": block(0.0), "pixels": None},
                "prompt_tokens": {"total": 1000.0 * n, "cached": 250.0 * n, "uncached": 750.0 * n, **block(1000.0)},
                "output_len": block(client), "output_tokens": {"total": server * n, **block(server)},
                "token_count_mismatches": 0,
            },
            "failures": {"count": 0, "request_latency": None, "prompt_tokens": {"total": 0.0}},
        }  # fmt: skip
        (root / f"stage_{stage}_lifecycle_metrics.json").write_text(json.dumps(report))
        began = f"version: 0.2.1\nrun:\n  uid: s{stage}\n  time:\n    start: '2026-01-02T03:04:0{stage}.5Z'\n"
        (root / f"inference-perf.partial.stage_{stage}.yaml").write_text(began)
    for name in ("summary_lifecycle_metrics.json", "per_request_lifecycle_metrics.json", "validation.json"):
        (root / name).write_text("{}")
    (root / "config.yaml").write_text("server:\n  type: vllm\n  model_name: acme/tiny\n")
    return root


INPUT_CONFIG = {
    "models": {"items": [{"name": "acme/tiny"}]},
    "endpoint": {"urls": ["http://engine"], "type": "chat", "streaming": True},
    "datasets": [{"name": "main", "type": "synthetic", "prompts": {"isl": {"mean": 500.0}, "osl": {"mean": 11.0}}}],
    "phases": [{"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": 60, "concurrency": 4}],
}
# Series of one engine: kind, values at the two scrapes around the phase (or of a gauge inside it).
COUNTERS = {
    "vllm:prefix_cache_queries": (1000.0, 5000.0),
    "vllm:prefix_cache_hits": (0.0, 1000.0),
    "vllm:num_preemptions": (1.0, 3.0),
}
GAUGES = {"vllm:kv_cache_usage_perc": (0.2, 0.6), "vllm:num_requests_waiting": (0.0, 4.0)}
BUCKETS = {"0.1": (0.0, 50.0), "0.2": (0.0, 100.0), "+Inf": (0.0, 100.0)}
URL, LABELS = "http://engine/metrics", {"engine": "0", "model_name": "tiny"}


def server_document(start_ns: int, end_ns: int) -> dict[str, Any]:
    """`server_metrics_export.json`: statistics of every series over the phase; counters without `_total`."""

    def entry(kind: str, stats: dict[str, Any], **more: Any) -> dict[str, Any]:
        series = {"endpoint_url": URL, "labels": LABELS, "stats": stats, **more}
        return {"type": kind, "description": "", "series": [series]}

    seconds = (end_ns - start_ns) / 1e9
    metrics = {n: entry("counter", {"total": b - a, "rate": (b - a) / seconds}) for n, (a, b) in COUNTERS.items()}
    metrics |= {n: entry("gauge", {"avg": (a + b) / 2, "min": a, "max": b}) for n, (a, b) in GAUGES.items()}
    grown = {bound: b - a for bound, (a, b) in BUCKETS.items()}
    metrics["vllm:time_to_first_token_seconds"] = entry("histogram", {"count": 100}, buckets=grown)
    ranges = {"profiling": {"start_ns": start_ns, "end_ns": end_ns}}
    return {"schema_version": "1.1", "aiperf_version": "0.13.0", "summary": {"phase_time_ranges": ranges},
            "metrics_phase": "profiling", "metrics": metrics}  # fmt: skip


def server_lines(start_ns: int, end_ns: int) -> str:
    """`server_metrics_export.jsonl`: the same as two scrapes."""
    lines = []
    for place, at_ns in enumerate((start_ns, end_ns)):
        metrics: dict[str, Any] = {
            name: [{"labels": LABELS, "value": values[place]}] for name, values in (COUNTERS | GAUGES).items()
        }
        buckets = {bound: counts[place] for bound, counts in BUCKETS.items()}
        whole = {"labels": LABELS, "buckets": buckets, "sum": 0.1, "count": buckets["+Inf"]}
        metrics["vllm:time_to_first_token_seconds"] = [whole]
        lines.append({"endpoint_url": URL, "timestamp_ns": at_ns, "endpoint_latency_ns": 1, "metrics": metrics})
    return "".join(json.dumps(line) + "\n" for line in lines)
