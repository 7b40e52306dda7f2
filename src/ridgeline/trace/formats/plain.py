"""Sessions of formats without subagents: a list of rows becomes one conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.build.hits import infinite_cache_hits
from ridgeline.trace.session import Conversation, Recorded, Session, Turn


class Row(NamedTuple):
    """One request of such a format. Times in milliseconds; None when the format or the row has none."""

    session: str | None  # rows with one name form a conversation; None: a session of its own
    input_tokens: int
    output_tokens: int
    at_ms: float | None = None
    delay_ms: float | None = None
    ids: Sequence[int] = ()
    messages: tuple[tuple[str, str], ...] | None = None
    recorded: Recorded | None = None
    order: tuple[float, ...] = ()  # sorts the rows of a session; file order when equal


class Style(NamedTuple):
    """What all rows of a format have in common."""

    prefix: str  # of made-up session names, and the kind stored with every turn
    model: str = "default"
    block_size: int = 64
    hash_scope: str = "local"


def sessions(rows: Iterable[Row], style: Style) -> list[Session]:
    """Sessions in the order of their first row. Hits are counted within a session, or over all rows when ids are
    global, in the order of the rows."""
    rows = list(rows)
    hits = _hits(rows, style)
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(f"{style.prefix}_{number:06d}" if row.session is None else row.session, []).append(number)
    found = []
    for name, members in groups.items():
        members.sort(key=lambda number: rows[number].order)
        turns = tuple(_turn(rows, members, k, hits, style) for k in range(len(members)))
        root = Conversation(id=name, scope=name, turns=turns)
        found.append(Session(id=name, conversations=(root,), block_size=style.block_size, hash_scope=style.hash_scope))
    return found


def _turn(rows: Sequence[Row], members: Sequence[int], k: int, hits: dict[int, int], style: Style) -> Turn:
    row = rows[members[k]]
    before = rows[members[k - 1]] if k else None
    delay = row.delay_ms
    if delay is None and before is not None and row.at_ms is not None and before.at_ms is not None:
        delay = row.at_ms - before.at_ms  # no server time is recorded, so it counts as none
    return Turn(
        at_ns=_ns(row.at_ms),
        delay_ns=_ns(max(0.0, delay)) if k and delay is not None else None,
        api_ns=None,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        model=style.model,
        hash_ids=BlockIds.of(row.ids),
        messages=row.messages,
        recorded=row.recorded,
        hit_blocks=hits.get(members[k], 0),
        outer=members[k],
        source_kind=style.prefix,
    )


def _hits(rows: Sequence[Row], style: Style) -> dict[int, int]:
    scopes: dict[str | int | None, list[int]] = {}
    for number, row in enumerate(rows):
        if row.ids:
            scope = None if style.hash_scope == "global" else row.session if row.session is not None else number
            scopes.setdefault(scope, []).append(number)
    found: dict[int, int] = {}
    for members in scopes.values():
        ordered = sorted(members, key=lambda number: rows[number].order)
        counted = infinite_cache_hits(BlockIds.of(rows[number].ids) for number in ordered)
        found |= dict(zip(ordered, counted, strict=True))
    return found


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * 1e6)
