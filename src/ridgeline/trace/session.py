"""A session tree: one recorded conversation with its subagents, ready to be replayed.

Times are nanoseconds of the root trace's own clock. Every tree is stored flat: conversations[0] is the root, children
follow; branches say which children start together, after which root turn, and which root turn waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class TurnKey(NamedTuple):
    """A turn inside a session: index of the conversation and of the turn in it."""

    conversation: int
    turn: int


class Recorded(NamedTuple):
    """What a recording holds of a request's body itself, as JSON text."""

    payload: str | None = None  # the whole body
    messages: str | None = None  # the message list, where it is more than roles and texts
    extra: str | None = None  # an object whose keys go over those of the body


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One recorded request."""

    at_ns: int | None  # recorded start; None when the trace has no times
    delay_ns: int | None  # idle from the previous turn's end to this start; None on the first turn
    api_ns: int | None  # recorded server duration; None when missing (counts as zero width)
    input_tokens: int
    output_tokens: int  # as recorded; may be 0
    model: str
    hash_ids: Sequence[int]  # one id per whole block, in order
    declared_prefix_tokens: int = 0  # tool + system tokens declared for this conversation (first turn)
    kind: str | None = None  # "tool_result" | "user_input" | None
    spawns: tuple[int, ...] = ()  # branches that start when this turn is done
    joins: tuple[int, ...] = ()  # branches that must be done before this turn is sent
    predecessors: tuple[TurnKey, ...] = ()  # turns of other streams that must be done before this one is sent
    hit_blocks: int = 0  # leading blocks already seen in this trace: the infinite cache's hit
    outer: int | None = None  # index in the trace file's `requests`
    inner: int | None = None  # index inside a subagent's `requests`
    messages: tuple[tuple[str, str], ...] | None = None  # the prompt itself, (role, text), in formats that carry text
    recorded: Recorded | None = None  # what goes into the body as it was recorded
    source_kind: str = ""  # "weka_main" | "weka_subagent" | "weka_flat" | other formats' own

    @property
    def max_tokens(self) -> int:
        """Tokens to ask for: a recorded 0 still needs one token to be sent at all."""
        return max(1, self.output_tokens)

    @property
    def total_blocks(self) -> int:
        return len(self.hash_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One stream of turns: the root, a subagent, or a worker chain."""

    id: str
    scope: str  # turns of different scopes never wait for each other
    turns: tuple[Turn, ...]
    depth: int = 0
    branch: int | None = None  # the branch it belongs to; None for the root


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Children that start together. `join_turn` None: nobody waits for them (background)."""

    id: str
    children: tuple[int, ...]  # conversation indices
    spawn_turn: int  # root turn after which they start
    join_turn: int | None
    start_ns: int | None  # recorded start, the earliest of its children


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session tree."""

    id: str
    conversations: tuple[Conversation, ...]
    branches: tuple[Branch, ...] = ()
    block_size: int = 64  # tokens per hash id
    hash_scope: str = "local"  # "local": ids mean the same only inside this session; "global": in the whole file

    @property
    def root(self) -> Conversation:
        return self.conversations[0]

    def turn(self, key: TurnKey) -> Turn:
        return self.conversations[key.conversation].turns[key.turn]

    @property
    def turns(self) -> int:
        return sum(len(conversation.turns) for conversation in self.conversations)
