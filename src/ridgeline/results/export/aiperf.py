"""AIPerf's raw exports: `profile_export.jsonl`, one object a request, and `profile_export_aiperf.json`, the summary.

In: a replay, in memory or on disk, and the wall time of its origin. Out: rows and summary as plain data with AIPerf's
tags (its fork's `full_*` included), units (ms) and statistics. Records are walked once each and never held: rows come
in the order of completion from a heap of what is out of place, and a summary keeps eight bytes a value, four a chunk.
Percentiles are all there, few samples or not, because readers expect them. Tags we cannot know (transport phases,
client tokenisation) are absent, not zero. Source: agentx-replay specification, sections 6 and 7.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from datetime import datetime
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from ridgeline.core.record import Outcome, Record, Replay
from ridgeline.results.metrics.statistics import percentile
from ridgeline.results.stored import StoredReplay, integers, is_profiling
from ridgeline.results.sweepline import Floats, Ints

SCHEMA_VERSION = "1.4"
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_MS = 1e6
_UNITS = {
    "time_to_first_token": "ms",
    "time_to_second_token": "ms",
    "time_to_first_output_token": "ms",
    "request_latency": "ms",
    "inter_token_latency": "ms",
    "inter_chunk_latency": "ms",
    "decode_duration": "ms",
    "full_decode_duration": "ms",
    "full_response_inter_token_latency": "ms",
    "full_response_output_token_throughput_per_user": "tokens/sec/user",
    "output_token_throughput_per_user": "tokens/sec/user",
    "e2e_output_token_throughput": "tokens/sec/user",
    "prefill_throughput_per_user": "tokens/sec/user",
    "input_sequence_length": "tokens",
    "output_sequence_length": "tokens",
    "output_token_count": "tokens",
    "reasoning_token_count": "tokens",
    "usage_prompt_tokens": "tokens",
    "usage_completion_tokens": "tokens",
    "usage_total_tokens": "tokens",
    "usage_prompt_cache_read_tokens": "tokens",
}
_ADJUSTED = (
    "request_latency",
    "time_to_first_token",
    "decode_duration",
    "full_decode_duration",
    "inter_token_latency",
    "full_response_inter_token_latency",
)
_SKIPPED = (Outcome.OVERFLOW, Outcome.CANCELLED)  # neither rows nor errors
_ERROR_TYPES = {
    Outcome.HTTP_ERROR: "HTTPError",
    Outcome.STREAM_ERROR: "SSEResponseError",
    Outcome.TRUNCATED: "TruncatedResponseError",
    Outcome.TIMEOUT: "TimeoutError",
    Outcome.EMPTY: "InvalidInferenceResultError",
    Outcome.CLIENT_ERROR: "ClientError",
}


def is_good(record: Record) -> bool:
    """AIPerf's valid record: no error and at least one content event."""
    return record.outcome is Outcome.OK and record.first_token_ns is not None and record.sent_ns is not None


