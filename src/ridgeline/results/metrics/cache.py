"""Prefix cache: what the server hit, what its answers say, and what the trace would allow at best. Ratios 0 to 1."""

from __future__ import annotations

import numpy as np

from ridgeline.results.metrics.registry import Amount, metric
from ridgeline.results.metrics.scope import Scope

# (hits, queries, label) by engine, most direct first. Both count tokens.
_COUNTERS = (
    ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total", None),
    ("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total", None),
    ("sglang:cached_tokens_total", "sglang:prompt_tokens_total", None),
)
_EXTERNAL = ("vllm:external_prefix_cache_hits_total", "vllm:external_prefix_cache_queries_total")
_NOT_SCRAPED = "the server's prefix cache counters were not scraped over the window"


@metric(
    "server_cache_hit",
    title="Prefix cache hit rate, server",
    unit="ratio",
    better="higher",
    kind="scalar",
    formula="increase of hit tokens / increase of queried tokens, summed over all ranks and endpoints, over the window "
    "from the start of profiling to the end of the drain",
    source="vLLM prefix_cache_hits/queries, SGLang cached_tokens/prompt_tokens, as InferenceX reads them",
    pitfalls="a ratio of sums, never a mean of ratios; mirrored endpoints count once; restarts go on from zero",
)
def server_cache_hit(scope: Scope) -> Amount:
    window = scope.server_window_ns
    if window is None:
        return Amount(None, None, "the replay has no profiling window")
    for hits, queries, label in _COUNTERS:
        asked = scope.scrapes.increase((queries,), window)
        hit = scope.scrapes.increase((hits,), window, label)
        if asked is None:
            continue
        if asked <= 0:
            return Amount(None, 0, "the server's prefix cache was not queried")
        if hit is None and hits.startswith("sglang:"):
            hit = 0.0  # a labelled counter appears with its first hit
        if hit is not None:
            return Amount(hit / asked, int(asked))
    return Amount(None, None, _NOT_SCRAPED)


@metric(
    "external_cache_hit",
    title="Prefix cache hit rate, external tier",
    unit="ratio",
    better="higher",
    kind="scalar",
    formula="increase of external hit tokens / increase of external queried tokens over the window",
    source="vLLM external_prefix_cache_hits/queries",
    pitfalls="queries are what the GPU cache missed, so it is not a share of all prompt tokens",
)
def external_cache_hit(scope: Scope) -> Amount:
    window = scope.server_window_ns
    asked = scope.scrapes.increase((_EXTERNAL[1],), window) if window else None
    hit = scope.scrapes.increase((_EXTERNAL[0],), window) if window else None
    if asked is None or hit is None:
        return Amount(None, None, "the server reports no external cache")
    return Amount(hit / asked, int(asked)) if asked > 0 else Amount(None, 0, "the external cache was not queried")


@metric(
    "usage_cache_hit",
    title="Prefix cache hit rate, by usage",
    unit="ratio",
    better="higher",
    kind="scalar",
    formula="sum of usage cached tokens / sum of prompt tokens, over the good requests that report both",
    source="OpenAI usage.prompt_tokens_details.cached_tokens",
    pitfalls="vLLM reports it only with --enable-prompt-tokens-details; some servers leave cached tokens out of the "
    "prompt count, which makes it too high",
)
def usage_cache_hit(scope: Scope) -> Amount:
    cached, prompt = scope.pick("cached_tokens"), scope.pick("prompt_tokens")
    both = ~np.isnan(cached) & ~np.isnan(prompt)
    total = float(prompt[both].sum())
    if total <= 0:
        return Amount(None, 0, "no usage reports cached tokens")
    return Amount(float(cached[both].sum()) / total, int(both.sum()))


@metric(
    "theoretical_cache_hit",
    title="Prefix cache hit rate of the trace",
    unit="ratio",
    better=None,
    kind="scalar",
    formula="sum of blocks already seen in the trace / sum of all its blocks, over the good requests",
    source="AIPerf theoretical_prefix_cache_hit: an infinite cache, one trace at a time",
    pitfalls="a property of the recording: lanes that start in the middle of a session count hits nobody could have",
)
def theoretical_cache_hit(scope: Scope) -> Amount:
    hit, blocks = scope.pick("theoretical_hit_blocks"), scope.pick("theoretical_total_blocks")
    both = ~np.isnan(hit) & ~np.isnan(blocks)
    total = float(blocks[both].sum())
    return (
        Amount(float(hit[both].sum()) / total, int(both.sum()))
        if total > 0
        else Amount(None, 0, "the trace has no block hashes")
    )


@metric(
    "cache_hit_gap",
    title="Cache hits missed",
    unit="ratio",
    better="lower",
    kind="scalar",
    formula="theoretical_cache_hit - server_cache_hit",
    source="ours; InferenceX expects at most 0.10 at a capacity that holds the sessions",
    pitfalls="negative when requests share more than the trace knows: contamination, or a common system prompt",
)
def cache_hit_gap(scope: Scope) -> Amount:
    ideal, real = theoretical_cache_hit(scope), server_cache_hit(scope)
    if ideal.value is None or real.value is None:
        return Amount(None, None, ideal.reason if ideal.value is None else real.reason)
    return Amount(ideal.value - real.value, real.n)
