"""May a point be trusted? Gates that make it invalid, and cautions that travel with it.

In: a scope and what was asked for. Out: validity, reasons (`code: sentence`) and cautions, each with the two numbers
that were compared. Contradicted expectations are the sweep's to add (see `worst`). Every limit is named below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ridgeline.core.cell import Cell
from ridgeline.core.point import Caution, Source, Validity
from ridgeline.results.metrics.cache import server_cache_hit, theoretical_cache_hit
from ridgeline.results.metrics.client import EMULATOR_LAG, send_lag
from ridgeline.results.metrics.engine import preemptions
from ridgeline.results.metrics.latency import errors_of, ttft
from ridgeline.results.metrics.outcomes import error_rate, overflow_rate
from ridgeline.results.metrics.scope import Scope
from ridgeline.results.metrics.statistics import percentile
from ridgeline.results.metrics.tokens import count_difference, prompt_drift
from ridgeline.results.sweepline import Floats

ERROR_RATE = 0.10  # InferenceX's gate; exactly 10 % still passes
OVERFLOW_RATE = 0.01  # AIPerf: more makes a submission invalid
COVERAGE = 0.95  # share of the window in which answers must have come, AgentX
COVERAGE_FROM_S = 900.0  # AgentX judges coverage only on windows at least this long
DURATION = 0.95  # share of the asked duration that must have been measured
LAG_SHARE = 0.05  # of the median TTFT: a client later than that shapes the result
TYPICAL_LAG_SHARE = 1.0  # of the median TTFT: then the typical request of an emulated run leaves too late to mean much
EMULATOR_LAG_SHARE = 0.25  # of the median TTFT, for the engine's mean lag: it goes into every token
DRIFT = 0.02  # served prompt tokens against those asked for
COUNTS = 0.01  # client's token counts against the server's
UNINTENDED_HITS = 0.05  # cache hits above what the workload allows
REQUESTS_PER_LANE = 5  # fewer requests a lane measure the ramp-up
PREEMPTED = 0.001  # of the requests

# Every code with what it means; docs/reference/metrics.md lists them.
CODES = {
    "aborted": "the replay stopped early",
    "scaled-time": "a real engine was measured at another speed than recorded",
    "no-requests": "no profiling request ended well",
    "error-rate": "more than 10 % of the requests failed",
    "errors": "some requests failed",
    "context-overflow": "more than 1 % of the requests were too long for the server",
    "disordered-times": "times of answered requests are out of order",
    "no-window": "the measured window was never reached",
    "duration": "less than 95 % of the asked duration was measured",
    "coverage": "answers stopped before 95 % of a window of 15 minutes or more",
    "few-samples": "fewer than five good requests a lane",
    "client-limited": "p99 of the send lag, or of the client's event loop's, is above 5 % of the median TTFT",
    "emulator-late": "the emulated engine was late by more than 5 % of the median TTFT",
    "prompt-drift": "served prompt tokens differ by more than 2 % from those asked for",
    "warm-cache": "more prefix cache hits than the workload allows",
    "count-mismatch": "client's and server's token counts differ by more than 1 %",
    "preempted": "more than one preemption in a thousand requests",
    "scrape-gaps": "scrapes of server metrics failed",
    "not-scraped": "no server metrics",
}


class Judgement(NamedTuple):
    """What `judge` finds."""

    validity: Validity
    reasons: tuple[str, ...]
    cautions: tuple[Caution, ...]


class Breach(NamedTuple):
    """A gate that did not pass. `fatal`: the point is invalid; else it carries a caution."""

    code: str
    message: str
    hint: str = ""
    fatal: bool = True


def judge(scope: Scope, cell: Cell, source: Source, *, speed: float, aborted: str | None) -> Judgement:
    """Validity of a replay of `cell`. `speed`: how much faster than recorded it ran."""
    found = [
        *_run(scope, source, speed, aborted),
        *_outcomes(scope),
        *_window(scope, cell),
        *_client(scope, source),
        *_workload(scope, cell),
        *_server(scope, source),
    ]
    reasons = tuple(f"{breach.code}: {breach.message}" for breach in found if breach.fatal)
    cautions = tuple(Caution(breach.code, breach.message, breach.hint) for breach in found)
    return Judgement(Validity.INVALID if reasons else Validity.VALID, reasons, cautions)


def worst(*validities: Validity) -> Validity:
    """The least trustworthy of several: invalid, then degraded, then unproven, then valid."""
    order = (Validity.VALID, Validity.UNPROVEN, Validity.DEGRADED, Validity.INVALID)
    return max(validities, key=order.index, default=Validity.VALID)


def _run(scope: Scope, source: Source, speed: float, aborted: str | None) -> Iterator[Breach]:
    if aborted:
        yield Breach("aborted", f"the replay stopped early: {aborted}", "look at the first errors in the records")
    if source is Source.MEASURED and speed != 1.0:
        yield Breach(
            "scaled-time", f"a real engine was measured at {speed:g} times the recorded speed", "measure at --speed 1"
        )
    if not scope.good.any():
        yield Breach("no-requests", f"none of {int(scope.columns.profiling.sum())} profiling requests ended well")


def _outcomes(scope: Scope) -> Iterator[Breach]:
    errors, overflow = error_rate(scope), overflow_rate(scope)
    if errors.value is not None and errors.value > ERROR_RATE:
        yield Breach(
            "error-rate",
            f"{_percent(errors.value)} of {errors.n} requests failed; at most {_percent(ERROR_RATE)} may",
            "the first errors are in the records; a slower or dead engine shows in its log",
        )
    elif errors_of(scope):
        failed = errors_of(scope)
        yield Breach("errors", f"{failed} of {errors.n} requests failed", "latencies leave them out", fatal=False)
    if overflow.value is not None and overflow.value > OVERFLOW_RATE:
        yield Breach(
            "context-overflow",
            f"{_percent(overflow.value)} of {overflow.n} requests were too long for the server; "
            f"at most {_percent(OVERFLOW_RATE)} may be",
            "raise the engine's maximum length or filter the trace by context",
        )
    bad = int((scope.disordered & scope.columns.profiling).sum())
    if bad:
        yield Breach("disordered-times", f"{bad} answered requests have times out of order", "left out", fatal=False)


def _window(scope: Scope, cell: Cell) -> Iterator[Breach]:
    start, end = scope.phases.profiling_start_ns, scope.phases.profiling_end_ns
    if start is None or end is None:
        yield Breach("no-window", "the replay never reached its measured window", "look at the warm-up's errors")
        return
    seconds = (end - start) / 1e9
    asked = cell.scenario.duration_s
    if asked and seconds < DURATION * asked:
        yield Breach("duration", f"measured {seconds:.6g} s of the {asked} s asked for", "look at why it stopped early")
    if cell.scenario.kind == "agentic-coding" and seconds >= COVERAGE_FROM_S and scope.good.any():
        tokens = scope.pick("completion_tokens")
        latest_first = _latest(scope.pick("first_token_ns"))
        latest_end = _latest(scope.pick("last_token_ns")[tokens >= 2])
        share = max(min((at - start) / (end - start), 1.0) for at in (latest_first, latest_end, float(start)))
        if share < COVERAGE:
            yield Breach(
                "coverage",
                f"the last answer came after {_percent(share)} of the window; {_percent(COVERAGE)} must be covered",
                "the server stopped answering, or all lanes were thinking: look at the timeline",
            )
    n = int(scope.good.sum())
    if n < REQUESTS_PER_LANE * cell.concurrency:
        yield Breach(
            "few-samples",
            f"{n} good requests at concurrency {cell.concurrency}; {REQUESTS_PER_LANE} a lane would be "
            f"{REQUESTS_PER_LANE * cell.concurrency}",
            "measure longer: percentiles without enough samples are withheld",
            fatal=False,
        )


def _client(scope: Scope, source: Source) -> Iterator[Breach]:
    waits, lags = ttft(scope).values, send_lag(scope).values
    if not len(waits):
        return
    median = percentile(waits, 50)
    measured = source is Source.MEASURED
    if len(lags) and percentile(lags, 99) > LAG_SHARE * median:
        # A real engine's numbers are the client's then. Under an emulated engine at many times the speed every real
        # millisecond counts many times, and the numbers cannot be published anyway: the tail is a caution there.
        typical = percentile(lags, 50)
        yield Breach(
            "client-limited",
            f"requests went out {_seconds(percentile(lags, 99))} late (p99; median {_seconds(typical)}), "
            f"more than {_percent(LAG_SHARE)} of the median TTFT of {_seconds(median)}",
            "give the client more CPU, or lower --speed or the concurrency",
            fatal=measured or typical > TYPICAL_LAG_SHARE * median,
        )
    elif (loop := scope.health.get("loop_lag_p99_s", 0.0)) > LAG_SHARE * median:
        yield Breach(
            "client-limited",
            f"the client's event loop was {_seconds(loop)} late (p99), and so were its stamps: "
            f"more than {_percent(LAG_SHARE)} of the median TTFT of {_seconds(median)}",
            "give the client more CPU or more --workers",
            fatal=measured,
        )
    window = scope.server_window_ns
    level = scope.scrapes.level((EMULATOR_LAG,), window) if window else None
    if level is not None and level.peak > LAG_SHARE * median:
        yield Breach(
            "emulator-late",
            f"the emulated engine was up to {_seconds(level.peak)} late (mean {_seconds(level.mean)}), "
            f"more than {_percent(LAG_SHARE)} of the median TTFT of {_seconds(median)}",
            "lower --speed",
            fatal=level.mean > EMULATOR_LAG_SHARE * median,
        )


def _workload(scope: Scope, cell: Cell) -> Iterator[Breach]:
    drift = prompt_drift(scope)
    if drift.value is not None and abs(drift.value) > DRIFT:
        yield Breach(
            "prompt-drift",
            f"the server read {drift.value:+.1%} prompt tokens against those asked for; {_percent(DRIFT)} is normal",
            "the chat template adds tokens, or the tokenizer is not the model's",
            fatal=False,
        )
    hit, ideal = server_cache_hit(scope), theoretical_cache_hit(scope)
    allowed = ideal.value if ideal.value is not None and cell.scenario.kind == "agentic-coding" else 0.0
    known = ideal.value is not None or cell.scenario.kind == "fixed-seq-len"
    if hit.value is not None and known and hit.value > allowed + UNINTENDED_HITS:
        yield Breach(
            "warm-cache",
            f"{_percent(hit.value)} of prompt tokens hit the prefix cache; the workload allows {_percent(allowed)}",
            "prompts repeat over points or sessions: flush the cache between cells, or change the seed",
            fatal=False,
        )


def _server(scope: Scope, source: Source) -> Iterator[Breach]:
    for part, amount in count_difference(scope).items():
        if amount.value is not None and abs(amount.value) > COUNTS:
            yield Breach(
                "count-mismatch",
                f"client and server differ by {amount.value:+.1%} on {part} tokens; {_percent(COUNTS)} is normal",
                "cancelled requests, or somebody else's load on the server",
                fatal=False,
            )
    moved, n = preemptions(scope).value, int(scope.good.sum())
    if moved is not None and n and moved > PREEMPTED * n:
        yield Breach(
            "preempted",
            f"{moved:g} preemptions over {n} requests; more than {_percent(PREEMPTED)}",
            "the KV cache is too small for this concurrency",
            fatal=False,
        )
    samples = len(scope.scrapes.samples)
    if scope.scrapes.failed:
        yield Breach(
            "scrape-gaps", f"{scope.scrapes.failed} of {samples} scrapes failed", "gaps, not zeros", fatal=False
        )
    elif not samples and not scope.scrapes.names and source is not Source.PREDICTED:
        yield Breach("not-scraped", "no server metrics were scraped", "name the metrics endpoint", fatal=False)


def _latest(times: Floats) -> float:
    known = times[~np.isnan(times)]
    return float(known.max()) if len(known) else -np.inf


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"
