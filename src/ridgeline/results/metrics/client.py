"""The client's own part in the numbers: whether what was measured is the server or us."""

from __future__ import annotations

import numpy as np

from ridgeline.results.metrics.registry import Amount, Sample, metric
from ridgeline.results.metrics.scope import Scope
from ridgeline.results.sweepline import Floats

EMULATOR_LAG = "ridgeline:emulator_lag_seconds"


@metric(
    "send_lag",
    title="Send lag",
    unit="s",
    better="lower",
    formula="request sent - moment the pacing machine wanted it sent, one value a profiling request, failed ones too",
    source="AIPerf credit_to_start_latency",
    pitfalls="above 5 % of the median ttft the client shapes the result; simulated seconds: a speed-up enlarges it",
)
def send_lag(scope: Scope) -> Sample:
    def lags() -> Floats:
        lag = (scope.columns["sent_ns"] - scope.columns["scheduled_ns"])[scope.columns.profiling] / 1e9
        return np.clip(lag[~np.isnan(lag)], 0, None)

    return Sample(scope.ordered("send lag", lags), "no profiling request was sent", ordered=True)


@metric(
    "schedule_lag",
    title="Schedule lag of the client's loop",
    unit="s",
    better="lower",
    kind="parts",
    parts=("p50", "p99", "max"),
    formula="how late the client's own loop woke up for a regular beat",
    source="ours; the client's health",
    pitfalls="simulated seconds: a speed-up enlarges it; absent where no client ran (predictions)",
)
def schedule_lag(scope: Scope) -> dict[str, Amount]:
    return {part: _health(scope, f"loop_lag_{part}_s") for part in ("p50", "p99", "max")}


@metric(
    "client_cpu",
    title="CPU share of the client",
    unit="cores",
    better="lower",
    kind="scalar",
    formula="processor time of the client / wall time",
    source="ours; the client's health",
    pitfalls="one loop saturates at 1.0",
)
def client_cpu(scope: Scope) -> Amount:
    return _health(scope, "cpu_share")


@metric(
    "emulator_lag",
    title="Lag of the emulated engine",
    unit="s",
    better="lower",
    kind="scalar",
    formula="highest scraped value of how late the emulated engine finished a step against its own model",
    source="ours; gauge ridgeline:emulator_lag_seconds",
    pitfalls="missing for a real engine; simulated seconds: a lower speed makes it smaller",
)
def emulator_lag(scope: Scope) -> Amount:
    window = scope.server_window_ns
    level = scope.scrapes.level((EMULATOR_LAG,), window) if window else None
    return Amount(level.peak, level.series) if level else Amount(None, None, "no emulated engine was scraped")


def _health(scope: Scope, name: str) -> Amount:
    value = scope.health.get(name)
    return Amount(value) if value is not None else Amount(None, None, "the client did not measure it")
