"""Request bodies that a recording holds itself: what they say, and what is wrong with them.

In: the decoded value of `messages`, `payload` or `extra`. Out: roles with texts, by which a prompt is measured (in the
byte model: its texts and the names and arguments of its tool calls), and the JSON that is sent. Pictures and sound are
sent as they stand and not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ridgeline.trace.session import Recorded

OURS = ("stream", "model", "messages", "prompt")  # keys of a body that `extra` must leave alone


class Message(msgspec.Struct):
    """An OpenAI message; what else it holds is sent as it stands."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class Payload(msgspec.Struct):
    """A whole body of a chat or a text completion, as far as it must be understood."""

    messages: list[Message] | None = None
    prompt: str | list[int] | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None

    @property
    def limit(self) -> int | None:
        """Tokens it asks for."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


def texts_of(messages: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """Role and text of every message."""
    return tuple((message.role, _text(message)) for message in messages)


def _text(message: Message) -> str:
    content = message.content
    parts = [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content or ()]
    for call in message.tool_calls or ():
        about = call.get("function")
        if isinstance(about, Mapping):
            parts += [str(about.get(name, "")) for name in ("name", "arguments")]
    return "".join(parts)


def recorded(
    messages: Sequence[Mapping[str, Any]] | None, tools: Sequence[Any] | None, extra: Mapping[str, Any] | None
) -> Recorded | None:
    """What of a row goes into its body as it stands; None when roles, texts and lengths say it all."""
    over = {**({"tools": tools} if tools else {}), **(extra or {})}
    plain = all(set(item) == {"role", "content"} and isinstance(item["content"], str) for item in messages or ())
    if plain and not over:
        return None
    return Recorded(
        messages=None if plain or messages is None else _json(messages), extra=_json(over) if over else None
    )


def payload_of(body: Mapping[str, Any], extra: Mapping[str, Any] | None) -> Recorded:
    """A whole body, with what goes over it."""
    return Recorded(payload=_json({**body, **(extra or {})}))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
