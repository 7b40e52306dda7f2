"""What an engine counts about itself, under vLLM's metric names: one value per rank, read by the emulated server's
`/metrics` page and by the simulator's samples alike.

Labels as vLLM has them: `engine` (the rank) and `model_name`. Histograms use vLLM's bucket bounds.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from ridgeline.simulate.batch import Batch
from ridgeline.simulate.request import Request
from ridgeline.simulate.scheduler import Scheduler, Token

_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
_ITL = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_LONG = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
_TOKENS = tuple(float(mantissa * 10**power) for power in range(6) for mantissa in (1, 2, 5))
_ITERATION = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)

REASONS = ("stop", "length", "abort", "error")


class Histogram:
    """Counts per bucket, sum and count; cumulative only when shown."""

    __slots__ = ("_index", "_last", "bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self._last = -1.0  # the requests of one batch mostly share their value: look its bucket up once
        self._index = 0

    def observe(self, value: float, times: int = 1) -> None:
        if value != self._last:
            self._last, self._index = value, bisect_left(self.bounds, value)
        self.counts[self._index] += times
        self.total += value * times

    def observe_all(self, values: Sequence[float], times: int) -> None:
        """Each value so many times."""
        bounds, counts, total = self.bounds, self.counts, self.total
        for value in values:
            counts[bisect_left(bounds, value)] += times
            total += value * times
        self.total = total

    def series(self, name: str, labels: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str], float]]:
        seen = 0
        for bound, count in zip((*map(repr, self.bounds), "+Inf"), self.counts, strict=True):
            seen += count
            yield f"{name}_bucket", {**labels, "le": bound}, seen
        yield f"{name}_sum", dict(labels), self.total
        yield f"{name}_count", dict(labels), seen


class RankMetrics:
    """Counters and histograms of one rank. Times are simulated seconds."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.external_tokens = 0  # of these, brought from another engine or tier
        self.ends = dict.fromkeys(REASONS, 0)
        self.histograms = {
            "time_to_first_token_seconds": Histogram(_TTFT),
            "inter_token_latency_seconds": Histogram(_ITL),
            "request_time_per_output_token_seconds": Histogram(_ITL),
            "e2e_request_latency_seconds": Histogram(_LONG),
            "request_queue_time_seconds": Histogram(_LONG),
            "request_inference_time_seconds": Histogram(_LONG),
            "request_prefill_time_seconds": Histogram(_LONG),
            "request_decode_time_seconds": Histogram(_LONG),
            "request_prompt_tokens": Histogram(_TOKENS),
            "request_generation_tokens": Histogram(_TOKENS),
            "request_prefill_kv_computed_tokens": Histogram(_TOKENS),
            "iteration_tokens_total": Histogram(_ITERATION),
        }
        self._first = self.histograms["time_to_first_token_seconds"]
        self._between = self.histograms["inter_token_latency_seconds"]
        self._iteration = self.histograms["iteration_tokens_total"]

    def count_end(self, reason: str) -> None:
        self.ends[reason] += 1

    def note_step(self, batch: Batch, tokens: Sequence[Token], end_ns: int, stamps: Sequence[int] = ()) -> None:
        """A step of this rank has ended at `end_ns` with `tokens`. `stamps`: ends of the steps, where requests were in
        a crowd and have no `last_ns`."""
        self._iteration.observe(float(batch.tokens))
        between = self._between
        for step, times in batch.awaited:
            between.observe((end_ns - stamps[step]) / 1e9, times)
        for request, last, _, since in tokens:
            if since is None:
                pass
            elif request.first_ns is None:
                request.first_ns = end_ns
                self.prompt_tokens += request.prompt
                self.cached_tokens += request.cached or 0
                self.external_tokens += request.external
                self._first.observe((end_ns - request.queued_ns) / 1e9)
            else:
                before = stamps[since] if stamps else request.last_ns
                between.observe((end_ns - (before or end_ns)) / 1e9)
            request.last_ns = end_ns
            if last:
                self._note_end(request)

    def note_calm(self, batch: Batch, stamps: Sequence[int], first: int, end: int) -> None:
        """Steps from `first` to before `end` in which everyone decoded."""
        self._iteration.observe(float(batch.tokens), end - first)
        self._between.observe_all(
            [(at - before) / 1e9 for before, at in pairwise(stamps[first - 1 : end])], batch.decodes
        )

    def note_quiet(self, batch: Batch, seconds: float, steps: int) -> None:
        """`steps` steps of about `seconds` in which everyone decoded."""
        self._iteration.observe(float(batch.tokens), steps)
        self._between.observe(seconds, batch.decodes * steps)

    def _note_end(self, request: Request) -> None:
        first, last, scheduled = request.first_ns, request.last_ns, request.scheduled_ns
        assert first is not None and last is not None and scheduled is not None
        seen = self.histograms
        seen["e2e_request_latency_seconds"].observe((last - request.queued_ns) / 1e9)
        seen["request_queue_time_seconds"].observe((scheduled - request.queued_ns) / 1e9)
        seen["request_inference_time_seconds"].observe((last - scheduled) / 1e9)
        seen["request_prefill_time_seconds"].observe((first - scheduled) / 1e9)
        seen["request_decode_time_seconds"].observe((last - first) / 1e9)
        if request.max_tokens > 1:
            seen["request_time_per_output_token_seconds"].observe((last - first) / (request.max_tokens - 1) / 1e9)
        seen["request_prompt_tokens"].observe(float(request.prompt))
        seen["request_generation_tokens"].observe(float(request.max_tokens))
        seen["request_prefill_kv_computed_tokens"].observe(float(request.prompt - (request.cached or 0)))
        self.count_end(request.reason)


