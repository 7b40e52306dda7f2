"""One exchange becomes one record. Pure, apart from the clock it is given to turn stamps into simulated time."""

from __future__ import annotations

from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import Outcome, Record
from ridgeline.replay.connection import Exchange
from ridgeline.replay.openai_stream import Answer
from ridgeline.trace.pacing.api import Send


def make_record(send: Send, exchange: Exchange, answer: Answer, clock: ScaledClock) -> Record:
    """The record of a request that has ended. Times become simulated; a response's odd headers become flags."""
    session, turn = send.session, send.turn
    conversation = session.conversations[send.key.conversation]
    flags = answer.flags
    error = answer.error
    usage = answer.usage
    blocks = len(turn.hash_ids)
    if exchange.status is not None and exchange.status // 100 != 2:
        if (wait := exchange.header(b"retry-after")) is not None:
            flags = (*flags, f"retry_after:{wait}")
        if exchange.status // 100 == 3:
            error = f"HTTP {exchange.status}: redirect to {exchange.header(b'location') or 'nowhere'} refused"
        elif answer.outcome is Outcome.HTTP_ERROR and error and not error.startswith("HTTP"):
            error = f"HTTP {exchange.status}: {error}"
    return Record(
        request_id=send.id,
        phase=send.phase,
        lane=send.lane,
        tree=send.tree,
        session_id=session.id,
        conversation_id=conversation.id,
        turn_index=send.key.turn,
        depth=conversation.depth,
        correlation_id=send.correlation_id,
        parent_correlation_id=send.parent_correlation_id,
        source_outer=turn.outer,
        source_inner=turn.inner,
        source_kind=turn.source_kind,
        scheduled_ns=send.scheduled_ns,
        sent_ns=_at(clock, exchange.sent_ns),
        first_byte_ns=_at(clock, answer.first_byte_ns),
        first_token_ns=_at(clock, answer.first_token_ns),
        first_visible_ns=_at(clock, answer.first_visible_ns),
        last_token_ns=_at(clock, answer.last_token_ns),
        end_ns=_at(clock, exchange.end_ns),
        outcome=answer.outcome,
        status=exchange.status,
        error=error,
        flags=flags,
        asked_prompt_tokens=turn.input_tokens,
        max_tokens=send.max_tokens,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cached_tokens=usage.cached_tokens,
        chunks=len(answer.chunk_ns) if exchange.status is not None else None,
        first_chunk_tokens=answer.first_chunk_tokens,
        chunk_ns=_all_at(clock, answer.chunk_ns),
        theoretical_hit_blocks=turn.hit_blocks if blocks else None,
        theoretical_total_blocks=blocks or None,
    )


def _at(clock: ScaledClock, monotonic_ns: int | None) -> int | None:
    return None if monotonic_ns is None else clock.at(monotonic_ns)


def _all_at(clock: ScaledClock, monotonic_ns: list[int]) -> tuple[int, ...]:
    if clock.speed == 1.0:
        origin = clock.origin_ns
        return tuple([stamp - origin for stamp in monotonic_ns])
    return tuple(map(clock.at, monotonic_ns))