def metrics(record: Record) -> dict[str, Any]:
    """Tag -> value of one good request, in `_UNITS`; what cannot be known has no tag."""
    sent, first, last = record.sent_ns, record.first_token_ns, record.last_token_ns
    if sent is None or first is None or last is None:
        return {}
    latency, decode, tokens = last - sent, last - first, record.completion_tokens
    found: dict[str, Any] = {
        "time_to_first_token": (first - sent) / _MS,
        "request_latency": latency / _MS,
        "decode_duration": decode / _MS,
    }
    if record.end_ns is not None:
        whole = record.end_ns - first
        found["full_decode_duration"] = whole / _MS
        if tokens is not None and tokens >= 2:
            found["full_response_inter_token_latency"] = whole / (tokens - 1) / _MS
            if whole > 0:
                found["full_response_output_token_throughput_per_user"] = (tokens - 1) / (whole / 1e9)
    if record.first_visible_ns is not None:
        found["time_to_first_output_token"] = (record.first_visible_ns - sent) / _MS
    if len(record.chunk_ns) >= 2:
        found["time_to_second_token"] = (record.chunk_ns[1] - record.chunk_ns[0]) / _MS
        found["inter_chunk_latency"] = [(b - a) / _MS for a, b in pairwise(record.chunk_ns)]
    if tokens is not None:
        found |= {"output_sequence_length": tokens, "usage_completion_tokens": tokens}
        found["output_token_count"] = max(0, tokens - (record.reasoning_tokens or 0))
        if latency > 0:
            found["e2e_output_token_throughput"] = tokens / (latency / 1e9)
        if tokens >= 2:
            found["inter_token_latency"] = decode / (tokens - 1) / _MS
            if decode > 0:
                found["output_token_throughput_per_user"] = (tokens - 1) / (decode / 1e9)
    if record.reasoning_tokens is not None:
        found["reasoning_token_count"] = record.reasoning_tokens
    if record.prompt_tokens is not None:
        found |= {"input_sequence_length": record.prompt_tokens, "usage_prompt_tokens": record.prompt_tokens}
        if first > sent:
            found["prefill_throughput_per_user"] = record.prompt_tokens / ((first - sent) / 1e9)
        if tokens is not None:
            found["usage_total_tokens"] = record.prompt_tokens + tokens
    if record.cached_tokens is not None:
        found["usage_prompt_cache_read_tokens"] = record.cached_tokens
    return found


def rows(replay: Replay | StoredReplay, wall_origin_ns: int) -> Iterator[dict[str, Any]]:
    """Rows in the order of completion: warm-up included; overflows and requests we cancelled left out, as AIPerf does.

    `wall_origin_ns`: epoch nanoseconds of the replay's origin.
    """
    prefix = replay.settings.get("request_id_prefix")
    serials = _serials(replay)
    for place, record in _by_completion(replay):
        if record.outcome in _SKIPPED:
            continue
        values = metrics(record) if is_good(record) else {}
        request = f"{prefix}{record.request_id:012x}" if prefix else None
        found = {
            "metadata": _metadata(record, int(serials[place]), request, wall_origin_ns),
            "metrics": {tag: {"value": value, "unit": _UNITS[tag]} for tag, value in values.items()},
        }
        yield found if values else found | {"error": _error(record)}


def _serials(replay: Replay | StoredReplay) -> Ints:
    """For every record in its place: how many of its phase were sent before it, gaps included."""
    ids, measured = integers(replay, "request_id"), is_profiling(replay)
    serials = np.empty(len(ids), dtype=np.int64)
    for phase in (measured, ~measured):
        places = np.flatnonzero(phase)
        serials[places[np.argsort(ids[places], kind="stable")]] = np.arange(len(places))
    return serials


def _by_completion(replay: Replay | StoredReplay) -> Iterator[tuple[int, Record]]:
    """Records with their places, by end and then by id. Kept back is only what ends after a later record."""
    ends = integers(replay, "end_ns")
    earliest_left = np.minimum.accumulate(ends[::-1])[::-1]
    waiting: list[tuple[int, int, int, Record]] = []
    for place, record in enumerate(replay.records):
        heappush(waiting, (record.end_ns or 0, record.request_id, place, record))
        while waiting and (place + 1 == len(ends) or waiting[0][0] < earliest_left[place + 1]):
            _, _, at, done = heappop(waiting)
            yield at, done


def jsonl(replay: Replay | StoredReplay, wall_origin_ns: int) -> Iterator[bytes]:
    """`profile_export.jsonl`, a line at a time."""
    for row in rows(replay, wall_origin_ns):
        yield msgspec.json.encode(row) + b"\n"