# What each metric is, for the page's HELP lines: kind and text.
FAMILIES: dict[str, tuple[str, str]] = {
    "num_requests_running": ("gauge", "Requests in the running batch."),
    "num_requests_waiting": ("gauge", "Requests waiting to be scheduled."),
    "kv_cache_usage_perc": ("gauge", "Share of KV blocks in use, 1 is all of them."),
    "prefix_cache_queries": ("counter", "Prompt tokens looked up in the prefix cache."),
    "prefix_cache_hits": ("counter", "Prompt tokens found in the prefix cache."),
    "external_prefix_cache_queries": ("counter", "Prompt tokens looked up beyond this engine's cache."),
    "external_prefix_cache_hits": ("counter", "Prompt tokens found in host memory or in another engine."),
    "num_preemptions": ("counter", "Preemptions."),
    "prompt_tokens": ("counter", "Prompt tokens of requests that got their first token."),
    "prompt_tokens_cached": ("counter", "The same, found in the cache."),
    "prompt_tokens_by_source": ("counter", "Prompt tokens by where they came from."),
    "generation_tokens": ("counter", "Generated tokens."),
    "spec_decode_num_drafts": ("counter", "Drafts that were verified."),
    "spec_decode_num_accepted_tokens": ("counter", "Draft tokens that were accepted."),
    "request_success": ("counter", "Requests that ended, by reason."),
    "time_to_first_token_seconds": ("histogram", "Time to first token."),
    "inter_token_latency_seconds": ("histogram", "Time between tokens."),
    "request_time_per_output_token_seconds": ("histogram", "Mean time per output token of a request."),
    "e2e_request_latency_seconds": ("histogram", "Time from arrival to last token."),
    "request_queue_time_seconds": ("histogram", "Time spent waiting."),
    "request_inference_time_seconds": ("histogram", "Time from first scheduling to last token."),
    "request_prefill_time_seconds": ("histogram", "Time from first scheduling to first token."),
    "request_decode_time_seconds": ("histogram", "Time from first to last token."),
    "request_prompt_tokens": ("histogram", "Prompt tokens per request."),
    "request_generation_tokens": ("histogram", "Generated tokens per request."),
    "request_prefill_kv_computed_tokens": ("histogram", "Prompt tokens computed, not found in a cache."),
    "iteration_tokens_total": ("histogram", "Tokens per engine step."),
    "cache_config_info": ("gauge", "The cache's configuration, in labels."),
}


