"""Throughput: tokens and requests per second, per GPU, over the full and over the steady window."""

from __future__ import annotations

import numpy as np

from ridgeline.results.metrics.registry import Amount, metric
from ridgeline.results.metrics.scope import Scope
from ridgeline.results.metrics.steady import Span

PARTS = ("total", "input", "output")
_NO_WINDOW = "no good request, so there is no window"


@metric(
    "duration",
    title="Duration of the full window",
    unit="s",
    better=None,
    kind="scalar",
    formula="last end - first sending, over the good requests",
    source="InferenceX duration_seconds",
    pitfalls="one straggler stretches it: see the steady window",
)
def duration(scope: Scope) -> Amount:
    return Amount(scope.duration_s, int(scope.good.sum()), None if scope.duration_s else _NO_WINDOW)


@metric(
    "throughput",
    title="Throughput",
    unit="tok/s",
    better="higher",
    kind="parts",
    parts=PARTS,
    formula="sum of prompt (input), completion (output) or both (total) tokens of the good requests / duration",
    source="InferenceX tokens_per_second; AIPerf divides by the whole profiling phase with its drain instead",
    pitfalls="tokens are the server's usage; input counts cached tokens too; ramp-up and drain are inside the window",
)
def throughput(scope: Scope) -> dict[str, Amount]:
    seconds = scope.duration_s
    if seconds is None:
        return dict.fromkeys(PARTS, Amount(None, 0, _NO_WINDOW))
    found = {part: _sum(scope, column) for part, column in (("input", "prompt"), ("output", "completion"))}
    return _with_total({part: _over(amount, seconds) for part, amount in found.items()})


@metric(
    "throughput_per_gpu",
    title="Throughput per GPU",
    unit="tok/s/GPU",
    better="higher",
    kind="parts",
    parts=PARTS,
    formula="throughput / all GPUs the topology occupies (tp x pp x pcp per worker, all pools)",
    source="InferenceX tput_per_gpu for one pool; for several pools we divide all parts by all GPUs",
    pitfalls="ep and dcp never multiply the GPU count",
)
def throughput_per_gpu(scope: Scope) -> dict[str, Amount]:
    return {part: _over(amount, scope.gpus) for part, amount in throughput(scope).items()}


@metric(
    "request_rate",
    title="Request rate",
    unit="req/s",
    better="higher",
    kind="scalar",
    formula="good requests / duration",
    source="ours, over the same window as throughput; AIPerf request_throughput divides by the whole phase",
    pitfalls="what was achieved, not what was asked for",
)
def request_rate(scope: Scope) -> Amount:
    n = int(scope.good.sum())
    return Amount(n / scope.duration_s, n) if scope.duration_s else Amount(None, n, _NO_WINDOW)


@metric(
    "steady_duration",
    title="Duration of the steady window",
    unit="s",
    better=None,
    kind="scalar",
    formula="longest span of the profiling phase with at least 90 % of the lanes held by a live session tree",
    source="ours",
    pitfalls="think time counts as held; missing when the concurrency asked for was never reached",
)
def steady_duration(scope: Scope) -> Amount:
    span = scope.steady
    return Amount(span.seconds) if isinstance(span, Span) else Amount(None, None, span)


@metric(
    "throughput_steady",
    title="Throughput in the steady window",
    unit="tok/s",
    better="higher",
    kind="parts",
    parts=PARTS,
    formula="output tokens spread evenly from first to last token, input tokens at the first token; those inside the "
    "steady window / its duration",
    source="ours",
    pitfalls="counts good requests only; a request whose answer came in one chunk counts at that instant",
)
def throughput_steady(scope: Scope) -> dict[str, Amount]:
    span = scope.steady
    if not isinstance(span, Span):
        return dict.fromkeys(PARTS, Amount(None, None, span))
    first, last = scope.pick("first_token_ns"), scope.pick("last_token_ns")
    inside = np.clip(np.minimum(last, span.end_ns) - np.maximum(first, span.start_ns), 0, None)
    at_once = ((first >= span.start_ns) & (first <= span.end_ns)).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(last > first, inside / (last - first), at_once)
    found = {}
    for part, column, weight in (("input", "prompt_tokens", at_once), ("output", "completion_tokens", share)):
        tokens = scope.pick(column)
        known = ~np.isnan(tokens) & ~np.isnan(first)
        total = float((tokens[known] * weight[known]).sum())
        n = int(np.count_nonzero(known))
        found[part] = Amount(total / span.seconds, n) if n else Amount(None, 0, f"no good request has {column}")
    return _with_total(found)


@metric(
    "throughput_per_gpu_steady",
    title="Throughput per GPU in the steady window",
    unit="tok/s/GPU",
    better="higher",
    kind="parts",
    parts=PARTS,
    formula="throughput_steady / all GPUs the topology occupies",
    source="ours",
    pitfalls="see throughput_steady",
)
def throughput_per_gpu_steady(scope: Scope) -> dict[str, Amount]:
    return {part: _over(amount, scope.gpus) for part, amount in throughput_steady(scope).items()}


@metric(
    "goodput",
    title="Goodput",
    unit="req/s",
    better="higher",
    kind="scalar",
    formula="good requests that keep every limit of the service level (ttft, itl, e2e) / duration",
    source="the goodput of DistServe, as vLLM bench and AIPerf report it",
    pitfalls="depends on the limits: compare only at the same ones; a one-token answer has no itl and keeps that limit",
)
def goodput(scope: Scope) -> Amount:
    slo = scope.slo
    if slo is None:
        return Amount(None, None, "no service level was given")
    if scope.duration_s is None:
        return Amount(None, 0, _NO_WINDOW)
    sent, first, last = (scope.pick(name) / 1e9 for name in ("sent_ns", "first_token_ns", "last_token_ns"))
    tokens = scope.pick("completion_tokens")
    kept = np.ones(len(sent), dtype=bool)
    if slo.ttft_s is not None:
        kept &= first - sent <= slo.ttft_s
    if slo.e2e_s is not None:
        kept &= last - sent <= slo.e2e_s
    if slo.itl_s is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            kept &= (tokens < 2) | ((last - first) / (tokens - 1) <= slo.itl_s)
    return Amount(int(kept.sum()) / scope.duration_s, len(kept))


def _sum(scope: Scope, kind: str) -> Amount:
    tokens = scope.pick(f"{kind}_tokens")
    known = tokens[~np.isnan(tokens)]
    return Amount(float(known.sum()), len(known)) if len(known) else Amount(None, 0, f"no usage reports {kind} tokens")


def _over(amount: Amount, by: float) -> Amount:
    return amount if amount.value is None else amount._replace(value=amount.value / by)


def _with_total(found: dict[str, Amount]) -> dict[str, Amount]:
    gap = next((amount for amount in found.values() if amount.value is None), None)
    n = min(amount.n or 0 for amount in found.values())
    return found | {"total": gap or Amount(sum(amount.value or 0.0 for amount in found.values()), n)}
