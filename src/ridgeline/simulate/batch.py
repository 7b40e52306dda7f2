"""What one rank does in one step, as scheduled and as the cost model needs it."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.simulate.request import Request


class Entry(NamedTuple):
    """A request's part of a batch. `emits`: its last token is computed, so a new one comes out."""

    request: Request
    tokens: int
    emits: bool
    epoch: int


class Chunk(NamedTuple):
    """Prefill of `tokens` tokens behind `context` tokens that are in the cache."""

    tokens: int
    context: int


class Batch:
    """One rank's step. Sums are kept while it is put together, so that pricing it does not walk the requests."""

    __slots__ = ("attached", "chunks", "decode_context", "decodes", "emitting", "entries", "preempted", "tokens")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.chunks: list[Chunk] = []
        self.tokens = 0  # computed in this step
        self.emitting = 0  # requests that get a token out of it
        self.decodes = 0  # requests that compute one token behind their context
        self.decode_context = 0  # sum of those contexts, tokens
        self.attached = 0  # blocks newly attached to requests
        self.preempted = 0
