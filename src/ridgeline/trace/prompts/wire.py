"""What follows the prompt in a request's body: model, streaming, how much to generate, and what the user adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ridgeline.core.errors import InputError, Problem
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.session import Recorded

PROMPT_KEYS = ("messages", "prompt")
LIMIT_KEYS = ("max_completion_tokens", "max_tokens")


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
        self._extra = extra = dict(extra_body or {})
        wrong = [Problem("the prompt comes from the trace", key=key) for key in PROMPT_KEYS if key in extra]
        if wrong:
            raise InputError(wrong)
        self._body = {"model": model, "stream": True, limit_key: 0, "ignore_eos": True}
        self._body |= {key: value for key, value in extra.items() if key != "stream_options"}
        self._body["stream_options"] = extra.get("stream_options", {"include_usage": True})
        self._limit_key = limit_key
        self._fixed = limit_key in extra
        self._made: dict[int, bytes] = {}

    def __call__(self, max_tokens: int, recorded: Recorded | None = None) -> bytes:
        """`"model":...}` for a number of tokens to generate; what the user fixed stays as they wrote it, and what was
        recorded stands over ours."""
        if recorded is not None and recorded.extra is not None:
            return msgspec.json.encode(self._whole(max_tokens, recorded))[1:]
        found = self._made.get(max_tokens)
        if found is None:
            body = self._body if self._fixed else self._body | {self._limit_key: max_tokens}
            found = msgspec.json.encode(body)[1:]
            if len(self._made) < 65536:
                self._made[max_tokens] = found
        return found

    def recorded(self, send: Send, recorded: Recorded) -> bytes | None:
        """The body of a turn whose prompt was recorded as it was sent; None where only its text was.

        Of a whole body the model, streaming and usage are ours, without which nothing can be measured, and the limit
        where another one is wanted than was recorded (warm-up). It gets no marker: it is sent as it stands.
        """
        if recorded.payload is not None:
            body: dict[str, Any] = msgspec.json.decode(recorded.payload)
            for key in ("model", "stream"):
                body[key] = self._body[key]
            body.setdefault("stream_options", self._body["stream_options"])
            limit = next((key for key in LIMIT_KEYS if key in body), self._limit_key)
            if send.max_tokens != send.turn.max_tokens:
                body[limit] = send.max_tokens
            return msgspec.json.encode(body | self._extra)
        if recorded.messages is not None:
            messages = msgspec.json.decode(recorded.messages)
            if send.marker:
                mark(messages, send.marker)
            return msgspec.json.encode({"messages": messages, **self._whole(send.max_tokens, recorded)})
        return None

    def _whole(self, max_tokens: int, recorded: Recorded) -> dict[str, Any]:
        body = self._body if self._fixed else self._body | {self._limit_key: max_tokens}
        over = msgspec.json.decode(recorded.extra) if recorded.extra is not None else {}
        return body | over | self._extra


def mark(messages: list[dict[str, Any]], marker: str) -> None:
    """Put the marker before the first user message's content, in place."""
    for message in messages:
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list):
                message["content"] = [{"type": "text", "text": marker}, *content]
            else:
                message["content"] = marker + (content or "")
            return
