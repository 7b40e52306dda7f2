"""What a corpus looks like in numbers: lengths, gaps, subagents, and what an infinite cache would save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.corpus import Corpus, peak_context
from ridgeline.trace.session import Session, Turn

PERCENTILES = (10, 50, 90, 99)


def statistics(corpus: Corpus) -> dict[str, Any]:
    """Plain data. A distribution is {mean, p10, p50, p90, p99, min, max, n}, or None without samples.

    Tokens are the recorded ones. `gap_s` is a root conversation's idle from an answer's end to the next request.
    `hit_rate` is blocks already seen in the same session over all blocks, the overall one as a ratio of sums.
    """
    sessions = corpus.sessions
    turns = [turn for session in sessions for conv in session.conversations for turn in conv.turns]
    blocks = sum(turn.total_blocks for turn in turns)
    branches = [branch for session in sessions for branch in session.branches]
    kinds = Counter(_kind(session, index) for session in sessions for index in range(len(session.conversations)))
    tokens_in, tokens_out = (sum(getattr(turn, f"{side}_tokens") for turn in turns) for side in ("input", "output"))
    return {
        "source": corpus.source,
        "format": corpus.format,
        "digest": corpus.digest,
        "profile": corpus.profile,
        "subagent_clock": corpus.clock,
        "sessions": len(sessions),
        "sessions_over_max_context": corpus.context_dropped,
        "requests": len(turns),
        "conversations": dict(sorted(kinds.items())),
        "branches": len(branches),
        "background_branches": sum(branch.join_turn is None for branch in branches),
        "requests_outside_subagents": distribution(_outside(session) for session in sessions),
        "root_turns": distribution(len(session.root.turns) for session in sessions),
        "subagent_turns": distribution(_inside(sessions)),
        "input_tokens": distribution(turn.input_tokens for turn in turns),
        "output_tokens": distribution(turn.output_tokens for turn in turns),
        "input_output_ratio": tokens_in / tokens_out if tokens_out else None,
        "server_s": distribution(turn.api_ns / 1e9 for turn in turns if turn.api_ns is not None),
        "gap_s": distribution(t.delay_ns / 1e9 for s in sessions for t in s.root.turns if t.delay_ns is not None),
        "length_min": distribution(length for session in sessions if (length := _length_min(session)) is not None),
        "peak_context_tokens": distribution(peak_context(session) for session in sessions),
        "first_input_tokens": distribution(session.root.turns[0].input_tokens for session in sessions),
        "last_input_tokens": distribution(session.root.turns[-1].input_tokens for session in sessions),
        "unique_blocks": distribution(_unique(session) for session in sessions if blocks),
        "hit_rate": sum(turn.hit_blocks for turn in turns) / blocks if blocks else None,
        "hit_rate_by_session": distribution(rate for session in sessions if (rate := hit_rate(session)) is not None),
    }


def distribution(values: Iterable[float]) -> dict[str, float | int] | None:
    """Mean, percentiles by linear interpolation, extremes and count; None when there is nothing to describe."""
    data = np.fromiter(values, dtype=float)
    if not len(data):
        return None
    found = {"mean": float(data.mean())}
    found |= {f"p{p}": float(v) for p, v in zip(PERCENTILES, np.percentile(data, PERCENTILES), strict=True)}
    return found | {"min": float(data.min()), "max": float(data.max()), "n": len(data)}


def hit_rate(session: Session) -> float | None:
    """Blocks an infinite cache of this session would have served, as a share; None without block ids."""
    turns = _turns(session)
    blocks = sum(turn.total_blocks for turn in turns)
    return sum(turn.hit_blocks for turn in turns) / blocks if blocks else None


def _turns(session: Session) -> list[Turn]:
    return [turn for conversation in session.conversations for turn in conversation.turns]


def _kind(session: Session, index: int) -> str:
    """root, subagent, or the worker label: aux, wg, fa."""
    label = session.conversations[index].id.removeprefix(session.id).removeprefix("::")
    if not label:
        return "root"
    parts = label.split(":")
    return "subagent" if parts[0] == "sa" and len(parts) == 2 else parts[-2]


def _outside(session: Session) -> int:
    return sum(turn.inner is None for turn in _turns(session))


def _inside(sessions: Iterable[Session]) -> Iterable[int]:
    for session in sessions:
        agents = Counter(turn.outer for turn in _turns(session) if turn.inner is not None)
        yield from agents.values()


def _length_min(session: Session) -> float | None:
    starts = [turn.at_ns for turn in _turns(session) if turn.at_ns is not None]
    ends = [turn.at_ns + (turn.api_ns or 0) for turn in _turns(session) if turn.at_ns is not None]
    return (max(ends) - min(starts)) / 60e9 if starts else None


def _unique(session: Session) -> int:
    """Distinct ids. Prompts share arrays, so each array is counted once, up to its longest use."""
    longest: dict[int, BlockIds] = {}
    for turn in _turns(session):
        ids = BlockIds.of(turn.hash_ids)
        known = longest.get(id(ids.base))
        if known is None or len(ids) > len(known):
            longest[id(ids.base)] = ids
    return len(np.unique(np.concatenate([ids.numpy() for ids in longest.values()])))
