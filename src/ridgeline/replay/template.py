"""Reads the text of a content event without parsing its JSON, when that is certain to give the same answer.

The content events of one response differ in one string. Once one of them was parsed, its bytes before and after that
string are a template: a later event with the same two ends and, between them, only plain characters (printable ASCII
without quote and backslash) is the same object with another string, because in JSON such characters can neither end a
string nor mean anything but themselves. Everything else, and every doubt, goes to the parser.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

_PLAIN = re.compile(rb"[ !#-\[\]-~]+").fullmatch
_FIELDS = ("content", "reasoning_content", "text")
_PROBE = "ridgeline-probe"


class Template(NamedTuple):
    """The bytes around the one string that changes, and whether that string is shown to the user."""

    before: bytes
    after: bytes
    visible: bool
    choice: int

    def text(self, data: bytes) -> bytes | None:
        """The string of an event of this shape; None: parse it."""
        if not (data.startswith(self.before) and data.endswith(self.after)):
            return None
        end = len(data) - len(self.after)
        found = _PLAIN(data, len(self.before), end) if len(self.before) < end else None
        return found.group() if found else None


def learn(data: bytes, chunk: dict[str, Any]) -> Template | None:
    """A template from one parsed content event, None when it is not of the simple kind.

    The simple kind: one choice, no finish reason, no usage, no error, exactly one non-empty string of generated text.
    The found place is proved by putting a probe there and parsing once more.
    """
    field = _only_text(chunk)
    if field is None:
        return None
    mark = b'"' + field.encode() + b'":'
    if data.count(mark) != 1:
        return None
    start = data.index(mark) + len(mark)
    start += len(data[start:]) - len(data[start:].lstrip(b" "))
    if data[start : start + 1] != b'"':
        return None
    start += 1
    end = data.find(b'"', start)
    if end <= start or not _PLAIN(data, start, end):
        return None
    before, after = data[:start], data[end:]
    probed = msgspec.json.decode(before + _PROBE.encode() + after)
    holder = _holder(probed, field)
    if _only_text(probed) != field or holder.get(field) != _PROBE:
        return None
    index = probed["choices"][0].get("index")
    return Template(before, after, field != "reasoning_content", index if type(index) is int else 0)


def _holder(chunk: dict[str, Any], field: str) -> dict[str, Any]:
    choice: dict[str, Any] = chunk["choices"][0]
    holder = choice if field == "text" else choice.get("delta")
    return holder if isinstance(holder, dict) else {}


def _only_text(chunk: dict[str, Any]) -> str | None:
    choices = chunk.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    delta = choice.get("delta")
    told = [chunk.get(key) for key in ("usage", "error", "timings", "x_groq")]
    told += [choice.get(key) for key in ("finish_reason", "logprobs", "token_ids", "usage", "message")]
    if any(value is not None for value in told) or chunk.get("object") == "error" or chunk.get("type") == "error":
        return None
    if delta is None:
        return "text" if isinstance(choice.get("text"), str) and choice["text"] else None
    if "text" in choice or not isinstance(delta, dict):
        return None
    filled = [key for key, value in delta.items() if value not in (None, "") and key != "role"]
    if len(filled) == 1 and filled[0] in _FIELDS[:2] and isinstance(delta[filled[0]], str):
        return str(filled[0])
    return None
