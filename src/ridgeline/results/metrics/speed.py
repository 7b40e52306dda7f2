"""Time per output token and its inverse, interactivity: how fast one user sees tokens."""

from __future__ import annotations

import numpy as np

from ridgeline.results.metrics.registry import Sample, metric
from ridgeline.results.metrics.scope import Scope, finite
from ridgeline.results.sweepline import Floats


def itl_seconds(scope: Scope, end: str = "last_token_ns") -> Floats:
    """(last - first token)/(output tokens - 1) of the good requests with two or more output tokens: seconds, ascending.
    `end`: the time that stands for the last token."""

    def values() -> Floats:
        tokens = scope.pick("completion_tokens")
        span = (scope.pick(end) - scope.pick("first_token_ns")) / 1e9
        return finite(_divide(span, np.where(tokens >= 2, tokens - 1, np.nan)))

    return scope.ordered(f"itl to {end}", values)


def _divide(a: Floats, b: Floats) -> Floats:
    """a/b, NaN where b is not positive."""
    return a / np.where(b > 0, b, np.nan)


@metric(
    "itl",
    title="Inter-token latency",
    unit="s",
    better="lower",
    formula="(last - first token) / (output tokens - 1), one value a request, from two tokens on",
    source="AIPerf inter_token_latency; output tokens are the server's usage.completion_tokens, reasoning included",
    pitfalls="too small when the first chunk holds several tokens (speculation, stream interval): see tpot",
)
def itl(scope: Scope) -> Sample:
    return Sample(itl_seconds(scope), "no good request with two or more output tokens", ordered=True)


@metric(
    "tpot",
    title="Time per output token",
    unit="s",
    better="lower",
    formula="(last - first token) / (output tokens - tokens of the first chunk), from two tokens on",
    source="ours: true when chunks hold several tokens; equal to itl when each holds one",
    pitfalls="needs the first chunk's token count: told by the server, or known to be 1 when there are as many chunks "
    "as tokens; missing otherwise, and when the whole answer came in the first chunk",
)
def tpot(scope: Scope) -> Sample:
    tokens, first = scope.pick("completion_tokens"), scope.pick("first_chunk_tokens")
    one_each = np.isnan(first) & (scope.pick("chunks") == tokens)
    later = tokens - np.where(one_each, 1.0, first)
    span = (scope.pick("last_token_ns") - scope.pick("first_token_ns")) / 1e9
    values = finite(_divide(span, np.where(tokens >= 2, later, np.nan)))
    return Sample(values, "no good request tells how many tokens its first chunk held and has more after it")


@metric(
    "interactivity",
    title="Interactivity",
    unit="tok/s/user",
    better="higher",
    kind="speed",
    formula="1 / itl: pXX is 1/(pXX of itl), so p90 is what the slowest tenth sees; std is that of the requests' 1/itl",
    source="InferenceX intvty",
    pitfalls="a high percentile is the slow tail, not the fast one; says nothing about queueing: see e2e_interactivity",
)
def interactivity(scope: Scope) -> Sample:
    return Sample(itl_seconds(scope), "no good request with two or more output tokens", ordered=True)


@metric(
    "full_itl",
    title="Inter-token latency to the end of the response",
    unit="s",
    better="lower",
    formula="full_decode_duration / (output tokens - 1), one value a request, from two tokens on",
    source="full_response_inter_token_latency of AIPerf's fork for InferenceX (agentx-harness)",
    pitfalls="what InferenceX's app shows for agentic points where it has it; itl stops at the last token",
)
def full_itl(scope: Scope) -> Sample:
    return Sample(itl_seconds(scope, "end_ns"), "no good request with two or more output tokens", ordered=True)


@metric(
    "full_interactivity",
    title="Interactivity to the end of the response",
    unit="tok/s/user",
    better="higher",
    kind="speed",
    formula="1 / full_itl: pXX is 1/(pXX of full_itl)",
    source="InferenceX full_response_intvty",
    pitfalls="a high percentile is the slow tail, as with interactivity",
)
def full_interactivity(scope: Scope) -> Sample:
    return Sample(itl_seconds(scope, "end_ns"), "no good request with two or more output tokens", ordered=True)


@metric(
    "e2e_interactivity",
    title="Interactivity, end to end",
    unit="tok/s/user",
    better="higher",
    kind="speed",
    formula="1 / (e2e_latency / output tokens): pXX is 1/(pXX of the time per token)",
    source="InferenceX e2e_norm_intvty, the north star of agentic points",
    pitfalls="short answers weigh as much as long ones, and their wait for the first token dominates",
)
def e2e_interactivity(scope: Scope) -> Sample:
    latency = (scope.pick("last_token_ns") - scope.pick("sent_ns")) / 1e9
    values = finite(_divide(latency, scope.pick("completion_tokens")))
    return Sample(values, "no good request with output tokens")


@metric(
    "prefill_throughput",
    title="Prefill throughput per user",
    unit="tok/s/user",
    better="higher",
    formula="prompt tokens / ttft, one value a request",
    source="AIPerf prefill_throughput_per_user",
    pitfalls="counts cached prompt tokens and the time in the queue: not a speed of the hardware",
)
def prefill_throughput(scope: Scope) -> Sample:
    wait = (scope.pick("first_token_ns") - scope.pick("sent_ns")) / 1e9
    return Sample(finite(_divide(scope.pick("prompt_tokens"), wait)), "no good request with a prompt count and a token")
