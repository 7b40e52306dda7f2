"""One request as the scheduler sees it: counts and block hashes, no text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ridgeline.simulate.pool import Held

_GOLDEN = 0.6180339887498949  # spreads the phases of neighbouring keys evenly over [0, 1)


class Request:
    """A request on one rank. Created by a driver, changed by the scheduler only.

    `hashes[i]` names the content of block i over prompt and answer, each chained to the one before; only whole blocks
    have one. The answer always has `max_tokens` tokens.
    """

    __slots__ = (
        "cached",
        "computed",
        "done",
        "emits",
        "ends",
        "epoch",
        "external",
        "first_ns",
        "hashes",
        "held",
        "in_flight",
        "joined",
        "junction",
        "key",
        "known",
        "last_ns",
        "late",
        "leased",
        "level",
        "max_tokens",
        "offset",
        "origin",
        "outputs",
        "phase",
        "preemptions",
        "prompt",
        "queued_ns",
        "reason",
        "remote",
        "room",
        "scheduled_ns",
        "steps",
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
        self.cached: int | None = None  # prompt tokens found in a cache at first admission
        self.external = 0  # of these, tokens that came from another tier
        self.leased = False  # a load from the host tier is or was on the way
        self.remote = 0  # prompt tokens whose KV another engine has and hands over
        self.junction = 0  # tokens that the cache holds beyond the hit, whose state nobody has kept; 0: none
        self.held: Held | None = None
        self.steps = 0  # decoding steps booked
        self.phase = key * _GOLDEN % 1.0  # where its accepted tokens fall, see `gained`
        self.level = 0  # tokens that the steps so far yield, see `gained`
        self.emits: list[int] = []  # steps it got tokens in: begin, end, begin, end, ...
        self.epoch = 0  # counts preemptions: results of an earlier epoch are void
        self.preemptions = 0
        self.done = False
        self.reason = "length"  # how it ends, in vLLM's words
        # Of a member of a crowd, in steps of the crowd:
        self.joined = -1  # its first one; -1: it is no member
        self.ends = 0  # the one that books its last token
        self.known: int | None = None  # steps completed when that one was booked, once it was
        self.late = (-1, 0)  # an own entry completed when so many steps were booked, with so many tokens
        self.origin = 0  # decoding steps booked before it joined, less those of the crowd
        self.offset = 0  # tokens computed less `level`
        self.room = 0  # tokens it may have computed before a step needs another block

    @property
    def tokens(self) -> int:
        """Tokens there are, or will be when the batches under way have ended."""
        return self.prompt + self.outputs + self.in_flight

    def gained(self, steps: int, per_step: float) -> int:
        """Tokens that the next `steps` decoding steps yield at an acceptance length: floor or ceiling of it in each,
        as vLLM's synthetic sampler gives, spread evenly instead of drawn."""
        return self.level_at(self.steps + steps, per_step) - self.level

    def level_at(self, steps: int, per_step: float) -> int:
        """Tokens that its first `steps` decoding steps yield."""
        return steps if per_step == 1.0 else math.floor(self.phase + steps * per_step)

    def advance(self, steps: int, per_step: float) -> int:
        """Book `steps` decoding steps; the tokens they yield."""
        gained = self.gained(steps, per_step)
        self.steps += steps
        self.level += gained
        return gained

    def steps_before(self, tokens: int, per_step: float) -> int:
        """The most further decoding steps that yield fewer than `tokens` (at least 1)."""
        if per_step == 1.0:
            return tokens - 1
        steps = int((tokens + self.level - self.phase) / per_step) - self.steps + 1  # one too many at most
        while steps > 0 and self.gained(steps, per_step) >= tokens:
            steps -= 1
        return steps

    def note_emits(self, first: int, last: int) -> int:
        """It got tokens in the steps from `first` to before `last`; the step of its token before that, or -1."""
        emits = self.emits
        before = emits[-1] - 1 if emits else -1
        if emits and emits[-1] == first:
            emits[-1] = last
        else:
            emits += (first, last)
        return before
