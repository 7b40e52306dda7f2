"""Token counts a server states, wherever it states them. Pure: parsed JSON in, counts out.

Places seen in the wild: `usage` of the chunk, of a choice or of its message, `x_groq.usage`, and llama.cpp's
`timings`. Names: OpenAI's `prompt_tokens`/`completion_tokens`, the Responses API's `input_tokens`/`output_tokens`, and
Anthropic's, where `input_tokens` leaves out what was read from or written to the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What the server counted. None: it did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None

    def updated(self, newer: Usage) -> Usage:
        """The later statement wins, field by field: a count once given is not lost when a later chunk leaves it out."""
        if self is NOTHING:
            return newer
        return Usage(
            self.prompt_tokens if newer.prompt_tokens is None else newer.prompt_tokens,
            self.completion_tokens if newer.completion_tokens is None else newer.completion_tokens,
            self.reasoning_tokens if newer.reasoning_tokens is None else newer.reasoning_tokens,
            self.cached_tokens if newer.cached_tokens is None else newer.cached_tokens,
        )


NOTHING = Usage()


def usages(chunk: dict[str, Any]) -> Iterator[Usage]:
    """Every usage statement of a chunk, in the order of trust: the last one wins."""
    if isinstance(timings := chunk.get("timings"), dict):
        yield Usage(_count(timings, "prompt_n"), _count(timings, "predicted_n"), None, _count(timings, "cache_n"))
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            if isinstance(message := choice.get("message"), dict):
                yield from _usage(message.get("usage"))
            yield from _usage(choice.get("usage"))
    if isinstance(groq := chunk.get("x_groq"), dict):
        yield from _usage(groq.get("usage"))
    yield from _usage(chunk.get("usage"))


def _usage(stated: Any) -> Iterator[Usage]:
    if not isinstance(stated, dict) or not stated:
        return
    prompt, completion = _count(stated, "prompt_tokens"), _count(stated, "completion_tokens")
    if prompt is None:
        prompt = _input_tokens(stated)
    if completion is None:
        completion = _count(stated, "output_tokens")
    cached = _first(
        _count(stated.get("prompt_tokens_details"), "cached_tokens"),
        _count(stated.get("input_tokens_details"), "cached_tokens"),
        _count(stated, "cache_read_input_tokens"),
        _count(stated, "prompt_cache_hit_tokens"),
        _count(stated, "cached_tokens"),
    )
    reasoning = _first(
        _count(stated.get("completion_tokens_details"), "reasoning_tokens"),
        _count(stated.get("output_tokens_details"), "reasoning_tokens"),
        _count(stated, "reasoning_tokens"),
    )
    yield Usage(prompt, completion, reasoning, cached)


def _input_tokens(stated: dict[str, Any]) -> int | None:
    count = _count(stated, "input_tokens")
    read, written = _count(stated, "cache_read_input_tokens"), _count(stated, "cache_creation_input_tokens")
    return count if count is None else count + (read or 0) + (written or 0)


def _count(holder: Any, key: str) -> int | None:
    """A whole number >= 0, else None: true, 1.5, -1 and "7" are not counts."""
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if type(value) is int and value >= 0 else None


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
