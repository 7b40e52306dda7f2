"""Small recordings and sends for tests, in our own shapes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.build import RawTrace, Request
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.session import Conversation, Session, Turn, TurnKey


def call(t: float, ids: Sequence[int], **more: Any) -> dict[str, Any]:
    """A weka request with whole blocks of 64."""
    plain = {"t": t, "type": "n", "model": "m", "in": 64 * len(ids), "out": 10, "hash_ids": list(ids), "api_time": 1.0}
    return plain | more


def marker(t: float, calls: Sequence[dict[str, Any]], agent: str = "a1", **more: Any) -> dict[str, Any]:
    """A weka subagent."""
    return {"t": t, "type": "subagent", "agent_id": agent, "subagent_type": "Explore", "requests": list(calls)} | more


def weka(requests: Sequence[dict[str, Any]], name: str = "s1", **more: Any) -> dict[str, Any]:
    """A weka session."""
    head = {"id": name, "models": ["m"], "block_size": 64, "hash_id_scope": "local"}
    return head | {"requests": list(requests)} | more


def write(path: Path, *records: dict[str, Any]) -> Path:
    """Records as JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def request(outer: int, t: float, ids: Sequence[int], **more: Any) -> Request:
    """A recorded request with whole blocks of 64 that took a second."""
    plain = {"model": "m", "input": 64 * len(ids), "output": 10, "api_time": 1.0} | more
    return Request(outer=outer, inner=None, t=t, ids=BlockIds.of(ids), **plain)


def trace(requests: Sequence[Request], **more: Any) -> RawTrace:
    """A recording of such requests."""
    return RawTrace("s1", 64, tuple(requests), **more)


def turn(ids: Sequence[int], tokens: int | None = None, *, size: int = 64, **more: Any) -> Turn:
    """A turn of whole blocks, or of `tokens`."""
    plain = {"at_ns": 0, "delay_ns": None, "api_ns": 0, "output_tokens": 10, "model": "m"} | more
    return Turn(hash_ids=BlockIds.of(ids), input_tokens=size * len(ids) if tokens is None else tokens, **plain)


def session(*conversations: Sequence[Turn], name: str = "s1", size: int = 64, scope: str = "local") -> Session:
    """A session of such turns; the first list is the root's."""
    made = tuple(
        Conversation(id=name if i == 0 else f"{name}::sa:{i}", scope=name, turns=tuple(turns), depth=int(i > 0))
        for i, turns in enumerate(conversations)
    )
    return Session(id=name, conversations=made, block_size=size, hash_scope=scope)


def send(
    session: Session, conversation: int = 0, turn: int = 0, *, marker: str = "", max_tokens: int = 7, lane: int = 0
) -> Send:
    """A send of one turn."""
    key = TurnKey(conversation, turn)
    return Send(0, "profiling", lane, 0, session, key, max_tokens, 0, "c", None, marker)
