"""The weka format: one JSON object per session, block ids instead of text. Unknown keys are refused at every level.

Times inside a subagent are relative to its spawn in one family of corpora and on the session's clock in the other.
One corpus keeps one convention, so it is decided once for all its subagents.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.build.raw import SLACK_S, RawTrace, Request, Subagent
from ridgeline.trace.formats.problems import problems
from ridgeline.trace.formats.source import Record

Count = Annotated[int, msgspec.Meta(ge=0)]
RECENT = 8  # runs of ids a new prompt is compared with: as many conversations interleave at most, in practice
RENAMED = {"input": "in", "output": "out"}


class _Call(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", kw_only=True, rename=RENAMED):
    late_types: ClassVar[dict[str, Any]] = {"hash_ids": list[int]}

    t: float
    model: str
    input: Count
    output: Count
    hash_ids: msgspec.Raw = msgspec.Raw(b"[]")
    input_types: list[str] = []
    output_types: list[str] = []
    stop: str = ""
    api_time: float | None = None
    think_time: float | None = None


class Normal(_Call, tag="n"):
    """A plain call."""


class Streaming(_Call, tag="s"):
    """A streamed call."""

    ttft: float | None = None


class Marker(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="subagent", kw_only=True):
    """A subagent and its calls."""

    t: float
    agent_id: str
    subagent_type: str
    requests: list[Normal | Streaming]
    status: str = ""
    duration_ms: int | None = None
    total_tokens: int | None = None
    tool_use_count: int | None = None
    models: list[str] = []
    tool_tokens: Count = 0
    system_tokens: Count = 0


class Trace(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One session as written."""

    id: str
    models: list[str]
    block_size: Annotated[int, msgspec.Meta(gt=0)]
    hash_id_scope: Literal["local"]
    requests: list[Normal | Streaming | Marker]
    tool_tokens: Count = 0
    system_tokens: Count = 0
    totals: msgspec.Raw = msgspec.Raw(b"null")


_DECODER = msgspec.json.Decoder(Trace)
_NOTHING = msgspec.Raw(b"[]")
_IDS = msgspec.json.Decoder(list[int])


class Parsed(NamedTuple):
    """A trace whose ids are compact and whose subagent times are still as written."""

    trace: Trace
    ids: list[BlockIds]  # of every call: file order, a subagent's calls in its place
    where: Where

    @property
    def peak(self) -> int:
        """Longest context of any call."""
        return max((call.input + max(1, call.output) for call in calls(self.trace)), default=0)


def parse(record: Record) -> Parsed:
    """One record. Raises InputError with every problem in it."""
    try:
        trace = _DECODER.decode(record.data)
        ids = _compact(call.hash_ids for call in calls(trace))
    except (msgspec.DecodeError, OverflowError) as error:
        found = problems(record.data, Trace, record.where)
        raise InputError(found or [Problem(f"not a weka trace: {error}", record.where)]) from error
    trace.totals = _NOTHING  # raw values would keep the record's whole text alive
    for call in calls(trace):
        call.hash_ids = _NOTHING
    return Parsed(trace, ids, record.where)


def calls(trace: Trace) -> Iterable[Normal | Streaming]:
    """Every call of a trace, subagents' included, in file order."""
    for item in trace.requests:
        if isinstance(item, Marker):
            yield from item.requests
        else:
            yield item


def _compact(raws: Iterable[msgspec.Raw]) -> list[BlockIds]:
    """Ids of successive prompts. A prompt whose text begins with an earlier one's is read only from there on."""
    runs: list[tuple[bytes, array[int]]] = []  # text up to the closing bracket, ids; latest first
    found = []
    for raw in raws:
        text = bytes(raw).rstrip()
        if text[-1:] != b"]":
            raise msgspec.ValidationError("hash_ids must be a list")
        text = text[:-1].rstrip()
        for at, (known, base) in enumerate(runs):
            if text == known:
                ids, run = BlockIds(base), (known, base)
            elif _continues(text, known):
                run = (text, _extended(base, _IDS.decode(b"[" + text[len(known) + 1 :] + b"]")))
                ids = BlockIds(run[1])
            elif _continues(known, text):
                ids, run = BlockIds(base, text.count(b",") + 1), (known, base)
            else:
                continue
            runs.pop(at)
            break
        else:
            run = (text, _array(_IDS.decode(text + b"]")))
            ids = BlockIds(run[1])
        runs.insert(0, run)
        del runs[RECENT:]
        found.append(ids)
    return found


def _continues(text: bytes, known: bytes) -> bool:
    """Whether a list's text goes on where another, not empty, ends."""
    return len(known) > 1 and text.startswith(known) and text[len(known) : len(known) + 1] == b","


def _extended(base: array[int], more: list[int]) -> array[int]:
    """The run with more ids: the same array, unless they only fit an unsigned one."""
    length = len(base)
    try:
        base.extend(more)
    except OverflowError:
        del base[length:]
        return array("Q", [*base, *more])
    return base


def _array(ids: list[int]) -> array[int]:
    try:
        return array("q", ids)
    except OverflowError:
        return array("Q", ids)


def clock_of(traces: Iterable[Trace]) -> str:
    """ "relative", "absolute" or "none": how most subagents of a corpus state their times.

    A call before its own spawn can only be relative. One at or after it is taken as absolute, which is wrong for a
    long-running relative subagent; such are few in a corpus, so the majority decides.
    """
    relative = absolute = 0
    for trace in traces:
        for marker in trace.requests:
            if isinstance(marker, Marker) and marker.requests and marker.t > SLACK_S:
                earliest = min(call.t for call in marker.requests)
                relative, absolute = (
                    (relative + 1, absolute) if earliest + SLACK_S < marker.t else (relative, absolute + 1)
                )
    if not relative and not absolute:
        return "none"
    return "relative" if relative >= absolute else "absolute"


def raw_trace(parsed: Parsed, clock: str) -> RawTrace:
    """As plain values on one clock. `clock`: "relative", "absolute", or "each" to decide per call (AIPerf 0.13)."""
    trace, ids = parsed.trace, iter(parsed.ids)
    requests, subagents = [], []
    for outer, item in enumerate(trace.requests):
        if not isinstance(item, Marker):
            requests.append(_request(item, next(ids), outer, None, item.t))
            continue
        inner = tuple(
            _request(call, next(ids), outer, index, _absolute(call.t, item.t, clock))
            for index, call in enumerate(item.requests)
        )
        declared = item.tool_tokens + item.system_tokens
        subagents.append(Subagent(outer, item.t, item.agent_id, item.duration_ms, inner, declared))
    declared = trace.tool_tokens + trace.system_tokens
    return RawTrace(trace.id, trace.block_size, tuple(requests), tuple(subagents), declared, parsed.where)


def _absolute(t: float, spawn: float, clock: str) -> float:
    if clock == "each":
        return spawn + t if t + SLACK_S < spawn else t
    return t if clock == "absolute" else spawn + t


def _request(call: Normal | Streaming, ids: BlockIds, outer: int, inner: int | None, t: float) -> Request:
    types: Sequence[str] = call.input_types
    return Request(outer, inner, t, call.model, call.input, call.output, ids, call.api_time, call.stop, tuple(types))
