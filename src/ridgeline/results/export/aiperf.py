"""AIPerf's summary of a run, `profile_export_aiperf.json`.

In: a replay, in memory or on disk, and the wall time of its origin. Out: plain data with AIPerf's tags (its fork's
`full_*` included), units (ms) and statistics, of the measured phase and, below `warmup_metrics`, of the one before.
Records are walked once and never held: eight bytes a value are kept, four a gap between chunks. Percentiles are all
there, few samples or not, because readers expect them. What we cannot know is absent, not zero (docs/guides/replay.md
lists it). Source: agentx-replay specification, sections 6 and 7, and recorded runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from ridgeline.core.record import Outcome, Record, Replay
from ridgeline.core.units import MILLISECOND
from ridgeline.results.export.aiperf_curves import Requests, curves
from ridgeline.results.export.aiperf_rows import SKIPPED, UNITS, error_of, is_good, metrics
from ridgeline.results.export.aiperf_run import of_summary
from ridgeline.results.metrics.scrapes import Window
from ridgeline.results.metrics.statistics import percentile
from ridgeline.results.stored import StoredReplay
from ridgeline.results.sweepline import Floats

SCHEMA_VERSION = "1.4"
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_ADJUSTED = (
    "request_latency",
    "time_to_first_token",
    "decode_duration",
    "full_decode_duration",
    "inter_token_latency",
    "full_response_inter_token_latency",
)
_COVERAGE, _LEAST_JUDGED_S = 0.95, 900
_MISMATCH = (0.05, 50)  # an answer is of another length than asked for beyond this share, or so many tokens


def summary(
    replay: Replay | StoredReplay, wall_origin_ns: int, *, metadata: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The document: statistics over the good requests, counts over all of them."""
    measured, warm = _Phase(), _Phase()
    for record in replay.records:
        (measured if record.phase == "profiling" else warm).add(record)
    phases = replay.phases
    start, end = phases.profiling_start_ns, phases.drained_ns or phases.profiling_end_ns
    return {
        "schema_version": SCHEMA_VERSION,
        **of_summary({**replay.settings, "prompt_mode": replay.prompt_mode}),
        **measured.metrics(_window(start, end)),
        "warmup_metrics": warm.metrics(_window(phases.start_ns, start)) if warm.requests else {},
        "was_cancelled": replay.aborted is not None,
        "is_complete": replay.aborted is None,
        **({"incomplete_reason": replay.aborted} if replay.aborted is not None else {}),
        "error_summary": measured.errors.summary(),
        "start_time": _local(wall_origin_ns, start),
        "end_time": _local(wall_origin_ns, end),
        "metadata": {**(metadata or {}), **_coverage(replay, measured)},
    }


def _coverage(replay: Replay | StoredReplay, measured: _Phase) -> dict[str, Any]:
    """The fork's proof that an agentic window was used to its end: how far its first tokens, and its answers that have
    an inter-token latency, reach into it. It judges windows of 15 minutes and more."""
    pacing = replay.settings.get("pacing")
    start = replay.phases.profiling_start_ns
    if not isinstance(pacing, Mapping) or "start_min_ratio" not in pacing or start is None:
        return {}
    seconds = (pacing.get("duration_ns") or 0) / 1e9
    if seconds < _LEAST_JUDGED_S:
        return {}
    reach = {name: min(1.0, max(0.0, (at - start) / 1e9 / seconds)) for name, at in measured.latest().items()}
    about = {"phase_name": "profiling", "expected_duration_seconds": seconds, "required_ratio": _COVERAGE}
    return {"metric_duration_coverage": [{**about, **{f"{name}_ratio": share for name, share in reach.items()}}]}


def _window(start: int | None, end: int | None) -> Window | None:
    return (float(start), float(end)) if start is not None and end is not None and end > start else None


