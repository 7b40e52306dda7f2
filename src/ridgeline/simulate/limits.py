"""What a scheduler keeps to: budgets, block grid, and the rules that engines differ in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ridgeline.engine.kvpool import (
    COUNTED_SLOTS,
    HOST_STATES,
    OWN_SLOTS,
    TRACK,
    copies,
    keeps,
    state_bytes,
    token_bytes,
)
from ridgeline.engine.memory import Memory
from ridgeline.engine.options import EngineOptions

_CLIP = 4096  # tokens of an answer that SGLang looks for room for (schedule_policy.py, CLIP_MAX_NEW_TOKENS)


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


def limits_of(options: EngineOptions, memory: Memory) -> Limits:
    """The scheduler's rules from engine options and the pool that memory left."""
    pool = memory.pool
    room = (pool.blocks - pool.held) * pool.block_size  # an overridden pool may be smaller than the longest request
    drafts = options.num_speculative_tokens
    grid = options.checkpoint_interval // pool.block_size
    kept, sglang = keeps(options), "sglang" in options.engine
    slots = (pool.slots or 0) if kept else 0
    host_blocks = options.host_kv_tokens // pool.block_size
    block_bytes = token_bytes(options, memory.plan) * pool.block_size
    weight = math.ceil(state_bytes(options) / block_bytes) if slots else pool.room
    return Limits(
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_num_seqs=min(options.max_num_seqs, max(1, slots // COUNTED_SLOTS)) if slots else options.max_num_seqs,
        max_model_len=min(options.max_model_len, room - drafts),
        block_size=pool.block_size,
        blocks=pool.blocks,
        held=pool.held,
        prefix_caching=options.enable_prefix_caching,
        long_prefill_token_threshold=options.long_prefill_token_threshold,
        watermark_blocks=int(options.watermark * pool.blocks),
        reserve_full_isl=options.scheduler_reserve_full_isl or sglang,
        reserve_answer=_CLIP if sglang else 0,
        query=1 + drafts,
        accepted=options.accepted_per_step,
        look_ahead=drafts,
        drop_last=drafts > 0 and not sglang,  # SGLang's draft layer has a cache of its own for what was found
        in_turn=options.topology.pp > 1,
        prefill_interval=options.prefill_schedule_interval,
        prefill_first=options.prefill_first,
        checkpoints=options.checkpoints,
        checkpoint_grid=grid,
        merges=sglang,
        room=pool.room,
        aligned=kept and not slots,
        slots=slots,
        own_slots=OWN_SLOTS if slots else 0,
        track=TRACK if slots else 0,
        state_weight=weight,
        host_blocks=host_blocks,
        host_room=pool.room * copies(options, memory.plan),  # a state is every GPU's own
        host_slots=int(host_blocks * HOST_STATES / weight) if slots else 0,
    )
