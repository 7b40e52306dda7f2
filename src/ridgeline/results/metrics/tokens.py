"""Token counts: what was asked, what the server says it read and wrote, and whether the counts agree."""

from __future__ import annotations

import numpy as np

from ridgeline.results.metrics.registry import Amount, Sample, metric
from ridgeline.results.metrics.scope import Scope, finite

_GENERATED = ("vllm:generation_tokens_total", "sglang:generation_tokens_total")
_READ = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total")


@metric(
    "input_tokens",
    title="Prompt tokens",
    unit="tokens",
    better=None,
    formula="usage.prompt_tokens, one value a request",
    source="AIPerf input_sequence_length with the server's count",
    pitfalls="includes the chat template and cached tokens",
)
def input_tokens(scope: Scope) -> Sample:
    return Sample(finite(scope.pick("prompt_tokens")), "no usage reports prompt tokens")


@metric(
    "output_tokens",
    title="Completion tokens",
    unit="tokens",
    better=None,
    formula="usage.completion_tokens, reasoning included, one value a request",
    source="AIPerf output_sequence_length with the server's count",
    pitfalls="without ignore_eos a model may stop early: compare with what the trace recorded",
)
def output_tokens(scope: Scope) -> Sample:
    return Sample(finite(scope.pick("completion_tokens")), "no usage reports completion tokens")


@metric(
    "reasoning_tokens",
    title="Reasoning tokens",
    unit="tokens",
    better=None,
    formula="usage.completion_tokens_details.reasoning_tokens, one value a request",
    source="AIPerf reasoning_token_count",
    pitfalls="many servers do not report it: missing, not zero",
)
def reasoning_tokens(scope: Scope) -> Sample:
    return Sample(finite(scope.pick("reasoning_tokens")), "no usage reports reasoning tokens")


@metric(
    "tokens",
    title="Tokens in all",
    unit="tokens",
    better=None,
    kind="parts",
    parts=("input", "output"),
    formula="sum of the server's prompt and completion tokens over the good requests",
    source="AIPerf total_isl, total_osl",
    pitfalls="input counts cached tokens too",
)
def tokens(scope: Scope) -> dict[str, Amount]:
    found = {}
    for part, column in (("input", "prompt_tokens"), ("output", "completion_tokens")):
        known = finite(scope.pick(column))
        found[part] = Amount(float(known.sum()), len(known)) if len(known) else Amount(None, 0, f"no {column} reported")
    return found


@metric(
    "tokens_per_chunk",
    title="Tokens per chunk",
    unit="tokens",
    better=None,
    formula="completion tokens / content events, one value a request",
    source="ours: above 1, itl and tpot part ways",
    pitfalls="speculation, stream intervals and proxies all raise it",
)
def tokens_per_chunk(scope: Scope) -> Sample:
    chunks = scope.pick("chunks")
    values = finite(scope.pick("completion_tokens") / np.where(chunks > 0, chunks, np.nan))
    return Sample(values, "no good request has both counts")


@metric(
    "prompt_difference",
    title="Prompt tokens served beyond those asked for",
    unit="tokens",
    better=None,
    formula="usage.prompt_tokens - prompt tokens of the trace, one value a request",
    source="ours",
    pitfalls="a chat template adds a few tokens to every message; much more means the workload is not the recorded one",
)
def prompt_difference(scope: Scope) -> Sample:
    difference = scope.pick("prompt_tokens") - scope.pick("asked_prompt_tokens")
    return Sample(finite(difference), "no request has both counts")


@metric(
    "prompt_drift",
    title="Prompt drift",
    unit="ratio",
    better=None,
    kind="scalar",
    formula="sum of served prompt tokens / sum of asked ones - 1, over the good requests that have both",
    source="ours",
    pitfalls="signed: positive when more was served than recorded",
)
def prompt_drift(scope: Scope) -> Amount:
    served, asked = scope.pick("prompt_tokens"), scope.pick("asked_prompt_tokens")
    both = ~np.isnan(served) & ~np.isnan(asked)
    total = float(asked[both].sum())
    if total <= 0:
        return Amount(None, 0, "no request has both counts")
    return Amount(float(served[both].sum()) / total - 1, int(both.sum()))


# Bytes of KV that one engine got from another: then two engines counted the same prompt.
HANDED_OVER = ("ridgeline:kv_transfer_bytes_total", "vllm:nixl_bytes_transferred_sum")


@metric(
    "count_difference",
    title="Client's counts against the server's counters",
    unit="ratio",
    better=None,
    kind="parts",
    parts=("input", "output"),
    formula="sum of usage over the profiling requests / increase of the server's token counters over the window - 1; "
    "0 where the scrapes next to the window's ends leave room for the client's sum",
    source="ours; counters prompt_tokens_total and generation_tokens_total of vLLM and SGLang",
    pitfalls="cancelled requests cost the server tokens the client never saw; somebody else's load shows as negative; "
    "none where KV goes from prefill to decode workers, since both count a prompt",
)
def count_difference(scope: Scope) -> dict[str, Amount]:
    window = scope.server_window_ns
    if window and any(scope.scrapes.increase((name,), window) for name in HANDED_OVER):
        reason = "prefill and decode workers both count a prompt, and its first token"
        return {part: Amount(None, None, reason) for part in ("input", "output")}
    found = {}
    for part, column, names in (("input", "prompt_tokens", _READ), ("output", "completion_tokens", _GENERATED)):
        mine = finite(scope.columns[column][scope.columns.profiling])
        theirs = scope.scrapes.increase(names, window) if window else None
        if not theirs:
            reason = "the server's token counters were not scraped over the window"
            found[part] = Amount(None, None, reason if theirs is None else "the server counted no tokens")
        elif not len(mine):
            found[part] = Amount(None, 0, f"no usage reports {column}")
        else:
            least = scope.scrapes.least_increase(names, window) if window else 0.0
            counted = float(mine.sum())
            nearest = min(max(counted, least), theirs)  # the server's sum lies between the two
            found[part] = Amount(counted / nearest - 1, len(mine))
    return found
