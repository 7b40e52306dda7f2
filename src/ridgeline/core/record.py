"""What happened to one request, and to one replay as a whole.

All times are simulated nanoseconds since the replay's origin (see core/clock.py). None means it did not happen or was
not seen; it never stands for zero. The Parquet form and its version are in results/records.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias


class Outcome(StrEnum):
    """How a request ended. Closed: a decoder must choose one of these."""

    OK = "ok"
    HTTP_ERROR = "http_error"  # a status other than 2xx, or a 200 whose body is an error object
    STREAM_ERROR = "stream_error"  # an error event, or bytes that break the protocol, in mid-stream
    TRUNCATED = "truncated"  # the stream ended without finish_reason and without [DONE]
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"  # by us, at the end of the grace period
    EMPTY = "empty"  # a well-formed answer without any generated token
    CLIENT_ERROR = "client_error"  # connection refused or reset, or our own fault
    OVERFLOW = "overflow"  # the server says the context is too long: skipped, not an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request. Counts named `*_tokens` come from the server's usage unless said otherwise."""

    request_id: int  # counts up over the replay, in order of sending
    phase: str  # "warmup" | "profiling"
    lane: int
    tree: int  # serial number of the live session tree over the whole replay
    session_id: str  # root trace id
    conversation_id: str
    turn_index: int
    depth: int = 0  # 0 root, 1 subagent or worker chain
    correlation_id: str = ""  # one per stream instance, stable from warm-up to profiling
    parent_correlation_id: str | None = None
    source_outer: int | None = None  # index in the trace file's `requests`
    source_inner: int | None = None
    source_kind: str = ""

    scheduled_ns: int = 0  # when the pacing machine wanted it sent
    sent_ns: int | None = None  # last byte handed to the kernel
    first_byte_ns: int | None = None  # first body byte (TTFB)
    first_token_ns: int | None = None  # first generated token of any kind (TTFT)
    first_visible_ns: int | None = None  # first user-visible content
    last_token_ns: int | None = None  # last chunk with generated content; usage and [DONE] do not count
    end_ns: int | None = None  # response complete, or the moment it failed

    outcome: Outcome = Outcome.OK
    status: int | None = None
    error: str | None = None
    flags: tuple[str, ...] = ()  # e.g. missing_done, coalesced

    asked_prompt_tokens: int | None = None  # what the trace wanted
    max_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None  # usage.prompt_tokens_details.cached_tokens
    chunks: int | None = None  # content events seen
    first_chunk_tokens: int | None = None  # tokens in the first content event, when the server tells
    chunk_ns: tuple[int, ...] = ()  # arrival of every content event
    theoretical_hit_blocks: int | None = None
    theoretical_total_blocks: int | None = None


# A record as a plain tuple, its values in the order of `FIELDS`: what the measuring loop makes, because building a
# frozen object of 37 fields costs as much as decoding a short answer. Its `chunk_ns` is packed: 8 bytes an arrival
# instead of 40, and nothing for the garbage collector to walk or for the writer of a batch to take apart.
Row: TypeAlias = tuple[Any, ...]
FIELDS = tuple(Record.__dataclass_fields__)
CHUNK_NS = FIELDS.index("chunk_ns")


def packed(stamps: Iterable[int]) -> bytes:
    """Signed 64-bit integers in the machine's order. Raises OverflowError for a number beyond them."""
    return array("q", stamps).tobytes()


def from_row(row: Row) -> Record:
    """The record of a row."""
    values = dict(zip(FIELDS, row, strict=True))
    values["chunk_ns"] = tuple(memoryview(row[CHUNK_NS]).cast("q"))
    return Record(**values)


def to_row(record: Record) -> Row:
    """The row of a record."""
    values = [getattr(record, name) for name in FIELDS]
    values[CHUNK_NS] = packed(record.chunk_ns)
    return tuple(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """The windows of a replay. Profiling ends for sending at `profiling_end_ns`; `drained_ns` is when the last
    answer, or the grace, was over."""

    start_ns: int = 0
    profiling_start_ns: int | None = None
    profiling_end_ns: int | None = None
    drained_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """One scrape of one endpoint. A failed scrape has `values` None: a gap, not zeros."""

    at_ns: int
    endpoint: str
    values: Mapping[str, float] | None  # `name{label="v",...}` -> value
    took_ns: int | None = None  # real time from asking to the page's last byte


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Everything one replay (real, emulated or virtual) produced."""

    records: tuple[Record, ...]
    phases: Phases
    speed: float = 1.0
    samples: tuple[ServerSample, ...] = ()
    health: Mapping[str, float] = field(default_factory=dict)  # the client's own: lags, CPU share
    settings: Mapping[str, Any] = field(default_factory=dict)
    prompt_mode: str = ""  # how prompts were made: "tokenizer" | "token-ids" | "bytes"
    aborted: str | None = None  # why the replay stopped early
