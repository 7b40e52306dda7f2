"""Where each stream of a session stands at a moment of its recorded time: what has been done, what comes next."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.trace.pacing.draws import start_time, start_turn
from ridgeline.trace.session import Conversation, Session


class StreamStart(NamedTuple):
    """A live stream: its conversation and the next turn to send."""

    conversation: int
    turn: int


class Snapshot(NamedTuple):
    """A session cut open at `origin_ns` of its own clock (None: it has no times)."""

    origin_ns: int | None
    streams: tuple[StreamStart, ...]  # the live ones, the root first; empty: the session cannot be started here
    completed: tuple[int, ...]  # turns already done, per conversation
    spawned: tuple[bool, ...]  # whether the children of each branch have been started, per branch


def from_the_beginning(session: Session) -> Snapshot:
    """The session before its first turn: how every recycled lane starts."""
    root = session.root
    return Snapshot(
        origin_ns=root.turns[0].at_ns if root.turns else None,
        streams=(StreamStart(0, 0),) if root.turns else (),
        completed=(0,) * len(session.conversations),
        spawned=(False,) * len(session.branches),
    )


def drawn(session: Session, seed: int, lane: int, low_ratio: float, high_ratio: float) -> Snapshot:
    """The session at the lane's own t*, drawn between two shares of the recorded request starts of the whole tree.

    Sessions without times are cut after a turn instead, drawn between the same shares of the root's turns; of those
    the last is never drawn, so that one is left to measure.
    """
    turns = (turn for conversation in session.conversations for turn in conversation.turns)
    times = [turn.at_ns for turn in turns if turn.at_ns is not None]
    if times:
        low, high = min(times), max(times)
        span = high - low
        drawn_ns = start_time(seed, session.id, lane, low + low_ratio * span, low + high_ratio * span)
        return at_time(session, min(max(round(drawn_ns), low), high))
    count = len(session.root.turns)
    if count < 2:
        return from_the_beginning(session)
    first, last = (min(int(ratio * count), count - 2) for ratio in (low_ratio, high_ratio))
    return after_turn(session, start_turn(seed, session.id, lane, first, last))


def at_time(session: Session, origin_ns: int) -> Snapshot:
    """The session at `origin_ns`: a stream's next turn is its first that starts at or after it.

    A child is live when its branch has started, or is about to and its spawning turn is over, and it has a turn left.
    """
    upcoming = [_next_turn(conversation, origin_ns) for conversation in session.conversations]
    spawned = [
        branch.spawn_turn < upcoming[0] or (branch.start_ns is not None and branch.start_ns <= origin_ns)
        for branch in session.branches
    ]
    streams, completed = [], []
    for index, conversation in enumerate(session.conversations):
        turn = upcoming[index]
        if conversation.branch is not None and not spawned[conversation.branch]:
            completed.append(0)  # it will be started later, from its first turn
            continue
        completed.append(turn)
        if turn < len(conversation.turns):
            streams.append(StreamStart(index, turn))
    return Snapshot(origin_ns, tuple(streams), tuple(completed), tuple(spawned))


def after_turn(session: Session, turn: int) -> Snapshot:
    """The session after root turn `turn`, without looking at times: children started by then count as over."""
    spawned = tuple(branch.spawn_turn <= turn for branch in session.branches)
    completed = [turn + 1]
    for conversation in session.conversations[1:]:
        started = conversation.branch is not None and spawned[conversation.branch]
        completed.append(len(conversation.turns) if started else 0)
    return Snapshot(None, (StreamStart(0, turn + 1),), tuple(completed), spawned)


def _next_turn(conversation: Conversation, origin_ns: int) -> int:
    for index, turn in enumerate(conversation.turns):
        if turn.at_ns is not None and turn.at_ns >= origin_ns:
            return index
    return len(conversation.turns)
