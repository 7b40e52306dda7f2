"""The same counts under SGLang's metric names: gauges of every rank by `dp_rank`, counters and histograms of the front.

SGLang's schedulers show their own state; what requests did is counted by the tokenizer process before them, for all
ranks together. A retraction is what vLLM calls a preemption. `cuda_graph_passes_total` says what decoding steps ran as.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ridgeline.engine.graphs import FULL
from ridgeline.simulate.metrics import Histogram, RankMetrics
from ridgeline.simulate.scheduler import Scheduler

_HISTOGRAMS = {
    "time_to_first_token_seconds": "time_to_first_token_seconds",
    "inter_token_latency_seconds": "inter_token_latency_seconds",
    "e2e_request_latency_seconds": "e2e_request_latency_seconds",
    "queue_time_seconds": "request_queue_time_seconds",
}

FAMILIES: dict[str, tuple[str, str]] = {
    "num_running_reqs": ("gauge", "Requests in the running batch."),
    "num_queue_reqs": ("gauge", "Requests waiting to be scheduled."),
    "num_used_tokens": ("gauge", "Tokens of the KV pool in use."),
    "max_total_num_tokens": ("gauge", "Tokens the KV pool holds."),
    "token_usage": ("gauge", "Share of the KV pool in use."),
    "cache_hit_rate": ("gauge", "Prompt tokens found in the cache over all prompt tokens looked up."),
    "spec_accept_length": ("gauge", "Tokens a verification of drafts has yielded on average."),
    "num_retracted_requests": ("counter", "Requests that were retracted and computed again."),
    "cuda_graph_passes": ("counter", "Decoding passes by what they ran as."),
    "prompt_tokens": ("counter", "Prompt tokens of requests that got their first token."),
    "generation_tokens": ("counter", "Generated tokens."),
    "cached_tokens": ("counter", "Prompt tokens found in a cache, by where."),
    "num_requests": ("counter", "Requests that ended."),
    "num_aborted_requests": ("counter", "Requests that were aborted."),
    "time_to_first_token_seconds": ("histogram", "Time to first token."),
    "inter_token_latency_seconds": ("histogram", "Time between tokens."),
    "e2e_request_latency_seconds": ("histogram", "Time from arrival to last token."),
    "queue_time_seconds": ("histogram", "Time spent waiting."),
}


def rows(
    ranks: Sequence[Scheduler], metrics: Sequence[RankMetrics], model: str, passes: Mapping[str, int] | None = None
) -> Iterator[tuple[str, str, dict[str, str], float]]:
    """Every series: family (without prefix), sample name, labels, value. `passes`: decoding steps by graph mode."""
    own = {"engine_type": "unified", "model_name": model, "pp_rank": "0", "tp_rank": "0"}
    for family, values in _gauges(ranks).items():
        for rank, value in enumerate(values):
            yield family, f"sglang:{family}", {**own, "dp_rank": str(rank)}, value
    for rank, scheduler in enumerate(ranks):
        shown = {**own, "dp_rank": str(rank)}
        yield "num_retracted_requests", "sglang:num_retracted_requests_total", shown, float(scheduler.preemptions)
    if passes is not None:
        graphs = {"decode_cuda_graph": passes[FULL], "decode_none": sum(passes.values()) - passes[FULL]}
        for mode, steps in graphs.items():
            yield "cuda_graph_passes", "sglang:cuda_graph_passes_total", {**own, "mode": mode}, float(steps)
    front = {"model_name": model}
    for family, labels, count in _counters(ranks, metrics):
        yield family, f"sglang:{family}_total", {**front, **labels}, float(count)
    for family, name in _HISTOGRAMS.items():
        together = _together([m.histograms[name] for m in metrics])
        for sample, shown, value in together.series(f"sglang:{family}", front):
            yield family, sample, shown, value


def _gauges(ranks: Sequence[Scheduler]) -> dict[str, list[float]]:
    found = {
        "num_running_reqs": [float(len(s.running)) for s in ranks],
        "num_queue_reqs": [float(len(s.waiting) + len(s.incoming.loading)) for s in ranks],
        "num_used_tokens": [float(s.pool.used * s.limits.block_size) for s in ranks],
        "max_total_num_tokens": [float(s.pool.total * s.limits.block_size) for s in ranks],
        "token_usage": [s.pool.used / s.pool.total for s in ranks],
        "cache_hit_rate": [s.hits / s.queries if s.queries else 0.0 for s in ranks],
    }
    if ranks[0].limits.query > 1:
        found["spec_accept_length"] = [1 + s.accepted_drafts / s.drafts if s.drafts else 0.0 for s in ranks]
    return found


def _counters(
    ranks: Sequence[Scheduler], metrics: Sequence[RankMetrics]
) -> Iterator[tuple[str, dict[str, str], float]]:
    cached, external = sum(m.cached_tokens for m in metrics), sum(m.external_tokens for m in metrics)
    yield "prompt_tokens", {}, sum(m.prompt_tokens for m in metrics)
    yield "generation_tokens", {}, sum(s.generated for s in ranks)
    yield "cached_tokens", {"cache_source": "device"}, cached - external
    if external:
        yield "cached_tokens", {"cache_source": "host"}, external
    yield "num_requests", {}, sum(sum(m.ends.values()) - m.ends["abort"] for m in metrics)
    yield "num_aborted_requests", {}, sum(m.ends["abort"] for m in metrics)


def _together(parts: Sequence[Histogram]) -> Histogram:
    whole = Histogram(parts[0].bounds)
    whole.counts = [sum(counts) for counts in zip(*(part.counts for part in parts), strict=True)]
    whole.total = sum(part.total for part in parts)
    return whole