class _Phase:
    """The requests of one phase: values by tag, and sums."""

    def __init__(self) -> None:
        self.values: dict[str, array[float]] = {}
        self.errors, self.lags = _Errors(), _Lags()
        self.requests = self.good = self.overflows = self.mismatches = self.hit_blocks = self.blocks = 0
        self._prompt = self._output = self._visible = self._cached = self._reasoning = 0
        self._cache_told = self._reasoning_told = False
        self._first_sent: int | None = None
        self._last_token = 0
        self._columns: tuple[array[float], ...] = tuple(array("d") for _ in range(5))
        self._gaps = array("q")

    def add(self, record: Record) -> None:
        self.requests += 1
        self.overflows += record.outcome is Outcome.OVERFLOW
        if record.outcome in SKIPPED:
            return
        self.lags.add(record)
        if not is_good(record):
            self.errors.add(record)
            return
        for tag, value in metrics(record).items():
            if isinstance(value, list):
                self.values.setdefault(tag, array("f")).extend(value)  # many: 24 bits are finer than any clock
            else:
                self.values.setdefault(tag, array("d")).append(value)
        sent, tokens = record.sent_ns or 0, record.completion_tokens
        self.good += 1
        self._first_sent = sent if self._first_sent is None else min(self._first_sent, sent)
        self._last_token = max(self._last_token, record.last_token_ns or 0)
        self._prompt += record.prompt_tokens or 0
        self._output += tokens or 0
        self._visible += max(0, (tokens or 0) - (record.reasoning_tokens or 0))
        self._cached += record.cached_tokens or 0
        self._cache_told |= record.cached_tokens is not None
        self._reasoning += record.reasoning_tokens or 0
        self._reasoning_told |= record.reasoning_tokens is not None
        self.hit_blocks += record.theoretical_hit_blocks or 0
        self.blocks += record.theoretical_total_blocks or 0
        if tokens is not None and record.max_tokens:
            share, most = _MISMATCH
            self.mismatches += abs(tokens - record.max_tokens) > min(share * record.max_tokens, most)
        row = (sent, record.first_token_ns, record.end_ns, record.prompt_tokens, tokens)
        for column, number in zip(self._columns, row, strict=True):
            column.append(float("nan") if number is None else number)
        self._gaps.append(max(0, len(record.chunk_ns) - 1))

    def latest(self) -> dict[str, float]:
        """When the last first token came, and the last answer with an inter-token latency ended; -inf without one."""
        _, first, end, _, output = (np.array(column) for column in self._columns)
        ends = end[output >= 2]
        return {
            "ttft": float(np.max(first, initial=-np.inf)),
            "inter_token_latency": float(np.max(ends, initial=-np.inf)),
        }

    def metrics(self, window: Window | None) -> dict[str, Any]:
        """Tag -> statistics. `window`: of the phase with its drain, in nanoseconds."""
        found: dict[str, Any] = {}
        if self.good and window is not None:
            gaps = self.values.get("inter_chunk_latency", array("f"))
            start, first, end, prompt, output = (np.array(column) for column in self._columns)
            found |= curves(Requests(start, first, end, prompt, output, np.array(self._gaps), gaps), window)
        found |= {tag: _statistics(np.array(values), UNITS[tag]) for tag, values in self.values.items()}
        return found | self._counts() | self._totals(window) | self.lags.distributions() | self._adjusted()

    def _counts(self) -> dict[str, Any]:
        errors, completed = self.errors.count, self.good + self.errors.count
        found = {"request_count": self.good, "completed_request_count": completed}
        if "osl_mismatch_diff_pct" in self.values:
            found["osl_mismatch_count"] = self.mismatches
        if errors:
            found["error_request_count"] = errors
        if errors or self.overflows:
            found["context_overflow_count"] = self.overflows
        if self.overflows:
            found["skipped_context_overflow_count"] = self.overflows
        rate = {"request_error_rate": _scalar(100 * errors / completed, "%")} if completed else {}
        return {tag: _scalar(count, "requests") for tag, count in found.items()} | rate

    def _totals(self, window: Window | None) -> dict[str, Any]:
        """Sums and rates. AIPerf divides by the phase with its drain, although it reports a shorter benchmark_duration
        (observed in recorded runs of 0.13)."""
        if self._first_sent is None:
            return {}
        seconds = (self._last_token - self._first_sent) / 1e9
        both = self._prompt + self._output
        sums = {
            "total_isl": self._prompt,
            "total_osl": self._output,
            "total_output_tokens": self._visible,
            "total_usage_prompt_tokens": self._prompt,
            "total_usage_completion_tokens": self._output,
            "total_usage_total_tokens": both,
        }
        if self._reasoning_told:
            sums |= {"total_reasoning_tokens": self._reasoning, "total_usage_reasoning_tokens": self._reasoning}
        found = {"benchmark_duration": _scalar(seconds, "sec")}
        if self._cache_told and self._prompt:
            sums["total_usage_prompt_cache_read_tokens"] = self._cached
            found["overall_usage_prompt_cache_read_pct"] = _scalar(100 * self._cached / self._prompt, "%")
        if self.blocks:
            share = 100 * self.hit_blocks / self.blocks
            found["theoretical_prefix_cache_hit"] = _scalar(share, "%") | {"count": self.blocks, "sum": self.hit_blocks}
        divisor = (window[1] - window[0]) / 1e9 if window is not None else seconds
        if divisor > 0:
            found |= {
                "request_throughput": _scalar(self.good / divisor, "requests/sec"),
                "input_token_throughput": _scalar(self._prompt / divisor, "tokens/sec"),
                "output_token_throughput": _scalar(self._output / divisor, "tokens/sec"),
                "total_token_throughput": _scalar(both / divisor, "tokens/sec"),
            }
        return found | {tag: _scalar(total, "tokens") for tag, total in sums.items()}

    def _adjusted(self) -> dict[str, Any]:
        """Percentiles with one infinite sample for every error; those that fall on an error are left out."""
        found: dict[str, Any] = {}
        errors = self.errors.count
        for tag in _ADJUSTED if errors else ():
            values = sorted(self.values.get(tag, ()))
            n = len(values) + errors
            places = {f"p{p}": round(p * (n - 1) / 100) for p in PERCENTILES} | {"min": 0}
            known = {name: values[place] for name, place in places.items() if place < len(values)}
            found[f"adj_{tag}"] = {"unit": "ms", **known, "count": n}
        return found


