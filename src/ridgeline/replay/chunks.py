"""What one parsed JSON object of a completions stream says. Pure: a dict in, values out; it never raises on shape.

Chat chunks (`choices[].delta`), text completions (`choices[].text`) and whole answers (`choices[].message`) read
alike. Generated text counts by kind: reasoning and tool calls are tokens nobody sees, content and refusals are seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

OVERFLOW_PHRASES = ("context length", "maximum context", "context_length_exceeded", "prompt is too long")


class Piece(NamedTuple):
    """One choice of one chunk. Empty strings: nothing of that kind."""

    choice: int
    visible: str
    hidden: str  # reasoning, tool calls: generated, not shown
    finish_reason: str | None
    tokens: int | None  # tokens in this piece, when the server tells


class Oddity(NamedTuple):
    """Something that is not as documented and was skipped."""

    flag: str


def pieces(chunk: dict[str, Any]) -> Iterator[Piece | Oddity]:
    """The choices of a chunk in order; what cannot be one comes as an oddity. A usage chunk has none."""
    if "choices" not in chunk:
        if not isinstance(chunk.get("usage"), dict):
            yield Oddity("no_choices")
        return
    choices = chunk["choices"]
    if not isinstance(choices, list):
        yield Oddity("null_choices" if choices is None else "odd_choices")
        return
    for choice in choices:
        if isinstance(choice, dict):
            yield _piece(choice)
        else:
            yield Oddity("null_choices" if choice is None else "odd_choices")


def error_of(chunk: dict[str, Any]) -> str | None:
    """The message when the object is an error: `{"error": ...}`, or `{"object": "error", "message": ...}`."""
    error = chunk.get("error")
    if error is None or error is False:
        return message_of(chunk) if chunk.get("object") == "error" or chunk.get("type") == "error" else None
    return message_of(error)


def message_of(error: Any) -> str:
    """The most telling text of an error object of any shape."""
    if isinstance(error, dict):
        for key in ("message", "error", "detail", "msg", "code", "type"):
            if found := error.get(key):
                return message_of(found)
        return "error without a message"
    return str(error)


def is_overflow(text: str) -> bool:
    """The server says that the prompt does not fit its context."""
    lowered = text.lower()
    return any(phrase in lowered for phrase in OVERFLOW_PHRASES)


def _piece(choice: dict[str, Any]) -> Piece:
    index = choice.get("index")
    finish = choice.get("finish_reason")
    visible, hidden = _text(choice.get("text")), ""
    for holder in (choice.get("delta"), choice.get("message")):
        if isinstance(holder, dict):
            visible += _text(holder.get("content")) + _text(holder.get("refusal"))
            # Servers that changed the name send both with the same text: one of them counts.
            hidden += _text(holder.get("reasoning_content")) or _text(holder.get("reasoning"))
            hidden += _calls(holder.get("tool_calls")) + _call(holder.get("function_call"))
    return Piece(
        index if type(index) is int else 0,
        visible,
        hidden,
        finish if isinstance(finish, str) and finish else None,
        _tokens(choice),
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_text, content))
    if isinstance(content, dict):  # a part: {"type": "text", "text": ...} or {"type": "refusal", "refusal": ...}
        return _text(content.get("text")) or _text(content.get("refusal"))
    return ""


def _calls(calls: Any) -> str:
    if not isinstance(calls, list):
        return ""
    return "".join(_call(call.get("function")) for call in calls if isinstance(call, dict))


def _call(function: Any) -> str:
    return _text(function.get("name")) + _text(function.get("arguments")) if isinstance(function, dict) else ""


def _tokens(choice: dict[str, Any]) -> int | None:
    """Tokens of a piece: the ids vLLM returns on request, or one logprob entry each."""
    if isinstance(ids := choice.get("token_ids"), list):
        return len(ids)
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict):
        for key in ("content", "tokens"):
            if isinstance(entries := logprobs.get(key), list) and entries:
                return len(entries)
    return None
