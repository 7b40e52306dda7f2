"""What all prompt sources share: plans of conversations, and layouts whose spans share as the tokens do.

A source differs in what blocks, tails, message headers and markers are made of (`Material`), and in how it writes a
request's body.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.prompts.api import Layout, Span
from ridgeline.trace.prompts.segments import NONE, Plan, plan
from ridgeline.trace.prompts.tokens import tail_key
from ridgeline.trace.prompts.tree import Loose, Place, Run, Tokens, Tree
from ridgeline.trace.session import Recorded, Session


class Material(Protocol):
    """Token values of one mode. Arrays may be empty, never None."""

    def block(self, space: str, block: int, size: int) -> Tokens: ...

    def tail(self, key: str, size: int) -> Tokens: ...

    def text(self, content: str) -> Tokens: ...

    def joint(self, role: str, first: bool) -> Tokens:
        """What stands between the content before and this message's: its header, after the end of the last one."""
        ...

    def closing(self) -> Tokens:
        """What follows the last content."""
        ...

    def marker(self, text: str) -> Tokens: ...


def space_of(session: Session) -> str:
    """Within what block ids mean the same."""
    return session.id if session.hash_scope == "local" else ":global"


class _Prompt(NamedTuple):
    """A laid prompt, and the same cut where a marker goes (None: it has no user message)."""

    whole: tuple[Span, ...]
    halves: tuple[tuple[Span, ...], tuple[Span, ...]] | None


class Script:
    """Everything known about the prompts of one session."""

    def __init__(self, session: Session, tree: Tree, material: Material) -> None:
        self.session = session
        self.space = space_of(session)
        self._tree = tree
        self._material = material
        self._constants: dict[tuple[str, bool], Loose] = {}
        self._plans: dict[int, Plan] = {}
        self._places: dict[tuple[int, int], tuple[Place, int | None]] = {}  # segment -> its end, marker position
        self._prompts: dict[tuple[int, int], _Prompt] = {}

    def plan(self, conversation: int) -> Plan:
        """The messages of a conversation's turns."""
        if conversation not in self._plans:
            self._plans[conversation] = plan(self.session, self.session.conversations[conversation])
        return self._plans[conversation]

    def block(self, block: int) -> Tokens:
        """Tokens of one block."""
        return self._material.block(self.space, block, self.session.block_size)

    def tail(self, conversation: int, turn: int) -> Tokens:
        """Loose tokens that end a turn's prompt."""
        ending = self.plan(conversation).endings[turn]
        if ending.tail_block is not None:
            return self.block(ending.tail_block)[: ending.tail]
        return self._material.tail(tail_key(self.session.conversations[conversation].id, turn), ending.tail)

    def prompt(self, conversation: int, turn: int) -> _Prompt:
        """The spans of a turn's prompt."""
        key = (conversation, turn)
        if key not in self._prompts:
            self._prompts[key] = self._lay(conversation, turn)
        return self._prompts[key]

    def _constant(self, role: str, first: bool) -> Loose:
        """What stands before a message of `role` ("": after the last)."""
        found = self._constants.get((role, first))
        if found is None:
            values = self._material.joint(role, first) if role else self._material.closing()
            found = self._constants[role, first] = Loose(values)
        return found

    def messages(self, conversation: int, turn: int) -> tuple[tuple[str, str], ...] | None:
        """The recorded text of a turn, in formats that have it."""
        return self.session.conversations[conversation].turns[turn].messages

    def recorded(self, conversation: int, turn: int) -> Recorded | None:
        """What of a turn's body was recorded as it was sent."""
        return self.session.conversations[conversation].turns[turn].recorded

    def _lay(self, conversation: int, turn: int) -> _Prompt:
        texts = self.messages(conversation, turn)
        place, marked = self._lay_blocks(conversation, turn) if texts is None else self._lay_texts(texts)
        spans = place.spans
        return _Prompt(spans, None if marked is None else self._tree.cut(spans, marked))

    def _lay_texts(self, texts: tuple[tuple[str, str], ...]) -> tuple[Place, int | None]:
        place, marked = self._tree.root, None
        for number, (role, text) in enumerate(texts):
            place = self._tree.lay(place, self._constant(role, number == 0), growing=True)
            if marked is None and role == "user":
                marked = place.tokens
            place = self._tree.lay(place, Loose(self._material.text(text)), growing=True)
        return self._tree.lay(place, self._constant("", False), growing=True).sealed(), marked

    def _lay_blocks(self, conversation: int, turn: int) -> tuple[Place, int | None]:
        ending = self.plan(conversation).endings[turn]
        place, marked = self._place(conversation, ending.leaf)
        if ending.tail:
            place = place.sealed()
        rest = self._constant("", False)
        if ending.tail:
            rest = Loose(np.concatenate([self.tail(conversation, turn), rest.values]))
        # loose tokens are gone in the next turn; the closing alone is how the next answer's message begins
        return self._tree.lay(place, rest, growing=not ending.tail).sealed(), marked

    def _place(self, conversation: int, node: int) -> tuple[Place, int | None]:
        """Where the path of a segment ends, and how many tokens stand before the first user content on it."""
        segments = self.plan(conversation).segments
        missing = []
        while node != NONE and (conversation, node) not in self._places:
            missing.append(node)
            node = segments[node].parent
        place, marked = (self._tree.root, None) if node == NONE else self._places[conversation, node]
        for node in reversed(missing):
            segment = segments[node]
            joint = self._constant(segment.role, segment.parent == NONE)
            place = self._tree.lay(place, joint, growing=True)
            if marked is None and segment.role == "user":
                marked = place.tokens
            ids = BlockIds.of(self.session.conversations[conversation].turns[segment.turn].hash_ids)
            run = Run(self.space, ids, segment.start, segment.end, self.session.block_size, self.block)
            place = self._tree.lay(place, run, growing=True)
            self._places[conversation, node] = (place, marked)
        return place, marked


