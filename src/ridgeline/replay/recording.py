"""One exchange becomes one row of a record. Pure; the clock it is given only turns stamps into simulated time."""

from __future__ import annotations

from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import FIELDS, Outcome, Row, packed
from ridgeline.replay.connection import Exchange
from ridgeline.replay.openai_stream import Answer, Ending, ResponseDecoder
from ridgeline.trace.pacing.api import Send

# Places in a row that the client itself looks at.
PHASE, SCHEDULED, SENT, FIRST_TOKEN, LAST_TOKEN, END, OUTCOME, ERROR, FLAGS, COMPLETION_TOKENS = (
    FIELDS.index(name)
    for name in (
        "phase", "scheduled_ns", "sent_ns", "first_token_ns", "last_token_ns", "end_ns", "outcome", "error", "flags",
        "completion_tokens",
    )
)  # fmt: skip


def make_row(send: Send, exchange: Exchange, answer: Answer, clock: ScaledClock) -> Row:
    """The record of a request that has ended, in the order of `FIELDS` (a test holds it to that). Times become
    simulated; a response's odd headers become flags."""
    session, (conversation_index, turn_index) = send.session, send.key
    conversation = session.conversations[conversation_index]
    turn = conversation.turns[turn_index]
    usage = answer.usage
    error, flags, chunks, chunk_tokens = answer.error, answer.flags, answer.chunk_ns, answer.chunk_tokens
    first_byte, first_visible = answer.first_byte_ns, answer.first_visible_ns
    status, sent, end = exchange.status, exchange.sent_ns, exchange.end_ns
    if status is None:
        seen = None
    else:
        seen = len(chunks)
        if status // 100 != 2:
            flags, error = _refused(exchange, status, answer)
    if clock.speed == 1.0:
        origin = clock.origin_ns
        if sent is not None:
            sent -= origin
        if end is not None:
            end -= origin
        if first_byte is not None:
            first_byte -= origin
        if first_visible is not None:
            first_visible -= origin
        chunks = [stamp - origin for stamp in chunks]
    else:
        sent, end, first_byte, first_visible = (
            None if stamp is None else clock.at(stamp) for stamp in (sent, end, first_byte, first_visible)
        )
        chunks = list(map(clock.at, chunks))
    blocks = len(turn.hash_ids)
    return (
        send.id,
        send.phase,
        send.lane,
        send.tree,
        session.id,
        conversation.id,
        turn_index,
        conversation.depth,
        send.correlation_id,
        send.parent_correlation_id,
        turn.outer,
        turn.inner,
        turn.source_kind,
        send.scheduled_ns,
        sent,
        first_byte,
        chunks[0] if seen else None,
        first_visible,
        chunks[-1] if seen else None,
        end,
        answer.outcome,
        status,
        error,
        flags,
        turn.input_tokens,
        send.max_tokens,
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.reasoning_tokens,
        usage.cached_tokens,
        seen,
        chunk_tokens[0] if chunk_tokens else None,
        packed(chunks),
        turn.hit_blocks if blocks else None,
        blocks or None,
    )


class _Nobody:
    """Owns an exchange that never was."""

    def on_sent(self, exchange: Exchange) -> None: ...

    def on_ready(self, exchange: Exchange) -> None: ...

    def on_end(self, exchange: Exchange) -> None: ...


def lost_row(send: Send, at_ns: int, reason: str) -> Row:
    """The row of a request whose process ended at `at_ns` (simulated): what was asked is known, the rest is not."""
    exchange = Exchange(_Nobody())
    exchange.end_ns = at_ns
    return make_row(send, exchange, ResponseDecoder(0).close(Ending.UNSENT, reason), ScaledClock(0))


def _refused(exchange: Exchange, status: int, answer: Answer) -> tuple[tuple[str, ...], str | None]:
    """Flags and error of an answer that is no success."""
    flags, error = answer.flags, answer.error
    if (wait := exchange.header(b"retry-after")) is not None:
        flags = (*flags, f"retry_after:{wait}")
    if status // 100 == 3:
        error = f"HTTP {status}: redirect to {exchange.header(b'location') or 'nowhere'} refused"
    elif answer.outcome is Outcome.HTTP_ERROR and error and not error.startswith("HTTP"):
        error = f"HTTP {status}: {error}"
    return flags, error
