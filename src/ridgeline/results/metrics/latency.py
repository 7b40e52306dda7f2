"""Latencies: how long a user waits, for the first byte, the first token, the next one, the end. Seconds."""

from __future__ import annotations

from ridgeline.core.record import Outcome
from ridgeline.results.metrics.registry import Amount, Sample, metric
from ridgeline.results.metrics.scope import Scope
from ridgeline.results.metrics.statistics import PERCENTILES
from ridgeline.results.sweepline import Floats


@metric(
    "ttfb",
    title="Time to first byte",
    unit="s",
    better="lower",
    formula="first byte of the response body - request sent",
    source="ours; separates a proxy's or server's early empty chunk from the first token",
    pitfalls="a server that opens its stream at once shows a small value however long it queues",
)
def ttfb(scope: Scope) -> Sample:
    return Sample(scope.seconds("sent_ns", "first_byte_ns"), "no good request received a byte")


@metric(
    "ttft",
    title="Time to first token",
    unit="s",
    better="lower",
    formula="first generated token of any kind (text, reasoning, tool call, refusal) - request sent",
    source="AIPerf time_to_first_token, but counted from the last byte of the request handed to the kernel",
    pitfalls="role-only and empty chunks do not stop the clock; of a single agentic run the median varies by a third",
)
def ttft(scope: Scope) -> Sample:
    return Sample(_since_sent(scope, "first_token_ns"), "no good request received a token", ordered=True)


@metric(
    "ttft_visible",
    title="Time to first visible content",
    unit="s",
    better="lower",
    formula="first content a user sees (not reasoning) - request sent",
    source="AIPerf time_to_first_output_token",
    pitfalls="a model that only thinks or only calls tools has none; then the request is left out, not counted as 0",
)
def ttft_visible(scope: Scope) -> Sample:
    return Sample(scope.seconds("sent_ns", "first_visible_ns"), "no good request showed visible content")


@metric(
    "ttst",
    title="Time to second token event",
    unit="s",
    better="lower",
    formula="second content event - first content event",
    source="AIPerf time_to_second_token",
    pitfalls="events, not tokens: with several tokens in a chunk it is the gap of a whole chunk",
)
def ttst(scope: Scope) -> Sample:
    return Sample(scope.gaps.first, "no good request received two content events")


@metric(
    "icl",
    title="Inter-chunk latency",
    unit="s",
    better="lower",
    formula="gaps between neighbouring content events, pooled over all good requests",
    source="AIPerf inter_chunk_latency",
    pitfalls="a gap of a chunk, not of a token; chunks that arrive in one read give zeros; long answers weigh more",
)
def icl(scope: Scope) -> Sample:
    return Sample(scope.gaps.pooled, "no good request received two content events")


@metric(
    "e2e_latency",
    title="End-to-end latency",
    unit="s",
    better="lower",
    formula="last chunk with generated content - request sent",
    source="AIPerf request_latency: usage chunks and [DONE] do not count",
    pitfalls="grows with the answer's length: compare only at equal output lengths, or use e2e_interactivity",
)
def e2e_latency(scope: Scope) -> Sample:
    return Sample(_since_sent(scope, "last_token_ns"), "no good request received a token", ordered=True)


@metric(
    "decode_duration",
    title="Decode duration",
    unit="s",
    better="lower",
    formula="last chunk with generated content - first generated token",
    source="AIPerf decode_duration",
    pitfalls="0 when the whole answer came in one chunk",
)
def decode_duration(scope: Scope) -> Sample:
    return Sample(scope.seconds("first_token_ns", "last_token_ns"), "no good request received a token")


@metric(
    "full_decode_duration",
    title="Decode duration to the end of the response",
    unit="s",
    better="lower",
    formula="end of the HTTP response - first generated token",
    source="full_decode_duration of AIPerf's fork for InferenceX (agentx-harness)",
    pitfalls="usage, [DONE] and a server's tidying up are inside; beside decode_duration it tells how long they take",
)
def full_decode_duration(scope: Scope) -> Sample:
    return Sample(scope.seconds("first_token_ns", "end_ns"), "no good request received a token")


def _since_sent(scope: Scope, end: str) -> Floats:
    """Seconds from sending to `end`, ascending."""
    return scope.ordered(f"sent to {end}", lambda: scope.seconds("sent_ns", end))


def _adjusted(scope: Scope, end: str) -> dict[str, Amount]:
    """Percentiles over successes and one +infinity for every error, without interpolating towards infinity: the
    sample nearest to p/100*(n-1), halves to the even one (AIPerf adj_*)."""
    values = _since_sent(scope, end)
    errors = errors_of(scope)
    n = len(values) + errors
    found = {}
    for p in PERCENTILES:
        place = round(p * (n - 1) / 100)
        if n == 0:
            found[f"p{p:g}"] = Amount(None, 0, "no request was answered")
        elif place >= len(values):
            found[f"p{p:g}"] = Amount(None, n, f"beyond the last success: {errors} of {n} requests failed")
        else:
            found[f"p{p:g}"] = Amount(float(values[place]), n)
    return found


def errors_of(scope: Scope) -> int:
    """Requests that failed: every outcome but ok, cancelled by us at the end, and context overflow (skipped)."""
    fine = (Outcome.OK, Outcome.CANCELLED, Outcome.OVERFLOW)
    return sum(scope.count(outcome) for outcome in Outcome if outcome not in fine)


@metric(
    "ttft_adjusted",
    title="Time to first token, failures counted as endless",
    unit="s",
    better="lower",
    kind="parts",
    parts=tuple(f"p{p:g}" for p in PERCENTILES),
    formula="percentiles (nearest sample) of ttft over good requests and one infinite value for every failed one",
    source="AIPerf adj_time_to_first_token",
    pitfalls="missing beyond the last success, by design: a run that sheds load cannot look fast here",
)
def ttft_adjusted(scope: Scope) -> dict[str, Amount]:
    return _adjusted(scope, "first_token_ns")


@metric(
    "e2e_latency_adjusted",
    title="End-to-end latency, failures counted as endless",
    unit="s",
    better="lower",
    kind="parts",
    parts=tuple(f"p{p:g}" for p in PERCENTILES),
    formula="percentiles (nearest sample) of e2e_latency over good requests and one infinite value for each failed one",
    source="AIPerf adj_request_latency",
    pitfalls="missing beyond the last success, by design",
)
def e2e_latency_adjusted(scope: Scope) -> dict[str, Amount]:
    return _adjusted(scope, "last_token_ns")
