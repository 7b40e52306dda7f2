"""Chat prompts for the byte model: ASCII text whose token count the emulated engine can only agree with.

A block's text begins with eight characters that encode its id one to one within its session, so different blocks never
have equal text; the rest is a window into our own corpus. The text needs no JSON escaping and is gathered for whole
messages at once.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.prompts.api import Layout
from ridgeline.trace.prompts.byte_model import BYTES_PER_TOKEN, end, header, text_tokens
from ridgeline.trace.prompts.corpus_text import corpus_text
from ridgeline.trace.prompts.fragments import DEFAULT_BYTES, Fragments, Key
from ridgeline.trace.prompts.segments import NONE
from ridgeline.trace.prompts.source import Script, Scripts
from ridgeline.trace.prompts.tree import Tokens
from ridgeline.trace.prompts.wire import Closing, chat_texts, escaped, opening

HEAD = 8
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_ALPHABET = np.frombuffer(_LETTERS, dtype=np.uint8)
_MASK48, _MASK64 = (1 << 48) - 1, (1 << 64) - 1
_SHIFTS = np.arange(0, 48, 6, dtype=np.uint64)
_FACTORS = (0x9E3779B97F4B, 0xD6E8FEB86659)  # odd: multiplication is one to one modulo 2**48


class ByteText:
    """Text of blocks and tails; `Material` of the byte model."""

    def __init__(self, seed: int) -> None:
        plain = corpus_text().replace("\n", " ").replace('"', "'").encode()
        self._seed = seed
        self._plain = plain
        self._text = np.frombuffer(plain, dtype=np.uint8)
        self._tokens = len(plain) // BYTES_PER_TOKEN
        self._windows: dict[int, NDArray[np.uint8]] = {}
        self._salts: dict[str, int] = {}

    def run(self, space: str, ids: NDArray[Any], size: int) -> bytes:
        """Text of blocks in a row."""
        width = size * BYTES_PER_TOKEN
        mixed = ids.astype(np.uint64, copy=False) ^ np.uint64(self._salt(space))
        mask = np.uint64(_MASK48)
        mixed = (mixed * np.uint64(_FACTORS[0])) & mask
        mixed = ((mixed ^ (mixed >> np.uint64(24))) * np.uint64(_FACTORS[1])) & mask
        mixed ^= mixed >> np.uint64(24)
        text = np.empty((len(ids), width), dtype=np.uint8)
        head = min(HEAD, width)
        text[:, :head] = _ALPHABET[((mixed[:, None] >> _SHIFTS[:head]) & np.uint64(63)).astype(np.intp)]
        if width > head:
            starts = (mixed % np.uint64(self._tokens)).astype(np.intp) * BYTES_PER_TOKEN
            text[:, head:] = self._window(width - head)[starts]
        return text.tobytes()

    def tail_text(self, key: str, size: int) -> bytes:
        """Text of loose tokens."""
        width = size * BYTES_PER_TOKEN
        digest = hashlib.sha256(f"{self._seed}:{key}".encode()).digest()
        head = base64.urlsafe_b64encode(digest)[: min(HEAD, width)]
        start = int.from_bytes(digest[8:16], "big") % self._tokens * BYTES_PER_TOKEN
        rest = width - len(head)
        if start + rest <= len(self._text):
            return head + self._plain[start : start + rest]
        return head + self._text.take(np.arange(start, start + rest), mode="wrap").tobytes()

    def block(self, space: str, block: int, size: int) -> Tokens:
        """Tokens of one block: `run` without arrays, which cost more than a block's text."""
        mixed = (((block & _MASK64) ^ self._salt(space)) * _FACTORS[0]) & _MASK48
        mixed = ((mixed ^ (mixed >> 24)) * _FACTORS[1]) & _MASK48
        mixed ^= mixed >> 24
        width = size * BYTES_PER_TOKEN
        head = bytes([_LETTERS[(mixed >> shift) & 63] for shift in range(0, 6 * min(HEAD, width), 6)])
        if width <= HEAD:
            return text_tokens(head)
        start = mixed % self._tokens * BYTES_PER_TOKEN
        text = self._plain[start : start + width - len(head)]
        while len(text) < width - len(head):
            text += self._plain[: width - len(head) - len(text)]
        return text_tokens(head + text)

    def tail(self, key: str, size: int) -> Tokens:
        return text_tokens(self.tail_text(key, size))

    def text(self, content: str) -> Tokens:
        return text_tokens(content)

    def joint(self, role: str, first: bool) -> Tokens:
        return header(role) if first else np.concatenate([end(), header(role)])

    def closing(self) -> Tokens:
        return np.concatenate([end(), header("assistant")])

    def marker(self, text: str) -> Tokens:
        return text_tokens(text)

    def _salt(self, space: str) -> int:
        if space not in self._salts:
            digest = hashlib.sha256(f"{self._seed}:{space}".encode()).digest()
            self._salts[space] = int.from_bytes(digest[:6], "big")
        return self._salts[space]

    def _window(self, width: int) -> NDArray[np.uint8]:
        if width not in self._windows:
            wrapped = np.concatenate([self._text, np.resize(self._text, width)])
            self._windows[width] = np.lib.stride_tricks.sliding_window_view(wrapped, width)
        return self._windows[width]


