"""Which messages a conversation's prompts consist of: roles over ranges of blocks, and a tail of loose tokens.

A recording says how many tokens each prompt had and which blocks, not what was said by whom. The messages are made up
so that every prompt has exactly its recorded length, a block always has the same tokens, and each turn adds what the
model is supposed to have answered (whole blocks) and then what the user said. Nothing is rendered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.session import Conversation, Session, Turn

NONE = -1  # no parent


class Segment(NamedTuple):
    """A message: blocks [start, end) of the prompt. Segments form a tree, since later prompts share earlier ones'."""

    parent: int
    role: str
    start: int
    end: int
    turn: int  # a turn whose ids cover the range


class Ending(NamedTuple):
    """One turn's prompt: the messages from the root to `leaf`, the last one longer by `tail` tokens.

    `tail_block`: the tail is the first tokens of this block (formats whose last id covers a part of a block).
    `reset`: the message list was rewritten, not extended.
    """

    leaf: int
    tail: int
    tail_block: int | None
    reset: bool


class Plan(NamedTuple):
    """All prompts of one conversation."""

    segments: tuple[Segment, ...]
    endings: tuple[Ending, ...]

    def goes_on(self, turn: int) -> bool:
        """Whether another turn follows."""
        return turn + 1 < len(self.endings)

    def path(self, turn: int) -> list[int]:
        """Segments of a turn's prompt, in order."""
        found = []
        at = self.endings[turn].leaf
        while at != NONE:
            found.append(at)
            at = self.segments[at].parent
        return found[::-1]


class _Shape(NamedTuple):
    """What a turn does to the prompt: keep `keep` blocks, then `new` blocks, then `loose` tokens."""

    keep: int
    new: int
    loose: int

    @property
    def covered(self) -> int:
        return self.keep + self.new


def plan(session: Session, conversation: Conversation, profile: str = "agentx") -> Plan:
    """The prompts of a conversation. `profile` decides `reset` on turns that change nothing: "agentx" sends the whole
    list again, "aiperf-0.13" an empty addition; the prompt is the same."""
    size = session.block_size
    shapes = _shapes(conversation.turns, size)
    caps = _caps(shapes)
    segments: list[Segment] = []
    endings: list[Ending] = []
    stack: list[int] = []
    overhang = 0
    for k, (turn, shape) in enumerate(zip(conversation.turns, shapes, strict=True)):
        if k == 0:
            disturbed = False
            system = min(-(-turn.declared_prefix_tokens // size), shape.covered)
            parts = [("system", 0, system), ("user", system, shape.covered)]
            if not system:
                parts = parts[1:]
            elif system == shape.covered and not shape.loose:
                parts = parts[:1]
        else:
            disturbed = _truncate(segments, stack, shape.keep, overhang)
            answer = _answer_blocks(conversation.turns[k - 1], shape, caps.get(k), size)
            if not any(segments[node].role == "user" for node in stack):
                answer = 0
            middle = shape.keep + answer
            parts = [("assistant", shape.keep, middle)] if answer else []
            if middle < shape.covered or shape.loose:
                parts.append(("user", middle, shape.covered))
        if not parts and not stack:
            parts = [("user", 0, 0)]  # a recorded prompt of no tokens is still a message
        before = len(segments)
        for role, start, end in parts:
            segments.append(Segment(stack[-1] if stack else NONE, role, start, end, k))
            stack.append(len(segments) - 1)
        nothing = k > 0 and len(segments) == before and not disturbed
        overhang = shape.loose
        endings.append(
            Ending(
                leaf=stack[-1] if stack else NONE,
                tail=shape.loose,
                tail_block=_tail_block(session, turn, shape),
                reset=disturbed or (nothing and profile != "aiperf-0.13"),
            )
        )
    return Plan(tuple(segments), tuple(endings))


def _shapes(turns: Sequence[Turn], size: int) -> list[_Shape]:
    shapes = []
    previous: tuple[BlockIds, int] = (BlockIds.of(()), 0)
    for turn in turns:
        ids = BlockIds.of(turn.hash_ids)
        covered = min(len(ids), turn.input_tokens // size)
        # the recorded prefix cannot be longer than what either prompt really holds
        keep = min(previous[0].common(ids), previous[1], covered)
        shapes.append(_Shape(keep, covered - keep, turn.input_tokens - covered * size))
        previous = (ids, covered)
    return shapes


def _caps(shapes: Sequence[_Shape]) -> dict[int, int]:
    """How many answer blocks a turn may have so that a later prompt that only cuts back still ends with the user."""
    caps: dict[int, int] = {}
    runs: list[tuple[int, int]] = []  # (first block, turn that created the blocks from there)
    for k, shape in enumerate(shapes):
        while runs and runs[-1][0] >= shape.keep:
            runs.pop()
        if shape.new:
            runs.append((shape.keep, k))
        elif k and not shape.loose and shape.keep:
            owner = runs[-1][1]
            room = shape.keep - 1 - shapes[owner].keep
            if owner and room >= 0:
                caps[owner] = min(caps.get(owner, room), room)
    return caps


def _truncate(segments: list[Segment], stack: list[int], keep: int, overhang: int) -> bool:
    """Cut the prompt back to `keep` blocks, without its loose tokens. Returns whether anything was cut."""
    disturbed = bool(stack) and overhang > 0
    while stack and segments[stack[-1]].start >= keep:
        stack.pop()
        disturbed = True
    if stack and segments[stack[-1]].end > keep:
        segments.append(segments[stack.pop()]._replace(end=keep))
        stack.append(len(segments) - 1)
        disturbed = True
    return disturbed


def _answer_blocks(previous: Turn, shape: _Shape, cap: int | None, size: int) -> int:
    blocks = min(-(-previous.output_tokens // size), shape.new)
    if cap is not None:
        blocks = min(blocks, cap)
    if not shape.loose and blocks and blocks == shape.new:
        blocks -= 1  # a prompt ends with a user message
    return blocks


def _tail_block(session: Session, turn: Turn, shape: _Shape) -> int | None:
    partial = 0 < shape.loose < session.block_size and len(turn.hash_ids) > shape.covered
    return turn.hash_ids[shape.covered] if partial and session.hash_scope == "global" else None