def rows(
    ranks: Sequence[Scheduler], metrics: Sequence[RankMetrics], model: str, *, histograms: bool = True
) -> Iterator[tuple[str, str, dict[str, str], float]]:
    """Every series: family (without prefix), sample name, labels, value; families in order, ranks inside."""
    labels = [{"engine": str(rank), "model_name": model} for rank in range(len(ranks))]
    for rank, scheduler in enumerate(ranks):
        yield "num_requests_running", "vllm:num_requests_running", labels[rank], float(len(scheduler.running))
    for rank, scheduler in enumerate(ranks):
        yield "num_requests_waiting", "vllm:num_requests_waiting", labels[rank], float(len(scheduler.waiting))
    for rank, scheduler in enumerate(ranks):
        usage = scheduler.pool.used / scheduler.pool.total
        yield "kv_cache_usage_perc", "vllm:kv_cache_usage_perc", labels[rank], usage
    counters = {
        "prefix_cache_queries": [float(scheduler.queries) for scheduler in ranks],
        "prefix_cache_hits": [float(scheduler.hits) for scheduler in ranks],
        "num_preemptions": [float(scheduler.preemptions) for scheduler in ranks],
        "prompt_tokens": [float(m.prompt_tokens) for m in metrics],
        "prompt_tokens_cached": [float(m.cached_tokens) for m in metrics],
        "generation_tokens": [float(scheduler.generated) for scheduler in ranks],
    }
    if any(scheduler.limits.host_blocks or scheduler.incoming.queries for scheduler in ranks):  # as with a connector
        counters["external_prefix_cache_queries"] = [float(scheduler.incoming.queries) for scheduler in ranks]
        counters["external_prefix_cache_hits"] = [float(scheduler.incoming.hits) for scheduler in ranks]
    if ranks[0].limits.query > 1:
        counters["spec_decode_num_drafts"] = [float(scheduler.drafts) for scheduler in ranks]
        counters["spec_decode_num_accepted_tokens"] = [float(scheduler.accepted_drafts) for scheduler in ranks]
    for family, values in counters.items():
        for rank, value in enumerate(values):
            yield family, f"vllm:{family}_total", labels[rank], value
    for rank, m in enumerate(metrics):
        by_source = {
            "local_compute": m.prompt_tokens - m.cached_tokens,
            "local_cache_hit": m.cached_tokens - m.external_tokens,
        }
        if m.external_tokens:
            by_source["external_kv_transfer"] = m.external_tokens
        for source, count in by_source.items():
            shown = {**labels[rank], "source": source}
            yield "prompt_tokens_by_source", "vllm:prompt_tokens_by_source_total", shown, float(count)
    for rank, m in enumerate(metrics):
        for reason, count in m.ends.items():
            shown = {**labels[rank], "finished_reason": reason}
            yield "request_success", "vllm:request_success_total", shown, float(count)
    for family in metrics[0].histograms if histograms else ():
        for rank, m in enumerate(metrics):
            for name, shown, value in m.histograms[family].series(f"vllm:{family}", labels[rank]):
                yield family, name, shown, value
    blocks = sum(scheduler.limits.blocks for scheduler in ranks)
    for rank, scheduler in enumerate(ranks):
        limits = scheduler.limits
        shown = {
            "block_size": str(limits.block_size),
            "enable_prefix_caching": str(limits.prefix_caching),
            "engine": str(rank),
            "num_gpu_blocks": str(blocks),  # as a real front end: of all its engines, in the line of each
        }
        yield "cache_config_info", "vllm:cache_config_info", shown, 1.0


def series(name: str, labels: Mapping[str, str]) -> str:
    """`name{label="v",...}` with sorted labels: how samples are keyed."""
    inner = ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels))
    return f"{name}{{{inner}}}" if inner else name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def snapshot(
    ranks: Sequence[Scheduler], metrics: Sequence[RankMetrics], model: str, *, histograms: bool = True
) -> dict[str, float]:
    """The series of an engine at this moment, as a scrape of its page would give them."""
    found = rows(ranks, metrics, model, histograms=histograms)
    return {_key(name, tuple(labels.items())): value for _, name, labels, value in found}


@lru_cache(maxsize=1 << 14)
def _key(name: str, labels: tuple[tuple[str, str], ...]) -> str:
    return sys.intern(series(name, dict(labels)))
