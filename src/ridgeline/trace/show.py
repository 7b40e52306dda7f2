"""A session as plain data, under the names of the reference loader's dump.

Messages are described by role, length and a hash of their tokens, cut from a toy corpus (token i is i, 10,007 tokens,
seed 42), so that two implementations can be compared without sharing a text.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ridgeline.trace.prompts.segments import Plan, plan
from ridgeline.trace.prompts.source import space_of
from ridgeline.trace.prompts.tokens import SHAKESPEARE, CorpusTokens, derive, tail_key
from ridgeline.trace.session import Conversation, Session, Turn

TOY_TOKENS, TOY_SEED = 10_007, 42


def describe(session: Session, profile: str = "agentx") -> dict[str, Any]:
    """The session's conversations: turns with times (ms), messages, hits, spawns, joins, predecessors and origin."""
    toy = _Toy(session)
    return {
        "trace_id": session.id,
        "conversations": [
            {
                "id": conversation.id,
                "is_root": index == 0,
                "scope": conversation.scope,
                "branches": _branches(session) if index == 0 else [],
                "turns": _turns(session, conversation, plan(session, conversation, profile), toy),
            }
            for index, conversation in enumerate(session.conversations)
        ],
    }


def _branches(session: Session) -> list[dict[str, Any]]:
    return [
        {
            "id": branch.id,
            "children": [session.conversations[child].id for child in branch.children],
            "bg": branch.join_turn is None,
            "start_ms": _ms(branch.start_ns),
        }
        for branch in session.branches
    ]


def _turns(session: Session, conversation: Conversation, prompts: Plan, toy: _Toy) -> list[dict[str, Any]]:
    turns = []
    previous: Turn | None = None
    for k, turn in enumerate(conversation.turns):
        turns.append(
            {
                "t_ms": _ms(turn.at_ns),
                "delay_ms": _delay_ms(previous, turn),
                "api_ms": _ms(turn.api_ns),
                "max_tokens": turn.max_tokens,
                "reset": prompts.endings[k].reset,
                "msgs": toy.messages(conversation, prompts, k),
                "hit": turn.hit_blocks,
                "total": turn.total_blocks,
                "kind": turn.kind,
                "spawns": [session.branches[branch].id for branch in turn.spawns],
                "joins": [session.branches[branch].id for branch in turn.joins],
                "preds": [[session.conversations[key.conversation].id, key.turn] for key in turn.predecessors],
                "src": [turn.outer, turn.inner, turn.source_kind],
            }
        )
        previous = turn
    return turns


def _ms(ns: int | None) -> float | None:
    """Seconds first: the division gives back the very number the file had."""
    return None if ns is None else ns / 1e9 * 1000


def _delay_ms(previous: Turn | None, turn: Turn) -> float | None:
    """From the file's seconds where there are any, as the reference does, so that even the last digit agrees."""
    if turn.delay_ns is None:
        return None
    if previous is None or turn.at_ns is None or previous.at_ns is None:
        return turn.delay_ns / 1e6
    return max(0.0, (turn.at_ns / 1e9 - previous.at_ns / 1e9) * 1000 - (_ms(previous.api_ns) or 0.0))


class _Toy:
    """Message hashes of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._corpus = CorpusTokens(np.arange(TOY_TOKENS), derive(TOY_SEED, SHAKESPEARE))
        self._blocks: dict[int, str] = {}
        self._known: dict[tuple[str, int], str] = {}

    def messages(self, conversation: Conversation, prompts: Plan, turn: int) -> list[list[str]]:
        path, ending = prompts.path(turn), prompts.endings[turn]
        found = []
        for node in path:
            segment = prompts.segments[node]
            tail = ending.tail if node == path[-1] else 0
            name = (conversation.id, node)
            if tail or name not in self._known:
                ids = conversation.turns[segment.turn].hash_ids
                parts = [self._block(ids[at]) for at in range(segment.start, segment.end)]
                if tail:
                    parts.append(self._tail(conversation, turn, tail, ending.tail_block))
                size = (segment.end - segment.start) * self._session.block_size + tail
                text = f"{size}:{hashlib.sha256(','.join(parts).encode()).hexdigest()[:10]}"
                if not tail:
                    self._known[name] = text
            else:
                text = self._known[name]
            found.append([segment.role, text])
        return found

    def _block(self, block: int) -> str:
        if block not in self._blocks:
            tokens = self._corpus.block(space_of(self._session), block, self._session.block_size)
            self._blocks[block] = ",".join(map(str, tokens.tolist()))
        return self._blocks[block]

    def _tail(self, conversation: Conversation, turn: int, size: int, block: int | None) -> str:
        if block is not None:
            return ",".join(self._block(block).split(",")[:size])
        return ",".join(map(str, self._corpus.tail(tail_key(conversation.id, turn), size).tolist()))
