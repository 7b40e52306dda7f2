"""AIPerf's raw exports: `profile_export.jsonl`, one object a request, and `profile_export_aiperf.json`, the summary.

In: a replay and the wall time of its origin. Out: rows and summary as plain data with AIPerf's tags, units (ms) and
statistics. Percentiles are all there, few samples or not, because readers expect them. Tags we cannot know (transport
phases, client tokenisation) are absent, not zero. Source: agentx-replay specification, sections 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from ridgeline.core.record import Outcome, Record, Replay
from ridgeline.results.metrics.statistics import percentile

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
_ADJUSTED = ("request_latency", "time_to_first_token", "decode_duration", "inter_token_latency")
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


def rows(replay: Replay, wall_origin_ns: int) -> Iterator[dict[str, Any]]:
    """Rows in the order of completion: warm-up included; overflows and requests we cancelled left out, as AIPerf does.

    `wall_origin_ns`: epoch nanoseconds of the replay's origin.
    """
    prefix = replay.settings.get("request_id_prefix")
    numbers: dict[str, int] = {}
    serial: dict[int, int] = {}  # request id -> count of requests in its phase, gaps included
    for record in sorted(replay.records, key=lambda record: record.request_id):
        serial[record.request_id] = numbers.get(record.phase, 0)
        numbers[record.phase] = serial[record.request_id] + 1
    for record in sorted(replay.records, key=lambda record: (record.end_ns or 0, record.request_id)):
        if record.outcome in (Outcome.OVERFLOW, Outcome.CANCELLED):
            continue
        values = metrics(record) if is_good(record) else {}
        request = f"{prefix}{record.request_id:012x}" if prefix else None
        found = {
            "metadata": _metadata(record, serial[record.request_id], request, wall_origin_ns),
            "metrics": {tag: {"value": value, "unit": _UNITS[tag]} for tag, value in values.items()},
        }
        yield found if values else found | {"error": _error(record)}


def jsonl(replay: Replay, wall_origin_ns: int) -> Iterator[bytes]:
    """`profile_export.jsonl`, a line at a time."""
    for row in rows(replay, wall_origin_ns):
        yield msgspec.json.encode(row) + b"\n"


def summary(replay: Replay, wall_origin_ns: int, *, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """`profile_export_aiperf.json`: statistics over the good profiling requests, counts over all of them."""
    measured = [record for record in replay.records if record.phase == "profiling"]
    good = [record for record in measured if is_good(record)]
    skipped = (Outcome.OVERFLOW, Outcome.CANCELLED)
    errors = [record for record in measured if not is_good(record) and record.outcome not in skipped]
    overflows = sum(record.outcome is Outcome.OVERFLOW for record in measured)
    found: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **_distributions(good)}
    found |= _totals(good, len(errors), _phase_seconds(replay))
    if errors or overflows:
        found["context_overflow_count"] = _scalar(overflows, "requests")
    if errors:
        found["error_request_count"] = _scalar(len(errors), "requests")
        found |= _adjusted(good, len(errors))
    found |= _lags([*good, *errors])
    hit, blocks = (
        sum(getattr(record, name) or 0 for record in good)
        for name in ("theoretical_hit_blocks", "theoretical_total_blocks")
    )
    if blocks:
        found["theoretical_prefix_cache_hit"] = {"unit": "%", "avg": 100 * hit / blocks, "count": blocks, "sum": hit}
    warm = [record for record in replay.records if record.phase != "profiling" and is_good(record)]
    found["warmup_metrics"] = _distributions(warm)
    phases = replay.phases
    return found | {
        "input_config": dict(replay.settings),
        "was_cancelled": replay.aborted is not None,
        "is_complete": replay.aborted is None,
        "error_summary": _error_summary(errors),
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


def _distributions(good: Iterable[Record]) -> dict[str, dict[str, Any]]:
    values: dict[str, list[float]] = {}
    for record in good:
        for tag, value in metrics(record).items():
            if isinstance(value, list):
                values.setdefault(tag, []).extend(value)
            else:
                values.setdefault(tag, []).append(value)
    return {tag: _statistics(found, _UNITS[tag]) for tag, found in values.items()}


def _statistics(values: list[float], unit: str) -> dict[str, Any]:
    ordered = np.sort(np.array(values, dtype=np.float64))
    return {
        "unit": unit,
        "avg": float(ordered.mean()),
        **{f"p{p}": percentile(ordered, p) for p in PERCENTILES},
        "min": float(ordered[0]),
        "max": float(ordered[-1]),
        "std": float(ordered.std()),
        "count": len(ordered),
        "sum": float(ordered.sum()),
    }


def _phase_seconds(replay: Replay) -> float | None:
    """Length of the profiling phase with its drain: what AIPerf divides by, although it reports a shorter
    benchmark_duration (observed in recorded runs of 0.13)."""
    start, end = replay.phases.profiling_start_ns, replay.phases.drained_ns
    return (end - start) / 1e9 if start is not None and end is not None else None


def _totals(good: list[Record], errors: int, phase_seconds: float | None) -> dict[str, Any]:
    completed = len(good) + errors
    found = {
        "request_count": _scalar(len(good), "requests"),
        "completed_request_count": _scalar(completed, "requests"),
    }
    if completed:
        found["request_error_rate"] = _scalar(100 * errors / completed, "%")
    if not good:
        return found
    starts = [record.sent_ns or 0 for record in good]
    seconds = (max(record.last_token_ns or 0 for record in good) - min(starts)) / 1e9
    prompt = [record.prompt_tokens for record in good if record.prompt_tokens is not None]
    output = [record.completion_tokens for record in good if record.completion_tokens is not None]
    cached = [record.cached_tokens for record in good if record.cached_tokens is not None]
    visible = [max(0, (r.completion_tokens or 0) - (r.reasoning_tokens or 0)) for r in good]
    sums = {"prompt": sum(prompt), "output": sum(output), "cached": sum(cached)}
    found |= {
        "benchmark_duration": _scalar(seconds, "sec"),
        "total_isl": _scalar(sums["prompt"], "tokens"),
        "total_osl": _scalar(sums["output"], "tokens"),
        "total_output_tokens": _scalar(sum(visible), "tokens"),
        "total_usage_prompt_tokens": _scalar(sums["prompt"], "tokens"),
        "total_usage_completion_tokens": _scalar(sums["output"], "tokens"),
        "total_usage_total_tokens": _scalar(sums["prompt"] + sums["output"], "tokens"),
    }
    if cached and sums["prompt"]:
        found["total_usage_prompt_cache_read_tokens"] = _scalar(sums["cached"], "tokens")
        found["overall_usage_prompt_cache_read_pct"] = _scalar(100 * sums["cached"] / sums["prompt"], "%")
    divisor = phase_seconds or seconds
    if divisor > 0:
        found |= {
            "request_throughput": _scalar(len(good) / divisor, "requests/sec"),
            "input_token_throughput": _scalar(sums["prompt"] / divisor, "tokens/sec"),
            "output_token_throughput": _scalar(sums["output"] / divisor, "tokens/sec"),
            "total_token_throughput": _scalar((sums["prompt"] + sums["output"]) / divisor, "tokens/sec"),
        }
    return found


def _adjusted(good: list[Record], errors: int) -> dict[str, Any]:
    """Percentiles with one infinite sample for every error; those that fall on an error are left out."""
    found = {}
    for tag in _ADJUSTED:
        values = sorted(value for record in good for value in [metrics(record).get(tag)] if value is not None)
        n = len(values) + errors
        places = {f"p{p}": round(p * (n - 1) / 100) for p in PERCENTILES} | {"min": 0}
        known = {name: values[place] for name, place in places.items() if place < len(values)}
        found[f"adj_{tag}"] = {"unit": "ms", **known, "count": n}
    return found


def _lags(records: list[Record]) -> dict[str, Any]:
    """From the moment a request was due: to its start, and to its end; failed requests included."""
    pairs = {
        "credit_to_start_latency": [(r.sent_ns - r.scheduled_ns) / _MS for r in records if r.sent_ns is not None],
        "effective_latency": [(r.end_ns - r.scheduled_ns) / _MS for r in records if r.end_ns is not None],
    }
    return {tag: _statistics(values, "ms") for tag, values in pairs.items() if values}


def _error_summary(errors: list[Record]) -> list[dict[str, Any]]:
    counts: dict[bytes, int] = {}
    for record in errors:
        key = msgspec.json.encode(_error(record))
        counts[key] = counts.get(key, 0) + 1
    return [{"error_details": msgspec.json.decode(key), "count": count} for key, count in counts.items()]


def _scalar(value: float, unit: str) -> dict[str, Any]:
    return {"unit": unit, "avg": float(value)}


def _local(origin_ns: int, at_ns: int | None) -> str | None:
    """Naive local ISO time, as AIPerf writes it."""
    if at_ns is None:
        return None
    return datetime.fromtimestamp((origin_ns + at_ns) / 1e9).isoformat()  # noqa: DTZ006
