"""Where a GPU's memory goes when the engine starts, and the KV pool that is left: vLLM's arithmetic.

    requested = ceil(total * gpu_memory_utilization)
    available = requested - weights - activation peak - non-torch memory - graph estimate

Weights and pages are exact. The last three are what only a start can tell; they are estimated here and said so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.units import GIB
from ridgeline.engine.builds import build_of, expert_pad
from ridgeline.engine.kv import KvCapacity, KvPlan, capacity
from ridgeline.engine.kvpool import PAGE, Pool, further_states, keeps, own_state_pool, shared_pool, split_pool
from ridgeline.engine.options import EngineOptions
from ridgeline.engine.plans import plan_of
from ridgeline.engine.weights import Weights, weights
from ridgeline.spec.facts.model import Dense, Experts

# Measured on one H200 with vLLM 0.24: 0.22 GiB outside the allocator on one GPU. The collectives' buffers of a
# multi-GPU start are an assumption, as is the graph estimate that V1 model runners take off (0.6 GiB seen for 8B).
NON_TORCH, COLLECTIVES, GRAPHS = round(0.22 * GIB), 1 * GIB, round(0.6 * GIB)

_PLENTY = 1 << 30  # states, where nobody said what memory there is
SLACK = 0.01  # of the total: what should stay between the memory that is asked for and what is free


def roomy(free_gib: float, total_gib: float) -> float:
    """The largest utilisation, in hundredths, that leaves SLACK of the total free at start."""
    return math.floor(100 * (free_gib / total_gib - SLACK) + 1e-9) / 100


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one GPU, the cache plan and its capacity per data-parallel rank."""

    requested: int
    weights: Weights
    activation: int  # estimate
    other: int  # estimate: non-torch, collectives, graphs
    available: int
    plan: KvPlan
    capacity: KvCapacity
    pool: Pool


def memory_of(options: EngineOptions) -> Memory:
    """The memory of one GPU. Raises InputError in vLLM's words when the longest request does not fit.

    `kv_cache_memory_bytes` replaces the arithmetic. `kv_tokens` sets the pool outright, and nothing is asked of it,
    like vLLM's override of the block count.
    """
    mtp = options.spec_decode and options.draft_layer
    plan, refusal = plan_of(
        options.arch,
        options.topology,
        options.block_size,
        options.kv_cache_dtype.startswith("fp8"),
        options.kv_rows,
        mtp,
        further_states(options),
        options.hybrid_kv_cache_manager,
    )
    if plan is None:
        raise InputError([Problem(refusal, key="kv_cache")])
    parts = weights(
        options.arch,
        options.topology,
        options.formats,
        mtp=mtp,
        # Of other engines no padding is known; theirs is taken to be vLLM's.
        pad=options.expert_padding or expert_pad(build_of(options.engine, "vllm"), options.formats, options.gpu.vendor),
    )
    requested = math.ceil(options.gpu.memory_bytes * options.gpu_memory_utilization)
    activation = activation_bytes(options)
    single = options.topology.gpus == 1
    other = NON_TORCH + (0 if single else COLLECTIVES) + (GRAPHS if options.arch.moe else 0)
    available = requested - round(parts.total) - activation - other
    if options.kv_cache_memory_bytes is not None:
        available = options.kv_cache_memory_bytes
    if options.kv_tokens is not None:
        return Memory(
            requested, parts, activation, other, available, plan, _override(options), _overridden(options, plan)
        )
    if own_state_pool(options):
        pool = split_pool(options, available)
        if not pool.blocks or not pool.slots:
            raise InputError([Problem(f"no memory for states and KV cache: {available / GIB:.2f} GiB", key="kv_cache")])
        tokens = pool.blocks * pool.block_size
        found = KvCapacity(pool.blocks, tokens, tokens / options.max_model_len)
        return Memory(requested, parts, activation, other, available, plan, found, pool)
    try:
        found = capacity(plan, available, options.max_model_len, options.in_flight_tokens)
    except ValueError as error:
        room = f"{requested / GIB:.2f} GiB requested, {parts.total / GIB:.2f} for weights"
        message, hint = f"{error} ({room})", "a smaller max-model-len, more GPUs, or a narrower precision"
        if parts.total >= requested:  # vLLM's own words lead nowhere then
            message = f"No available memory for the cache blocks: the weights do not fit ({room})"
            hint = "more GPUs for one copy of the model, experts spread over them, or a narrower precision"
        raise InputError([Problem(message, key="kv_cache", hint=hint)]) from error
    pool = shared_pool(plan, found.blocks, keeps=keeps(options))
    return Memory(requested, parts, activation, other, available, plan, found, pool)


def activation_bytes(options: EngineOptions) -> int:
    """Peak of the profiling run: the widest layer's intermediates for a full token budget, or the logits of a full
    batch. bf16 activations; gate and up together, their product, and four copies of the residual (8B on one H200:
    0.91 GiB against 0.88 to 1.10 measured)."""
    arch, tp = options.arch, options.topology.attention_tp
    split = max(1, options.topology.tp * options.topology.pcp // options.topology.ep)
    widest = 0.0
    for block in arch.blocks:
        ffn = block.ffn
        if isinstance(ffn, Dense):
            widest = max(widest, 3 * ffn.inter / tp)
        elif isinstance(ffn, Experts):
            routed = ffn.top_k * (3 * ffn.inter / split + (ffn.latent or arch.hidden))
            widest = max(widest, routed + 3 * (ffn.shared + ffn.dense_inter) / tp)
    layer = options.max_num_batched_tokens * (4 * arch.hidden * max(1, arch.hyper) + widest) * 2
    logits = options.max_num_seqs * arch.vocab / tp * (2 + 4)  # bf16 and an fp32 copy for sampling
    return round(max(layer, logits))


def _overridden(options: EngineOptions, plan: KvPlan) -> Pool:
    """A pool of so many tokens, in which running requests hold nothing beside them."""
    tokens = options.kv_tokens or 0
    sized = Pool(1, PAGE, 0, slots=_PLENTY) if own_state_pool(options) else shared_pool(plan, 1, keeps=keeps(options))
    return replace(sized, blocks=max(1, tokens // sized.block_size), held=0)


def _override(options: EngineOptions) -> KvCapacity:
    tokens = options.kv_tokens or 0
    return KvCapacity(max(1, tokens // options.block_size), tokens, tokens / options.max_model_len)


def startup_lines(options: EngineOptions, memory: Memory) -> list[str]:
    """What vLLM logs about memory when it starts, in its words, one line each."""
    lines = [f"Model loading took {memory.weights.total / GIB:.2f} GiB memory"]
    if options.kv_tokens is None:
        lines.append(f"Available KV cache memory: {memory.available / GIB:.2f} GiB")
    return [
        *lines,
        f"GPU KV cache size: {memory.capacity.tokens:,} tokens",
        f"Maximum concurrency for {options.max_model_len:,} tokens per request: {memory.capacity.concurrency:.2f}x",
    ]
