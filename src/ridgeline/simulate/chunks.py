"""How a prompt is cut into chunks, and at which of its depths windows or states are kept for later prompts."""

from __future__ import annotations

from ridgeline.simulate.limits import Limits
from ridgeline.simulate.request import Request


def chunk_of(limits: Limits, request: Request, start: int, missing: int, budget: int) -> int:
    """Tokens of a prompt that its next step computes from `start` on, of `missing` ones.

    Where states take room among blocks, chunks end on block boundaries, at the last one that a match may end at, and
    where another prompt left this one, so that the state there can be kept; a block wider than a step is gone through
    in pieces (vLLM's `align` mode: `_mamba_block_aligned_split` in v1/core/sched/scheduler.py).
    """
    most = limits.max_num_batched_tokens
    if limits.long_prefill_token_threshold:
        most = min(most, limits.long_prefill_token_threshold)
    count = min(missing, budget, most)
    if count < 2 or not limits.aligned:
        return count
    size, total, end = limits.block_size, request.tokens, start + count
    if end < max(request.prompt, total - 1):
        whole = end // size * size
        end = whole if whole > start or size <= most else end
    last = (total // size - 1) * size if limits.drop_last else (total - 1) // size * size
    for stop in ((start // size + 1) * size if start % size else 0, last, request.junction):
        if start < stop < end:
            end = stop
    return max(0, end - start)


def kept_at(limits: Limits, request: Request, start: int, *, ends_prompt: bool) -> int:
    """Blocks behind which the chunk from `start` to `request.computed` leaves something to resume from; 0: none.

    States are left at its end, in vLLM only on a boundary; in SGLang where another prompt left this one instead, if
    that lies inside (`_mamba_radix_cache_v2_req_prepare_for_extend` in managers/schedule_batch.py). Windows, and states
    that take no room, are left where the prompt ends, or every chunk does.
    """
    size, at = limits.block_size, request.computed
    if limits.room or limits.slots:
        if limits.aligned and at % size:
            return 0
        return (request.junction if limits.slots and start < request.junction < at else at) // size
    if limits.checkpoints == "chunks" or (limits.checkpoints == "prompt" and ends_prompt):
        return min(at, request.prompt) // size
    return 0
