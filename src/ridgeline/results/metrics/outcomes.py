"""How requests ended: counts by outcome and the shares that decide whether a point may be trusted."""

from __future__ import annotations

from ridgeline.core.record import Outcome
from ridgeline.results.metrics.latency import errors_of
from ridgeline.results.metrics.registry import Amount, metric
from ridgeline.results.metrics.scope import Scope

PARTS = ("total", "good", "disordered", "warmup", *(str(outcome) for outcome in Outcome))


@metric(
    "requests",
    title="Requests by outcome",
    unit="requests",
    better=None,
    kind="parts",
    parts=PARTS,
    formula="profiling requests by outcome; total is their sum, good are those that latencies and throughput are made "
    "of, disordered are ok but their times are not in order; warmup counts the other phase",
    source="ours: a closed list of outcomes",
    pitfalls="a total is what was sent, not what was answered",
)
def requests(scope: Scope) -> dict[str, Amount]:
    counts = {str(outcome): scope.count(outcome) for outcome in Outcome}
    counts["total"] = int(scope.columns.profiling.sum())
    counts["good"] = int(scope.good.sum())
    counts["disordered"] = int((scope.disordered & scope.columns.profiling).sum())
    counts["warmup"] = len(scope.columns) - counts["total"]
    return {part: Amount(float(counts[part])) for part in PARTS}


@metric(
    "error_rate",
    title="Error rate",
    unit="ratio",
    better="lower",
    kind="scalar",
    formula="failed / (ok + failed); failed is every outcome but ok, cancelled at the end, and context overflow",
    source="AIPerf request_error_rate; the gate of InferenceX allows 0.10",
    pitfalls="empty and truncated answers are failures, not fast successes",
)
def error_rate(scope: Scope) -> Amount:
    failed, ok = errors_of(scope), scope.count(Outcome.OK)
    return Amount(failed / (ok + failed), ok + failed) if ok + failed else Amount(None, 0, "no request was completed")


@metric(
    "overflow_rate",
    title="Context overflow rate",
    unit="ratio",
    better="lower",
    kind="scalar",
    formula="requests the server refused as too long / (ok + failed + refused as too long)",
    source="AIPerf context_overflow_rate; above 0.01 a submission is invalid",
    pitfalls="an overflow ends its stream early, so it also takes later, longer turns out of the run",
)
def overflow_rate(scope: Scope) -> Amount:
    skipped = scope.count(Outcome.OVERFLOW)
    n = skipped + errors_of(scope) + scope.count(Outcome.OK)
    return Amount(skipped / n, n) if n else Amount(None, 0, "no request was completed")
