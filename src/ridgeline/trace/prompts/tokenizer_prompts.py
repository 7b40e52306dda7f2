"""Chat prompts as text through the served model's own tokenizer, read from a local `tokenizer.json`.

Each message's tokens are decoded separately. The server tokenises the text again, and where two blocks or a message
meet it may find other tokens: served counts differ slightly from recorded ones, and from `layout`, which also counts
the chat template only nominally (as the byte model does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.where import Where
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.prompts import byte_model
from ridgeline.trace.prompts.api import Layout
from ridgeline.trace.prompts.corpus_text import corpus_text
from ridgeline.trace.prompts.fragments import DEFAULT_BYTES, Fragments, Key
from ridgeline.trace.prompts.segments import NONE
from ridgeline.trace.prompts.source import Script, Scripts
from ridgeline.trace.prompts.tokens import CODING, CorpusTokens, derive
from ridgeline.trace.prompts.tree import Tokens
from ridgeline.trace.prompts.wire import Closing, chat_texts, escaped, opening

_SPECIAL = 1 << 40  # nominal template tokens lie above every vocabulary


class Tokenizer(Protocol):
    """What is needed of a tokenizer."""

    def encode(self, text: str) -> Sequence[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class FileTokenizer:
    """A `tokenizer.json` through the `tokenizers` package (optional extra `tokenizer`). Never goes to a network."""

    def __init__(self, path: str | Path) -> None:
        file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
        if not file.is_file():
            raise InputError([Problem("no such tokenizer file", Where(str(file)), "tokenizer")])
        try:
            import tokenizers
        except ImportError as error:
            raise EnvironmentFailed(
                "prompts through a tokenizer need the package `tokenizers`", hint="pip install 'ridgeline[tokenizer]'"
            ) from error
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the package raises plain Exception for everything wrong with a file
            raise InputError([Problem(f"not a tokenizer file: {error}", Where(str(file)), "tokenizer")]) from error

    def encode(self, text: str) -> Sequence[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


class TokenizerText:
    """`Material` of a tokenizer's ids."""

    def __init__(self, tokenizer: Tokenizer, seed: int, corpus: str | None) -> None:
        self.tokenizer = tokenizer
        ids = np.array(tokenizer.encode(corpus_text() if corpus is None else corpus), dtype=np.int64)
        if not len(ids):
            raise InputError("the corpus has no tokens")
        self._corpus = CorpusTokens(ids, derive(seed, CODING))

    def block(self, space: str, block: int, size: int) -> Tokens:
        return self._corpus.block(space, block, size)

    def tail(self, key: str, size: int) -> Tokens:
        return self._corpus.tail(key, size)

    def text(self, content: str) -> Tokens:
        return np.array(self.tokenizer.encode(content), dtype=np.int64)

    def joint(self, role: str, first: bool) -> Tokens:
        own = byte_model.header(role) if first else np.concatenate([byte_model.end(), byte_model.header(role)])
        return own.astype(np.int64) + _SPECIAL

    def closing(self) -> Tokens:
        return self.joint("assistant", False)

    def marker(self, text: str) -> Tokens:
        return np.array(self.tokenizer.encode(text), dtype=np.int64)


class TokenizerPrompts:
    """`PromptSource` of mode "tokenizer". `corpus`: other text to cut prompts from, for byte-exact comparisons."""

    mode = "tokenizer"
    endpoint = "/v1/chat/completions"

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        model: str,
        seed: int = 42,
        corpus: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> None:
        self._text = TokenizerText(tokenizer, seed, corpus)
        self._scripts = Scripts(self._text)
        self._fragments = Fragments(cache_bytes)
        self._closing = Closing(model, "max_completion_tokens", extra_body)

    def layout(self, send: Send) -> Layout:
        """The prompt as spans, template counted nominally."""
        return self._scripts.layout(send)

    def body(self, send: Send) -> list[bytes]:
        """The request as fragments: opening and content of each message."""
        self._scripts.forget(self._fragments.hold(send.lane, send.session.id))
        script = self._scripts.of(send.session)
        conversation, turn = send.key
        recorded, texts = script.recorded(conversation, turn), script.messages(conversation, turn)
        if recorded is not None and (body := self._closing.recorded(send, recorded)) is not None:
            return [body]
        if texts is not None:
            return [*chat_texts(texts, send.marker), b'"}],' + self._closing(send.max_tokens, recorded)]
        plan = script.plan(conversation)
        path = plan.path(turn)
        parts: list[bytes] = []
        used: list[Key] = []
        marker = send.marker
        for node in path:
            segment = plan.segments[node]
            parts.append(opening(segment.role, segment.parent == NONE))
            if marker and segment.role == "user":
                parts.append(escaped(marker))
                marker = ""
            ends = node == path[-1] and plan.endings[turn].tail > 0
            key = (script.session.id, conversation, (node, turn if ends else None))
            found = self._fragments.find(key)
            parts.append(found or self._fragments.keep(key, self._content(script, send, node, ends)))
            used.append(key)
        self._fragments.settle(script.session.id, conversation, used if plan.goes_on(turn) else ())
        parts.append(b'"}],' + self._closing(send.max_tokens, recorded))
        return parts

    def _content(self, script: Script, send: Send, node: int, ends: bool) -> bytes:
        conversation, turn = send.key
        segment = script.plan(conversation).segments[node]
        ids = script.session.conversations[conversation].turns[segment.turn].hash_ids
        runs = [script.block(ids[at]) for at in range(segment.start, segment.end)]
        runs += [script.tail(conversation, turn)] if ends else []
        tokens = np.concatenate(runs).tolist() if runs else []
        return escaped(self._text.tokenizer.decode(tokens)) if tokens else b""
