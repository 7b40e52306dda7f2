"""One request as the scheduler sees it: counts and block hashes, no text."""

from __future__ import annotations

from collections.abc import Sequence


class Request:
    """A request on one rank. Created by a driver, changed by the scheduler only.

    `hashes[i]` names the content of block i over prompt and answer, each chained to the one before; only whole blocks
    have one. The answer always has `max_tokens` tokens.
    """

    __slots__ = (
        "blocks",
        "cached",
        "computed",
        "done",
        "epoch",
        "first_ns",
        "hashes",
        "held",
        "in_flight",
        "key",
        "last_ns",
        "max_tokens",
        "named",
        "outputs",
        "preemptions",
        "prompt",
        "queued_ns",
        "reason",
        "scheduled_ns",
    )

    def __init__(self, key: int, prompt: int, max_tokens: int, hashes: Sequence[int], queued_ns: int = 0) -> None:
        self.key = key
        self.prompt = prompt
        self.max_tokens = max_tokens
        self.hashes = hashes
        self.queued_ns = queued_ns
        self.scheduled_ns: int | None = None
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.computed = 0  # tokens whose KV is, or with the batches under way will be, in the cache
        self.outputs = 0  # tokens returned
        self.in_flight = 0  # tokens of batches under way
        self.cached: int | None = None  # prompt tokens found in the cache at first admission
        self.blocks: list[int] = []
        self.held: list[int] = []  # blocks for windows and states
        self.named = 0  # leading blocks whose hash is registered
        self.epoch = 0  # counts preemptions: results of an earlier epoch are void
        self.preemptions = 0
        self.done = False
        self.reason = "length"  # how it ends, in vLLM's words

    @property
    def tokens(self) -> int:
        """Tokens there are, or will be when the batches under way have ended."""
        return self.prompt + self.outputs + self.in_flight
