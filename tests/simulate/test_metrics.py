from prometheus_client.parser import text_string_to_metric_families

from ridgeline.core.record import ServerSample
from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.results.metrics.pools import vllm_pools
from ridgeline.results.metrics.scrapes import Scrapes
from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.metrics import FAMILIES, Histogram, rows, series, snapshot
from ridgeline.simulate.request import Request

# Names a vLLM 0.24 server shows, which readers of its page rely on.
VLLM = {
    "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
    "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:num_preemptions_total",
    "vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total", "vllm:prompt_tokens_by_source_total",
    "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:time_to_first_token_seconds_bucket",
    "vllm:inter_token_latency_seconds_sum", "vllm:request_time_per_output_token_seconds_count",
    "vllm:e2e_request_latency_seconds_bucket", "vllm:request_queue_time_seconds_sum",
    "vllm:request_inference_time_seconds_sum", "vllm:request_prefill_time_seconds_sum",
    "vllm:request_decode_time_seconds_sum", "vllm:request_prompt_tokens_sum", "vllm:request_generation_tokens_sum",
    "vllm:request_prefill_kv_computed_tokens_sum", "vllm:iteration_tokens_total_sum", "vllm:cache_config_info",
}  # fmt: skip


def engine() -> Engine:
    found = engine_of(options_from("qwen3-0.6b", "h200", Topology(2, dp_attn=True), kv_tokens=1600))
    for key in range(2):
        found.submit(1, Request(key, 40, 3, [hash(i) for i in range(2)]), 0)
        found.kick(found.ends_at or 0)
        while found.ends_at is not None:
            found.finish()
    return found


def test_a_histogram_counts_at_or_below_its_bounds() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 1.5, 9.0):
        histogram.observe(value)
    found = {name + labels.get("le", ""): value for name, labels, value in histogram.series("h", {})}
    assert found == {"h_bucket1.0": 2, "h_bucket2.0": 4, "h_bucket+Inf": 5, "h_sum": 13.5, "h_count": 5}


def test_the_vocabulary_is_vllms() -> None:
    found = engine()
    names = {name for _, name, _, _ in rows(found.ranks, found.metrics, "m")}
    assert names >= VLLM
    assert all(family in FAMILIES for family, _, _, _ in rows(found.ranks, found.metrics, "m"))


def test_every_rank_s_line_tells_the_blocks_of_all_as_a_real_front_end_s_do() -> None:
    found = engine()
    sample = ServerSample(at_ns=0, endpoint="e", values=snapshot(found.ranks, found.metrics, "m"))
    pools = [size for _, size in vllm_pools(Scrapes((sample,)))]
    assert pools == [1600.0, 1600.0] and len(found.ranks) == 2
    lines = [name for name in sample.values or () if "cache_config_info" in name]
    assert all('num_gpu_blocks="200"' in name for name in lines), "two times 1,600 tokens in blocks of 16"


def test_counters_per_rank() -> None:
    found = engine()
    values = snapshot(found.ranks, found.metrics, "m")
    label = '{engine="1",model_name="m"}'
    assert values[f"vllm:prompt_tokens_total{label}"] == 80
    assert values[f"vllm:prompt_tokens_cached_total{label}"] == 32
    assert values[f"vllm:prefix_cache_hits_total{label}"] == 32
    assert values[f"vllm:generation_tokens_total{label}"] == 6
    assert values[f"vllm:num_requests_running{label}"] == 0
    assert values['vllm:request_success_total{engine="1",finished_reason="length",model_name="m"}'] == 2
    assert values['vllm:prompt_tokens_total{engine="0",model_name="m"}'] == 0
    assert not any("_bucket" in name for name in snapshot(found.ranks, found.metrics, "m", histograms=False))


def test_labels_are_sorted_and_escaped() -> None:
    assert series("x", {"b": 'a"\\\n', "a": "1"}) == 'x{a="1",b="a\\"\\\\\\n"}'
    families = list(text_string_to_metric_families(series("x", {"b": 'a"\\\n'}) + " 1\n"))
    assert families[0].samples[0].labels == {"b": 'a"\\\n'}