def summary(
    replay: Replay | StoredReplay, wall_origin_ns: int, *, metadata: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`profile_export_aiperf.json`: statistics over the good profiling requests, counts over all of them."""
    good, warm, lags, errors, overflows = _Good(), _Values(), _Lags(), _Errors(), 0
    for record in replay.records:
        measured = record.phase == "profiling"
        if is_good(record):
            (good if measured else warm).add(record)
        elif measured and record.outcome not in _SKIPPED:
            errors.add(record)
        overflows += measured and record.outcome is Outcome.OVERFLOW
        if measured and record.outcome not in _SKIPPED:
            lags.add(record)
    found: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **good.distributions()}
    found |= _counts(good.count, errors.count)
    found |= good.totals(_phase_seconds(replay))
    if errors.count or overflows:
        found["context_overflow_count"] = _scalar(overflows, "requests")
    if errors.count:
        found["error_request_count"] = _scalar(errors.count, "requests")
        found |= good.adjusted(errors.count)
    found |= lags.distributions()
    if good.blocks:
        share = 100 * good.hit_blocks / good.blocks
        found["theoretical_prefix_cache_hit"] = {
            "unit": "%",
            "avg": share,
            "count": good.blocks,
            "sum": good.hit_blocks,
        }
    found["warmup_metrics"] = warm.distributions()
    phases = replay.phases
    return found | {
        "input_config": dict(replay.settings),
        "was_cancelled": replay.aborted is not None,
        "is_complete": replay.aborted is None,
        "error_summary": errors.summary(),
        "start_time": _local(wall_origin_ns, phases.profiling_start_ns),
        "end_time": _local(wall_origin_ns, phases.drained_ns or phases.profiling_end_ns),
        "metadata": dict(metadata or {}),
    }


def _metadata(record: Record, serial: int, request: str | None, origin: int) -> dict[str, Any]:
    profiling = record.phase == "profiling"
    times = {
        "credit_issued_ns": record.scheduled_ns,
        "request_start_ns": record.sent_ns,
        "request_ack_ns": record.first_byte_ns,
        "request_end_ns": record.end_ns,
    }
    found: dict[str, Any] = {
        "session_num": serial,
        "x_request_id": request,
        "x_correlation_id": record.correlation_id,
        "conversation_id": record.conversation_id,
        "turn_index": record.turn_index,
        "source_trace_id": record.session_id,
        "source_outer_idx": record.source_outer,
        "source_inner_idx": record.source_inner,
        "source_kind": record.source_kind or None,
        **{name: None if at is None else origin + at for name, at in times.items()},
        "benchmark_phase": record.phase,
        "phase_index": 0 if profiling else None,
        "profiling_index": 0 if profiling else None,
        "phase_name": "profiling" if profiling else "agentic.warmup",
        "phase_kind": record.phase,
        "was_cancelled": False,
        "context_overflow_skip": False,
        "agent_depth": record.depth,
        "parent_correlation_id": record.parent_correlation_id,
        "root_correlation_id": record.parent_correlation_id or record.correlation_id,
    }
    return {name: value for name, value in found.items() if value is not None}


def _error(record: Record) -> dict[str, Any]:
    code = record.status if record.status is not None and record.status >= 400 else None
    if record.outcome is Outcome.STREAM_ERROR:
        code = 502  # what AIPerf gives an error event in mid-stream
    found = {"code": code, "type": _ERROR_TYPES.get(record.outcome, "InvalidInferenceResultError")}
    found["message"] = record.error or f"request ended as {record.outcome}"
    return {name: value for name, value in found.items() if value is not None}


class _Values:
    """Values of requests by tag."""

    def __init__(self) -> None:
        self.values: dict[str, array[float]] = {}

    def add(self, record: Record) -> None:
        for tag, value in metrics(record).items():
            if isinstance(value, list):
                self.values.setdefault(tag, array("f")).extend(value)  # many: 24 bits are finer than any clock
            else:
                self.values.setdefault(tag, array("d")).append(value)

    def distributions(self) -> dict[str, dict[str, Any]]:
        return {tag: _statistics(np.array(found), _UNITS[tag]) for tag, found in self.values.items()}


class _Good(_Values):
    """The good requests of the measured phase, with their sums."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.hit_blocks = self.blocks = 0
        self._prompt = self._output = self._visible = self._cached = 0
        self._cache_told = False
        self._first_sent: int | None = None
        self._last_token = 0

    def add(self, record: Record) -> None:
        super().add(record)
        sent = record.sent_ns or 0
        self.count += 1
        self._first_sent = sent if self._first_sent is None else min(self._first_sent, sent)
        self._last_token = max(self._last_token, record.last_token_ns or 0)
        self._prompt += record.prompt_tokens or 0
        self._output += record.completion_tokens or 0
        self._visible += max(0, (record.completion_tokens or 0) - (record.reasoning_tokens or 0))
        self._cached += record.cached_tokens or 0
        self._cache_told |= record.cached_tokens is not None
        self.hit_blocks += record.theoretical_hit_blocks or 0
        self.blocks += record.theoretical_total_blocks or 0

    def totals(self, phase_seconds: float | None) -> dict[str, Any]:
        """Sums and rates. `phase_seconds`: what AIPerf divides by."""
        if self._first_sent is None:
            return {}
        seconds = (self._last_token - self._first_sent) / 1e9
        both = self._prompt + self._output
        found = {
            "benchmark_duration": _scalar(seconds, "sec"),
            "total_isl": _scalar(self._prompt, "tokens"),
            "total_osl": _scalar(self._output, "tokens"),
            "total_output_tokens": _scalar(self._visible, "tokens"),
            "total_usage_prompt_tokens": _scalar(self._prompt, "tokens"),
            "total_usage_completion_tokens": _scalar(self._output, "tokens"),
            "total_usage_total_tokens": _scalar(both, "tokens"),
        }
        if self._cache_told and self._prompt:
            found["total_usage_prompt_cache_read_tokens"] = _scalar(self._cached, "tokens")
            found["overall_usage_prompt_cache_read_pct"] = _scalar(100 * self._cached / self._prompt, "%")
        divisor = phase_seconds or seconds
        if divisor > 0:
            found |= {
                "request_throughput": _scalar(self.count / divisor, "requests/sec"),
                "input_token_throughput": _scalar(self._prompt / divisor, "tokens/sec"),
                "output_token_throughput": _scalar(self._output / divisor, "tokens/sec"),
                "total_token_throughput": _scalar(both / divisor, "tokens/sec"),
            }
        return found

    def adjusted(self, errors: int) -> dict[str, Any]:
        """Percentiles with one infinite sample for every error; those that fall on an error are left out."""
        found = {}
        for tag in _ADJUSTED:
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
            self._start.append((record.sent_ns - record.scheduled_ns) / _MS)
        if record.end_ns is not None:
            self._end.append((record.end_ns - record.scheduled_ns) / _MS)

    def distributions(self) -> dict[str, Any]:
        found = {"credit_to_start_latency": self._start, "effective_latency": self._end}
        return {tag: _statistics(np.array(values), "ms") for tag, values in found.items() if values}


class _Errors:
    """Failed requests by what they say."""

    def __init__(self) -> None:
        self._said: dict[bytes, int] = {}
        self.count = 0

    def add(self, record: Record) -> None:
        key = msgspec.json.encode(_error(record))
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


def _phase_seconds(replay: Replay | StoredReplay) -> float | None:
    """Length of the profiling phase with its drain: what AIPerf divides by, although it reports a shorter
    benchmark_duration (observed in recorded runs of 0.13)."""
    start, end = replay.phases.profiling_start_ns, replay.phases.drained_ns
    return (end - start) / 1e9 if start is not None and end is not None else None


def _counts(good: int, errors: int) -> dict[str, Any]:
    completed = good + errors
    found = {
        "request_count": _scalar(good, "requests"),
        "completed_request_count": _scalar(completed, "requests"),
    }
    return found | ({"request_error_rate": _scalar(100 * errors / completed, "%")} if completed else {})


def _scalar(value: float, unit: str) -> dict[str, Any]:
    return {"unit": unit, "avg": float(value)}


def _local(origin_ns: int, at_ns: int | None) -> str | None:
    """Naive local ISO time, as AIPerf writes it."""
    if at_ns is None:
        return None
    return datetime.fromtimestamp((origin_ns + at_ns) / 1e9).isoformat()  # noqa: DTZ006
