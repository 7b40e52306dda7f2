"""The engine's own state over the window: KV use, queues, preemptions, speculation."""

from __future__ import annotations

import re

from ridgeline.results.metrics.pools import vllm_pools
from ridgeline.results.metrics.registry import Amount, metric
from ridgeline.results.metrics.scope import Scope
from ridgeline.results.metrics.scrapes import Level, Line, quantile

_KV = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
_ENGINE = re.compile(r'(?:^|,)engine="([^"]*)"')
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
_PREEMPTED = ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total")
_ACCEPTED = ("vllm:spec_decode_num_accepted_tokens_total",)
_DRAFTS = ("vllm:spec_decode_num_drafts_total",)


def _level(scope: Scope, names: tuple[str, ...]) -> Level | None:
    window = scope.server_window_ns
    return scope.scrapes.level(names, window) if window else None


def _rank(line: Line) -> tuple[str, str]:
    """What tells one rank from another: its address, and the engine's number or all of its labels."""
    engine = _ENGINE.search(line.labels)
    return line.endpoint, engine.group(1) if engine else line.labels


def _pool_sizes(scope: Scope) -> dict[tuple[str, str], float]:
    """KV tokens of every rank that shows them."""
    found = {_rank(line): float(line.values[-1]) for line in scope.scrapes.own("sglang:max_total_num_tokens")}
    return found | {_rank(line): size for line, size in vllm_pools(scope.scrapes)}


@metric(
    "kv_usage",
    title="KV cache use",
    unit="ratio",
    better=None,
    kind="parts",
    parts=("mean", "peak"),
    formula="mean: of the scrapes of each rank, then over ranks by the size of their KV caches (equally where a size "
    "is not shown); peak: the highest value of any rank",
    source="vLLM kv_cache_usage_perc, cache_config_info; SGLang token_usage, max_total_num_tokens",
    pitfalls="a mean hides a full pool, a peak hides an empty one: both are named",
)
def kv_usage(scope: Scope) -> dict[str, Amount]:
    sizes, window = _pool_sizes(scope), scope.server_window_ns
    level = scope.scrapes.level(_KV, window, lambda line: sizes.get(_rank(line))) if window else None
    if level is None:
        return dict.fromkeys(("mean", "peak"), Amount(None, None, "the server's KV cache use was not scraped"))
    return {"mean": Amount(level.mean, level.series), "peak": Amount(level.peak, level.series)}


@metric(
    "queue_depth",
    title="Requests waiting at the server",
    unit="requests",
    better="lower",
    kind="parts",
    parts=("mean", "peak"),
    formula="sum over ranks and endpoints: its mean and its highest value at one time",
    source="vLLM num_requests_waiting, SGLang num_queue_reqs",
    pitfalls="scrapes are samples: short queues between two of them are not seen",
)
def queue_depth(scope: Scope) -> dict[str, Amount]:
    return _summed(_level(scope, _WAITING), "the server's queue was not scraped")


@metric(
    "running",
    title="Requests running at the server",
    unit="requests",
    better=None,
    kind="parts",
    parts=("mean", "peak"),
    formula="sum over ranks and endpoints: its mean and its highest value at one time",
    source="vLLM num_requests_running, SGLang num_running_reqs",
    pitfalls="below the concurrency whenever lanes think",
)
def running(scope: Scope) -> dict[str, Amount]:
    return _summed(_level(scope, _RUNNING), "the server's running requests were not scraped")


@metric(
    "preemptions",
    title="Preemptions",
    unit="requests",
    better="lower",
    kind="scalar",
    formula="increase of the server's preemption (vLLM) or retraction (SGLang) counter over the window",
    source="vLLM num_preemptions, SGLang num_retracted_requests",
    pitfalls="more than a thousandth of the requests means the KV cache is too small for this concurrency",
)
def preemptions(scope: Scope) -> Amount:
    window = scope.server_window_ns
    count = scope.scrapes.increase(_PREEMPTED, window) if window else None
    return Amount(count, None, None if count is not None else "the server's preemption counter was not scraped")


@metric(
    "acceptance_length",
    title="Acceptance length of speculation",
    unit="tokens",
    better="higher",
    kind="scalar",
    formula="1 + accepted draft tokens / drafts, both increases over the window",
    source="vLLM spec_decode counters",
    pitfalls="random or repeated prompts make it unlike real text",
)
def acceptance_length(scope: Scope) -> Amount:
    window = scope.server_window_ns
    drafts = scope.scrapes.increase(_DRAFTS, window) if window else None
    accepted = scope.scrapes.increase(_ACCEPTED, window) if window else None
    if drafts is None or accepted is None or drafts <= 0:
        return Amount(None, None, "the server reports no speculation")
    return Amount(1 + accepted / drafts, int(drafts))


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def _quantiles(scope: Scope, names: tuple[str, ...]) -> dict[str, Amount]:
    window = scope.server_window_ns
    buckets = scope.scrapes.histogram(names, window) if window else []
    found = {}
    for part, share in _SHARES.items():
        value, above = quantile(buckets, share)
        if value is not None:
            found[part] = Amount(value, int(buckets[-1][1]))
        elif above is not None:
            found[part] = Amount(None, int(buckets[-1][1]), f"above {above:g} s, the histogram's last bound")
        else:
            found[part] = Amount(None, 0, "the server's histogram was not scraped over the window")
    return found


@metric(
    "server_ttft",
    title="Time to first token, as the server counts it",
    unit="s",
    better="lower",
    kind="parts",
    parts=tuple(_SHARES),
    formula="quantile of the increase of the server's histogram over the window, linear inside a bucket",
    source="vLLM and SGLang time_to_first_token_seconds",
    pitfalls="as coarse as the buckets; beyond the last bound there is no value; leaves out network and client, so a "
    "large difference to ttft points there",
)
def server_ttft(scope: Scope) -> dict[str, Amount]:
    return _quantiles(scope, ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"))


@metric(
    "server_queue_time",
    title="Time in the server's queue",
    unit="s",
    better="lower",
    kind="parts",
    parts=tuple(_SHARES),
    formula="quantile of the increase of the server's histogram over the window, linear inside a bucket",
    source="vLLM request_queue_time_seconds, SGLang queue_time_seconds",
    pitfalls="as coarse as the buckets; beyond the last bound there is no value",
)
def server_queue_time(scope: Scope) -> dict[str, Amount]:
    return _quantiles(scope, ("vllm:request_queue_time_seconds", "sglang:queue_time_seconds"))


def _summed(level: Level | None, missing: str) -> dict[str, Amount]:
    if level is None:
        return dict.fromkeys(("mean", "peak"), Amount(None, None, missing))
    return {"mean": Amount(level.sum_mean, level.series), "peak": Amount(level.sum_peak, level.series)}
