"""What follows the prompt in a request's body: model, streaming, how much to generate, and what the user adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ridgeline.core.errors import InputError, Problem

PROMPT_KEYS = ("messages", "prompt")


def escaped(text: str) -> bytes:
    """The text as it stands inside JSON quotes."""
    return msgspec.json.encode(text)[1:-1]


def opening(role: str, first: bool) -> bytes:
    """A chat body up to a message's content, from the end of the content before it."""
    return (b'{"messages":[{' if first else b'"},{') + b'"role":"%s","content":"' % escaped(role)


def chat_texts(messages: Iterable[tuple[str, str]], marker: str) -> list[bytes]:
    """The messages of recorded texts, with the marker before the first user content."""
    parts: list[bytes] = []
    for role, text in messages:
        parts.append(opening(role, not parts))
        if marker and role == "user":
            parts.append(escaped(marker))
            marker = ""
        parts.append(escaped(text))
    return parts


class Closing:
    """Bytes from after the prompt to the end of the body, keys in the order the peers send them."""

    def __init__(self, model: str, limit_key: str, extra_body: Mapping[str, Any] | None = None) -> None:
        extra = dict(extra_body or {})
        wrong = [Problem("the prompt comes from the trace", key=key) for key in PROMPT_KEYS if key in extra]
        if wrong:
            raise InputError(wrong)
        self._body = {"model": model, "stream": True, limit_key: 0, "ignore_eos": True}
        self._body |= {key: value for key, value in extra.items() if key != "stream_options"}
        self._body["stream_options"] = extra.get("stream_options", {"include_usage": True})
        self._limit_key = limit_key
        self._fixed = limit_key in extra
        self._made: dict[int, bytes] = {}

    def __call__(self, max_tokens: int) -> bytes:
        """`"model":...}` for a number of tokens to generate; what the user fixed stays as they wrote it."""
        found = self._made.get(max_tokens)
        if found is None:
            body = self._body if self._fixed else self._body | {self._limit_key: max_tokens}
            found = msgspec.json.encode(body)[1:]
            if len(self._made) < 65536:
                self._made[max_tokens] = found
        return found