class BytePrompts:
    """`PromptSource` of mode "bytes". `layout(send).tokens` is what the emulated engine counts."""

    mode = "bytes"
    endpoint = "/v1/chat/completions"

    def __init__(
        self,
        *,
        model: str,
        seed: int = 42,
        extra_body: Mapping[str, Any] | None = None,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> None:
        self._text = ByteText(seed)
        self._scripts = Scripts(self._text)
        self._fragments = Fragments(cache_bytes)
        self._closing = Closing(model, "max_completion_tokens", extra_body)

    def layout(self, send: Send) -> Layout:
        """The whole prompt as spans."""
        return self._scripts.layout(send)

    def body(self, send: Send) -> list[bytes]:
        """The request as fragments: one a message, shared between turns."""
        self._scripts.forget(self._fragments.hold(send.lane, send.session.id))
        script = self._scripts.of(send.session)
        conversation, turn = send.key
        recorded, texts = script.recorded(conversation, turn), script.messages(conversation, turn)
        if recorded is not None and (body := self._closing.recorded(send, recorded)) is not None:
            return [body]
        if texts is not None:
            return [*chat_texts(texts, send.marker), b'"}],' + self._closing(send.max_tokens, recorded)]
        plan = script.plan(conversation)
        parts: list[bytes] = []
        marker = send.marker
        find, keep, session = self._fragments.find, self._fragments.keep, script.session.id
        used: list[Key] = []
        for node in plan.path(turn):
            role = plan.segments[node].role
            if marker and role == "user":
                key: Key = (session, conversation, -1 - node)  # the content alone
                parts += [opening(role, not parts), escaped(marker)]
                parts.append(find(key) or keep(key, self._run(script, conversation, node)))
                marker = ""
            else:
                key = (session, conversation, node)
                parts.append(find(key) or keep(key, self._message(script, conversation, node)))
            used.append(key)
        self._fragments.settle(session, conversation, used if plan.goes_on(turn) else ())
        ending = plan.endings[turn]
        if ending.tail:
            parts.append(script.tail(conversation, turn).tobytes())
        parts.append(b'"}],' + self._closing(send.max_tokens, recorded))
        return parts

    def _message(self, script: Script, conversation: int, node: int) -> bytes:
        segment = script.plan(conversation).segments[node]
        return opening(segment.role, segment.parent == NONE) + self._run(script, conversation, node)

    def _run(self, script: Script, conversation: int, node: int) -> bytes:
        segment = script.plan(conversation).segments[node]
        ids = BlockIds.of(script.session.conversations[conversation].turns[segment.turn].hash_ids)
        return self._text.run(script.space, ids.numpy()[segment.start : segment.end], script.session.block_size)
