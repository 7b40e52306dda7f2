"""AIPerf's `profile_export.jsonl`: one object a request.

In: a replay, in memory or on disk, and the wall time of its origin. Out: rows as plain data with AIPerf's tags (its
fork's `full_*` included) and units (ms). They come in the order of completion, from a heap of what is out of place, so
that records are walked once and never held. What we cannot know of a request has no tag: when its connection was opened
and how many bytes went either way (`http_req_connecting`, `_connection_reused`, `_connection_overhead`, `_sending`,
`_duration`, `_total`, `_data_*`, `_chunks_*`). Source: agentx-replay specification, sections 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from http import HTTPStatus
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from ridgeline.core.record import Outcome, Record, Replay
from ridgeline.core.units import MILLISECOND
from ridgeline.results.stored import StoredReplay, integers, is_profiling
from ridgeline.results.sweepline import Ints

_PHRASES = {int(status): status.phrase for status in HTTPStatus}
UNITS = {
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
    "usage_reasoning_tokens": "tokens",
    "usage_prompt_cache_read_tokens": "tokens",
    "osl_mismatch_diff_pct": "%",
    "http_req_blocked": "ms",
    "http_req_dns_lookup": "ms",
    "http_req_waiting": "ms",
    "http_req_receiving": "ms",
}
SKIPPED = (Outcome.OVERFLOW, Outcome.CANCELLED)  # neither rows nor errors
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
    """Tag -> value of one good request, in `UNITS`; what cannot be known has no tag."""
    sent, first, last = record.sent_ns, record.first_token_ns, record.last_token_ns
    if sent is None or first is None or last is None:
        return {}
    latency, decode, tokens = last - sent, last - first, record.completion_tokens
    found: dict[str, Any] = {
        "time_to_first_token": (first - sent) / MILLISECOND,
        "request_latency": latency / MILLISECOND,
        "decode_duration": decode / MILLISECOND,
    }
    if record.end_ns is not None:
        whole = record.end_ns - first
        found["full_decode_duration"] = whole / MILLISECOND
        if tokens is not None and tokens >= 2:
            found["full_response_inter_token_latency"] = whole / (tokens - 1) / MILLISECOND
            if whole > 0:
                found["full_response_output_token_throughput_per_user"] = (tokens - 1) / (whole / 1e9)
    if record.first_visible_ns is not None:
        found["time_to_first_output_token"] = (record.first_visible_ns - sent) / MILLISECOND
    if len(record.chunk_ns) >= 2:
        found["time_to_second_token"] = (record.chunk_ns[1] - record.chunk_ns[0]) / MILLISECOND
        found["inter_chunk_latency"] = [(b - a) / MILLISECOND for a, b in pairwise(record.chunk_ns)]
    if tokens is not None:
        found |= {"output_sequence_length": tokens, "usage_completion_tokens": tokens}
        found["output_token_count"] = max(0, tokens - (record.reasoning_tokens or 0))
        if record.max_tokens:
            found["osl_mismatch_diff_pct"] = 100 * (tokens - record.max_tokens) / record.max_tokens
        if latency > 0:
            found["e2e_output_token_throughput"] = tokens / (latency / 1e9)
        if tokens >= 2:
            found["inter_token_latency"] = decode / (tokens - 1) / MILLISECOND
            if decode > 0:
                found["output_token_throughput_per_user"] = (tokens - 1) / (decode / 1e9)
    if record.reasoning_tokens is not None:
        found |= dict.fromkeys(("reasoning_token_count", "usage_reasoning_tokens"), record.reasoning_tokens)
    if record.prompt_tokens is not None:
        found |= {"input_sequence_length": record.prompt_tokens, "usage_prompt_tokens": record.prompt_tokens}
        if first > sent:
            found["prefill_throughput_per_user"] = record.prompt_tokens / ((first - sent) / 1e9)
        if tokens is not None:
            found["usage_total_tokens"] = record.prompt_tokens + tokens
    if record.cached_tokens is not None:
        found["usage_prompt_cache_read_tokens"] = record.cached_tokens
    if record.first_byte_ns is not None and record.end_ns is not None:
        found["http_req_waiting"] = (record.first_byte_ns - sent) / MILLISECOND
        found["http_req_receiving"] = (record.end_ns - record.first_byte_ns) / MILLISECOND
    # No request waits for a free connection, and a host is looked up once, before the first.
    return found | {"http_req_blocked": 0.0, "http_req_dns_lookup": 0.0}


def rows(replay: Replay | StoredReplay, wall_origin_ns: int) -> Iterator[dict[str, Any]]:
    """Rows in the order of completion: warm-up included; overflows and requests we cancelled left out, as AIPerf does.

    `wall_origin_ns`: epoch nanoseconds of the replay's origin.
    """
    prefix = replay.settings.get("request_id_prefix")
    workers = replay.settings.get("workers")
    serials = _serials(replay)
    for place, record in _by_completion(replay):
        if record.outcome in SKIPPED:
            continue
        values = metrics(record) if is_good(record) else {}
        about = {
            "session_num": int(serials[place]),
            "x_request_id": f"{prefix}{record.request_id:012x}" if prefix else None,
            **_metadata(record, wall_origin_ns),
            **_process(record.lane % workers if isinstance(workers, int) and workers else 0),
        }
        found = {
            "metadata": {name: value for name, value in about.items() if value is not None},
            "metrics": {tag: {"value": value, "unit": UNITS[tag]} for tag, value in values.items()},
        }
        yield found if values else found | {"error": error_of(record)}


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


def _process(number: int) -> dict[str, str]:
    """Lanes belong to worker processes in turn, and the one that sends a request decodes its answer."""
    return {"worker_id": f"worker_{number}", "record_processor_id": f"record_processor_{number}"}


def _metadata(record: Record, origin: int) -> dict[str, Any]:
    profiling = record.phase == "profiling"
    times = {
        "credit_issued_ns": record.scheduled_ns,
        # Readers ask for a start also of what found no connection: nothing is nearer to it than when it was due.
        "request_start_ns": record.scheduled_ns if record.sent_ns is None else record.sent_ns,
        "request_ack_ns": record.first_byte_ns,
        "request_end_ns": record.end_ns,
    }
    return {
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


def error_of(record: Record) -> dict[str, Any]:
    """Code, type and message of a failed request: a status has its own phrase as type, as AIPerf writes it."""
    code = record.status if record.status is not None and record.status >= 400 else None
    kind = _ERROR_TYPES.get(record.outcome, "InvalidInferenceResultError")
    message = record.error or f"request ended as {record.outcome}"
    if record.outcome is Outcome.STREAM_ERROR:
        code = 502  # what AIPerf gives an error event in mid-stream
    elif code is not None:
        kind = _PHRASES.get(code, kind)
        message = message.removeprefix(f"HTTP {code}: ")
    found = {"code": code, "type": kind, "message": message}
    return {name: value for name, value in found.items() if value is not None}