KEPT = 64  # sessions that no lane is on, but which one may come back to: a plan takes milliseconds to make


class Scripts:
    """Scripts by session, and layouts of sends. Of sessions that no lane is on only the last few keep theirs."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self._tree = Tree()
        self._scripts: dict[str, Script] = {}
        self._left: dict[str, None] = {}  # no lane is on them; those left first come first
        self._markers: dict[str, tuple[Span, ...]] = {}

    def of(self, session: Session) -> Script:
        """The script of a session. Ids are unique in one source."""
        script = self._scripts.get(session.id)
        if script is None:
            script = self._scripts[session.id] = Script(session, self._tree, self.material)
        elif session.id in self._left:
            del self._left[session.id]
        return script

    def forget(self, session: str | None) -> None:
        """No lane is on the session any more. A single request is not met again; of the others a few are kept."""
        script = self._scripts.get(session) if session is not None else None
        if script is None:
            return
        name = script.session.id
        if len(script.session.conversations) == len(script.session.root.turns) == 1:
            del self._scripts[name]
            return
        self._left[name] = None
        if len(self._left) > KEPT:
            oldest = next(iter(self._left))
            del self._left[oldest], self._scripts[oldest]

    def layout(self, send: Send) -> Layout:
        """The whole prompt of a send as spans."""
        prompt = self.of(send.session).prompt(*send.key)
        if not send.marker or prompt.halves is None:
            return Layout(prompt.whole)
        before, after = prompt.halves
        return Layout((*before, *self._marker(send.marker), *after))

    def _marker(self, text: str) -> tuple[Span, ...]:
        """One span a token, since two markers may begin alike. Keys below zero are token values."""
        spans = self._markers.get(text)
        if spans is None:
            if len(self._markers) > 4096:  # one per live tree is needed
                self._markers.clear()
            spans = self._markers[text] = tuple(Span(-1 - int(value), 1) for value in self.material.marker(text))
        return spans
