"""The trace pages: what a corpus of sessions looks like, and how the turns of one session share their beginnings.

In: trace files the server was started with. Out: distributions as bins, sessions as rows, turns as stretches of seen
and new tokens. A trace is read once and kept while its file stays as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.trace import load
from ridgeline.trace.corpus import Corpus, peak_context
from ridgeline.trace.session import Session, Turn
from ridgeline.trace.stats import hit_rate, statistics

BINS = 36
_kept: dict[str, tuple[str, Corpus, dict[str, Any]]] = {}
_lock = threading.Lock()
_SHOWN = (
    ("input_tokens", "Input tokens of a request", "tokens"),
    ("output_tokens", "Output tokens of a request", "tokens"),
    ("root_turns", "Turns of a session", "turns"),
    ("peak_context_tokens", "Longest context of a session", "tokens"),
    ("gap_s", "Idle between a user's turns", "s"),
    ("hit_rate_by_session", "Prefix seen before, by session", "share"),
)


def corpus(name: str, path: Path) -> tuple[Corpus, dict[str, Any]]:
    """The sessions of a trace and their statistics. Raises InputError for a file that is none."""
    stat = path.stat()
    stamp = f"{path}:{stat.st_mtime_ns}:{stat.st_size}"
    with _lock:
        kept = _kept.get(name)
        if kept is None or kept[0] != stamp:
            read = load(path)
            kept = _kept[name] = (stamp, read, statistics(read))
        return kept[1], kept[2]


def distributions(read: Corpus, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Small charts: bins on a logarithmic axis where values spread over decades, with median and p90."""
    turns = [turn for session in read.sessions for conversation in session.conversations for turn in conversation.turns]
    values: dict[str, Iterable[float]] = {
        "input_tokens": (turn.input_tokens for turn in turns),
        "output_tokens": (turn.output_tokens for turn in turns),
        "root_turns": (len(session.root.turns) for session in read.sessions),
        "peak_context_tokens": (peak_context(session) for session in read.sessions),
        "gap_s": (t.delay_ns / 1e9 for s in read.sessions for t in s.root.turns if t.delay_ns is not None),
        "hit_rate_by_session": (rate for s in read.sessions if (rate := hit_rate(s)) is not None),
    }
    found = []
    for key, title, unit in _SHOWN:
        about = told.get(key)
        if about:
            found.append(
                {"title": title, "unit": unit, "about": about, "bins": bins(np.fromiter(values[key], dtype=float))}
            )
    return found


def bins(values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    """Counts between edges; `log` where the 90 % inside span more than two decades."""
    low, high = float(values.min()), float(values.max())
    positive = values[values > 0]
    wide = len(positive) > 0 and np.percentile(positive, 95) / max(np.percentile(positive, 5), 1e-9) > 30
    if wide:
        low = float(positive.min())
        edges = np.geomspace(low, max(high, low * 1.01), BINS + 1)
        counts = np.histogram(np.clip(values, low, None), edges)[0]
    else:
        edges = np.linspace(min(low, 0.0), high if high > min(low, 0.0) else min(low, 0.0) + 1, BINS + 1)
        counts = np.histogram(values, edges)[0]
    top = int(counts.max()) or 1
    bars = [
        {"x": round(240 * at / BINS, 2), "h": round(52 * int(count) / top, 2), "n": int(count)}
        for at, count in enumerate(counts)
    ]
    return {"bars": bars, "log": bool(wide), "from": float(edges[0]), "to": float(edges[-1])}


def listed(read: Corpus) -> list[dict[str, Any]]:
    """Sessions as rows."""
    return [
        {
            "at": at,
            "id": session.id,
            "turns": len(session.root.turns),
            "requests": session.turns,
            "subagents": sum(len(branch.children) for branch in session.branches),
            "peak": peak_context(session),
            "hit": hit_rate(session),
        }
        for at, session in enumerate(read.sessions)
    ]


TURNS = 400  # of a session that are drawn


def anatomy(session: Session) -> dict[str, Any]:
    """A session's streams with their turns: tokens seen before, new ones, and the answer, scaled to 720 px."""
    top = max((t.input_tokens + t.output_tokens for c in session.conversations for t in c.turns), default=1) or 1
    streams = []
    left = TURNS
    for number, conversation in enumerate(session.conversations):
        turns = conversation.turns[: max(0, left)]
        left -= len(turns)
        if turns:
            streams.append(
                {
                    "name": conversation.id.removeprefix(session.id).removeprefix("::") or "root",
                    "depth": conversation.depth,
                    "number": number,
                    "turns": [_turn(at, turn, session.block_size, top) for at, turn in enumerate(turns)],
                    "hidden": len(conversation.turns) - len(turns),
                }
            )
    return {"id": session.id, "streams": streams, "top": top, "turns": session.turns, "hit": hit_rate(session),
            "without_blocks": not any(t.total_blocks for c in session.conversations for t in c.turns)}  # fmt: skip


def _turn(at: int, turn: Turn, block: int, top: int) -> dict[str, Any]:
    seen = min(turn.input_tokens, turn.hit_blocks * block)
    new = turn.input_tokens - seen
    scale = 720 / top
    return {
        "at": at,
        "seen": seen,
        "new": new,
        "out": turn.output_tokens,
        "x1": round(seen * scale, 2),
        "x2": round((seen + new) * scale, 2),
        "w_new": round(new * scale, 2),
        "w_out": round(max(turn.output_tokens * scale, 1.0), 2),
        "when": None if turn.at_ns is None else turn.at_ns / 1e9,
        "spawns": len(turn.spawns),
        "joins": len(turn.joins),
    }


def find(sessions: Sequence[Session], id: str) -> Session | None:
    """A session by its id or its place."""
    for at, session in enumerate(sessions):
        if id in (session.id, str(at)):
            return session
    return None
