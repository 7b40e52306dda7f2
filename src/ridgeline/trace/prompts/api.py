"""Prompts in two forms that must agree: two requests share exactly the tokens whose spans they share.

A `Layout` is the prompt as runs of tokens with an identity. Two prompts share a prefix of n tokens exactly when their
spans are equal up to there (the last one may be shared in part only if its keys are equal). `body` is the same prompt
as the JSON body of a request, in fragments that are cached and written without being joined.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ridgeline.trace.pacing.api import Send


class Span(NamedTuple):
    """`tokens` tokens whose content is identified by `key`."""

    key: int
    tokens: int


class Layout(NamedTuple):
    """A whole prompt, template overhead and cache-bust marker included."""

    spans: tuple[Span, ...]

    @property
    def tokens(self) -> int:
        return sum([tokens for _, tokens in self.spans])


class PromptSource(Protocol):
    """Makes the prompt of any send. Deterministic in (sessions, seed)."""

    mode: str  # "tokenizer" | "token-ids" | "bytes": stored with the result
    endpoint: str  # path that takes these bodies

    def layout(self, send: Send) -> Layout: ...

    def body(self, send: Send) -> list[bytes]:
        """The JSON body in fragments; their lengths add up to the Content-Length."""
        ...