class _Lags:
    """From the moment a request was due: to its start, and to its end; failed requests included."""

    def __init__(self) -> None:
        self._start, self._end = array("d"), array("d")

    def add(self, record: Record) -> None:
        if record.sent_ns is not None:
            self._start.append((record.sent_ns - record.scheduled_ns) / MILLISECOND)
        if record.end_ns is not None:
            self._end.append((record.end_ns - record.scheduled_ns) / MILLISECOND)

    def distributions(self) -> dict[str, Any]:
        found = {"credit_to_start_latency": self._start, "effective_latency": self._end}
        return {tag: _statistics(np.array(values), "ms") for tag, values in found.items() if values}


class _Errors:
    """Failed requests by what they say."""

    def __init__(self) -> None:
        self._said: dict[bytes, int] = {}
        self.count = 0

    def add(self, record: Record) -> None:
        key = msgspec.json.encode(error_of(record))
        self._said[key] = self._said.get(key, 0) + 1
        self.count += 1

    def summary(self) -> list[dict[str, Any]]:
        return [{"error_details": msgspec.json.decode(key), "count": count} for key, count in self._said.items()]


def _statistics(values: Floats, unit: str) -> dict[str, Any]:
    values.sort()
    return {
        "unit": unit,
        "avg": float(values.mean(dtype=np.float64)),
        **{f"p{p}": float(percentile(values, p)) for p in PERCENTILES},
        "min": float(values[0]),
        "max": float(values[-1]),
        "std": float(values.std(dtype=np.float64)),
        "count": len(values),
        "sum": float(values.sum(dtype=np.float64)),
    }


def _scalar(value: float, unit: str) -> dict[str, Any]:
    return {"unit": unit, "avg": float(value)}


def _local(origin_ns: int, at_ns: int | None) -> str | None:
    """Naive local ISO time, as AIPerf writes it."""
    if at_ns is None:
        return None
    return datetime.fromtimestamp((origin_ns + at_ns) / 1e9).isoformat()  # noqa: DTZ006
