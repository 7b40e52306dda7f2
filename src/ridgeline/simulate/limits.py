"""What a scheduler keeps to: budgets, block grid, and the rules that engines differ in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The rules of one rank, mostly under vLLM's names."""

    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    block_size: int
    blocks: int
    held: int = 0  # blocks each running request keeps for windows and states
    prefix_caching: bool = True
    long_prefill_token_threshold: int = 0
    watermark_blocks: int = 0
    reserve_full_isl: bool = True
    reserve_answer: int = 0  # and so many tokens of its answer at most (SGLang)
    query: int = 1  # tokens of a decoding request in a step: one and the drafts
    accepted: float = 1.0  # tokens a decoding step yields on average
    look_ahead: int = 0  # further slots a decoding request needs for drafts
    drop_last: bool = False  # a hit gives its last block up, so that the draft layer has hidden states
    prefill_interval: int = 1  # new requests are admitted in every so many-th step
    prefill_first: bool = False  # a step prefills or decodes, never both
    checkpoints: str = "all"  # where windows and states can be resumed: "all" | "prompt" | "chunks"
    checkpoint_grid: int = 0  # and at multiples of this many blocks
    merges: bool = False  # blocks that others have too are given back at once
    room: int = 0  # blocks that a kept recurrent state takes; 0: it takes none, or has a pool of its own
    aligned: bool = False  # chunks of prompts end on block boundaries, where states are kept
    slots: int = 0  # states in a pool of their own
    own_slots: int = 0  # of these, what a running request has
    state_weight: int = 0  # what a state weighs on a link, in blocks
    track: int = 0  # and where its last state is kept when it ends: multiples of so many tokens (0: not at all)
    host_blocks: int = 0  # blocks of a second tier in host memory
    host_room: int = 0  # what a kept state takes there
    host_slots: int = 0
    in_turn: bool = False  # a request's next step waits for its last token: other stages hold other requests
