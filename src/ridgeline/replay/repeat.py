"""Reads events that repeat the last one but for their text, all those of one read at once, without parsing JSON.

Most events of a stream are the same bytes around another text. `learn` takes an event apart at its text and has the
decoder confirm, on a probe, that the text between those ends is the one generated text and changes nothing else. From
then on, bytes that are a chain of the same ends around plain text (printable, no quote, no backslash, so that a JSON
string means what its bytes are) need no parsing. Anything else is not of the shape and goes to the decoder.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ridgeline.replay.common import Chunk, common_chunk

_FIELD = re.compile(rb'"(content|text|reasoning_content|reasoning)": ?"(?=[^"\\])')
_PROBE = "a probe \u2713"


class Repeat(NamedTuple):
    """A shape: the bytes before the text of the first event, after that of the last, and between two."""

    head: bytes
    tail: bytes
    joint: str
    hidden: bool  # the text is reasoning

    def run(self, data: bytes) -> tuple[list[str], bytes]:
        """The texts of the events of this shape, each with text, that `data` begins with, and the bytes after them. It
        is all of those or none: where another event stands between two of them, nothing is taken. `data` must begin an
        event."""
        head, tail = self.head, self.tail
        if not data.startswith(head) or (end := data.rfind(tail)) <= len(head):
            return [], data
        try:
            texts = data[len(head) : end].decode().split(self.joint)
        except UnicodeDecodeError:
            return [], data
        text = texts[0] if len(texts) == 1 else "".join(texts)
        if text.isprintable() and '"' not in text and "\\" not in text and "" not in texts:
            return texts, data[end + len(tail) :]
        return [], data


def learn(event: bytes) -> Repeat | None:
    """The shape of an event's data; None when it is not one choice's one text and no more."""
    if (found := _FIELD.search(event)) is None or (chunk := common_chunk(event)) is None:
        return None
    start, end = found.end(), event.find(b'"', found.end())
    head, tail = event[:start], event[end:]
    probe = common_chunk(head + _PROBE.encode() + tail)
    if _only_text(chunk) is None or probe is None or _only_text(probe) != (found[1].decode(), _PROBE):
        return None
    return Repeat(
        b"data: " + head, tail + b"\n\n", f"{tail.decode()}\n\ndata: {head.decode()}", found[1].startswith(b"reasoning")
    )


def _only_text(chunk: Chunk) -> tuple[str, str] | None:
    """The field and the text of a chunk that holds nothing else."""
    if len(chunk.choices) != 1 or chunk.usage is not None:
        return None
    (choice,) = chunk.choices
    if choice.index or choice.finish_reason:
        return None
    texts = {"text": choice.text}
    if (delta := choice.delta) is not None:
        texts |= {
            "content": delta.content,
            "reasoning_content": delta.reasoning_content,
            "reasoning": delta.reasoning,
            "refusal": delta.refusal,
        }
    given = [(name, text) for name, text in texts.items() if text]
    return given[0] if len(given) == 1 else None
