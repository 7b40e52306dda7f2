"""Prompts as token ids for `/v1/completions`: exact to the token, no tokenizer needed.

Blocks and tails are cut from a corpus of ids by the rule of `tokens.py`. There are no message headers: a prompt is the
conversation's tokens in a row, with the marker's ids before the first user content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ridgeline.core.errors import InputError
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.prompts.api import Layout
from ridgeline.trace.prompts.byte_model import text_tokens
from ridgeline.trace.prompts.fragments import DEFAULT_BYTES, Fragments, Key
from ridgeline.trace.prompts.source import Script, Scripts
from ridgeline.trace.prompts.tokens import CODING, CorpusTokens, derive
from ridgeline.trace.prompts.tree import Tokens
from ridgeline.trace.prompts.wire import Closing

CORPUS_TOKENS = 262_144
FIRST_ID = 256  # below lie the special tokens of many vocabularies
DEFAULT_VOCABULARY = 32_000  # every model served today has at least as many
MARKER_TOKENS = 6
_ODD = 0x9E3779B1


class TokenIds:
    """`Material` of plain token ids."""

    def __init__(self, seed: int, vocabulary: int) -> None:
        if vocabulary < FIRST_ID + 256:
            raise InputError(f"a vocabulary of {vocabulary} ids is too small", hint=f"at least {FIRST_ID + 256}")
        ids = np.random.default_rng(seed).integers(FIRST_ID, vocabulary, CORPUS_TOKENS, dtype=np.int64)
        self._corpus = CorpusTokens(ids, derive(seed, CODING))
        self._vocabulary = vocabulary
        self._nothing = np.empty(0, dtype=np.int64)

    def block(self, space: str, block: int, size: int) -> Tokens:
        return self._corpus.block(space, block, size)

    def tail(self, key: str, size: int) -> Tokens:
        return self._corpus.tail(key, size)

    def text(self, content: str) -> Tokens:
        """Ids that follow from four bytes of text each."""
        values = text_tokens(content).astype(np.int64) * _ODD
        return values % (self._vocabulary - FIRST_ID) + FIRST_ID

    def joint(self, role: str, first: bool) -> Tokens:
        return self._nothing

    def closing(self) -> Tokens:
        return self._nothing

    def marker(self, text: str) -> Tokens:
        """Six ids from the hash of the text."""
        digest = hashlib.sha256(text.encode()).digest()[:MARKER_TOKENS]
        return np.frombuffer(digest, dtype=np.uint8).astype(np.int64) + FIRST_ID


class TokenPrompts:
    """`PromptSource` of mode "token-ids"."""

    mode = "token-ids"
    endpoint = "/v1/completions"

    def __init__(
        self,
        *,
        model: str,
        seed: int = 42,
        vocabulary: int = DEFAULT_VOCABULARY,
        extra_body: Mapping[str, Any] | None = None,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> None:
        self._ids = TokenIds(seed, vocabulary)
        self._scripts = Scripts(self._ids)
        self._fragments = Fragments(cache_bytes)
        self._closing = Closing(model, "max_tokens", extra_body)

    def layout(self, send: Send) -> Layout:
        """The whole prompt as spans."""
        return self._scripts.layout(send)

    def body(self, send: Send) -> list[bytes]:
        """The request as fragments; every group of ids begins with a comma, of which the first is left out."""
        self._scripts.forget(self._fragments.hold(send.lane, send.session.id))
        script = self._scripts.of(send.session)
        conversation, turn = send.key
        recorded = script.recorded(conversation, turn)
        if recorded is not None and recorded.payload is not None:
            return [self._closing.recorded(send, recorded) or b""]
        parts = [part for part in self._parts(script, conversation, turn, send.marker) if part]
        if parts:
            parts[0] = b'{"prompt":[' + parts[0][1:]
        else:
            parts = [b'{"prompt":[']
        parts.append(b"]," + self._closing(send.max_tokens, recorded))
        return parts

    def _parts(self, script: Script, conversation: int, turn: int, marker: str) -> list[bytes]:
        parts: list[bytes] = []
        for role, text in script.messages(conversation, turn) or ():
            if marker and role == "user":
                parts.append(_text(self._ids.marker(marker)))
                marker = ""
            parts.append(_text(self._ids.text(text)))
        if parts:
            return parts
        plan = script.plan(conversation)
        used: list[Key] = []
        for node in plan.path(turn):
            segment = plan.segments[node]
            if marker and segment.role == "user":
                parts.append(_text(self._ids.marker(marker)))
                marker = ""
            if segment.end > segment.start:
                key = (script.session.id, conversation, node)
                found = self._fragments.find(key)
                parts.append(found or self._fragments.keep(key, self._run(script, conversation, node)))
                used.append(key)
        self._fragments.settle(script.session.id, conversation, used if plan.goes_on(turn) else ())
        if plan.endings[turn].tail:
            parts.append(_text(script.tail(conversation, turn)))
        return parts

    def _run(self, script: Script, conversation: int, node: int) -> bytes:
        segment = script.plan(conversation).segments[node]
        ids = script.session.conversations[conversation].turns[segment.turn].hash_ids
        return b"".join(_text(script.block(ids[at])) for at in range(segment.start, segment.end))


def _text(ids: Tokens) -> bytes:
    return b"".join(b",%d" % value for value in ids.tolist())
