"""What one rank does in one step, as scheduled and as the cost model needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.simulate.request import Request


class Entry(NamedTuple):
    """A request's part of a batch: `tokens` computed, of which drafts may be rejected. `emits`: its last token is
    computed, so `gain` new ones come out."""

    request: Request
    tokens: int
    emits: bool
    epoch: int
    gain: int = 1


class Chunk(NamedTuple):
    """Prefill of `tokens` tokens behind `context` tokens that are in the cache."""

    tokens: int
    context: int


class Batch:
    """One rank's step. Sums are kept while it is put together, so that pricing it walks no requests. Members of a crowd
    have no entries; a `quiet` batch is one more step of a crowd and nothing else."""

    __slots__ = (
        "attached",
        "awaited",
        "chunks",
        "crowd",
        "decode_context",
        "decode_tokens",
        "decodes",
        "emitting",
        "ends",
        "entries",
        "fresh",
        "index",
        "preempted",
        "quiet",
        "tokens",
    )

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.chunks: list[Chunk] = []
        self.tokens = 0  # computed in this step
        self.emitting = 0  # requests that get tokens out of it
        self.decodes = 0  # requests that decode behind their context
        self.decode_tokens = 0  # tokens of these, drafts included
        self.decode_context = 0.0  # sum of those contexts, tokens
        self.attached = 0.0  # blocks newly attached to requests
        self.preempted = 0
        self.quiet = False
        self.crowd = 0  # members of the crowd, in its step `index`
        self.index = -1
        self.fresh: Sequence[Request] = ()  # members whose first step this is
        self.ends: Sequence[Request] = ()  # members whose last token comes out
        self.awaited: list[tuple[int, int]] = []  # step of the tokens before this one's, members
