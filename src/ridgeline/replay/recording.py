"""One exchange becomes one row of a record. Pure; the clock it is given only turns stamps into simulated time."""

from __future__ import annotations

from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import FIELDS, Outcome, Row
from ridgeline.replay.connection import Exchange
from ridgeline.replay.openai_stream import Answer, Ending, ResponseDecoder
from ridgeline.trace.pacing.api import Send

# Places in a row that the client itself looks at.
PHASE, SCHEDULED, SENT, FIRST_TOKEN, LAST_TOKEN, END, OUTCOME, ERROR, FLAGS, COMPLETION_TOKENS, CHUNKS = (
    FIELDS.index(name)
    for name in (
        "phase", "scheduled_ns", "sent_ns", "first_token_ns", "last_token_ns", "end_ns", "outcome", "error", "flags",
        "completion_tokens", "chunk_ns",
    )
)  # fmt: skip


def make_row(send: Send, exchange: Exchange, answer: Answer, clock: ScaledClock) -> Row:
    """The record of a request that has ended, in the order of `FIELDS` (a test holds it to that). Times become
    simulated; a response's odd headers become flags."""
    session = send.session
    conversation = session.conversations[send.key.conversation]
    turn = conversation.turns[send.key.turn]
    usage = answer.usage
    blocks = len(turn.hash_ids)
    status = exchange.status
    flags, error = answer.flags, answer.error
    if status is not None and status // 100 != 2:
        flags, error = _refused(exchange, status, answer)
    stamps = (
        exchange.sent_ns,
        answer.first_byte_ns,
        answer.first_token_ns,
        answer.first_visible_ns,
        answer.last_token_ns,
        exchange.end_ns,
    )
    chunks = answer.chunk_ns
    if clock.speed == 1.0:
        origin = clock.origin_ns
        times = [None if stamp is None else stamp - origin for stamp in stamps]
        chunk_times = [stamp - origin for stamp in chunks]
    else:
        times = [None if stamp is None else clock.at(stamp) for stamp in stamps]
        chunk_times = list(map(clock.at, chunks))
    return (
        send.id,
        send.phase,
        send.lane,
        send.tree,
        session.id,
        conversation.id,
        send.key.turn,
        conversation.depth,
        send.correlation_id,
        send.parent_correlation_id,
        turn.outer,
        turn.inner,
        turn.source_kind,
        send.scheduled_ns,
        *times,
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
        None if status is None else len(chunks),
        answer.first_chunk_tokens,
        tuple(chunk_times),
        turn.hit_blocks if blocks else None,
        blocks or None,
    )


def lost_row(send: Send, at_ns: int, reason: str) -> Row:
    """The row of a request whose process ended at `at_ns` (simulated): what was asked is known, the rest is not."""
    exchange = Exchange(b"", [], lambda _: None, lambda _: None)
    exchange.end(Ending.UNSENT, reason)
    answer = ResponseDecoder(0).close(Ending.UNSENT, reason)
    row = list(make_row(send, exchange, answer, ScaledClock(0)))
    row[END] = at_ns
    return tuple(row)


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
