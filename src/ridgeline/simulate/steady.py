"""Fixed-length load in steady state, without walking it: the same step prices, a few of them, weighted.

A closed loop of N requests of `isl` prompt and `osl` output tokens. While one request decodes, the others' prompts are
computed too: N / osl prompts fall into each of its steps (divided by the tokens a step yields).

    time per token = decode step / accepted + N / osl x prefill / ranks
    time per request = first token + osl x time per token
    tokens/s/GPU = N (isl + osl) / time per request / GPUs

Where the cache holds fewer than N requests, the others wait: at their mean length, or at their full one under
TensorRT-LLM, which admits a request only when all it may ever need is free. Sharing one step among chunks and decodes
saves nothing here beyond what the chunk's own price says, which holds for prompts longer than a few hundred tokens.
Requests of like lengths that began together end nearly together, so prompts come in bunches, and at the end lanes run
dry one by one.
"""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.simulate.batch import Batch, Chunk
from ridgeline.simulate.cost import StepCost

_WAVES = 10  # requests a client sends on each of its lanes; the first of all lanes come at once
_DRAIN = 0.25  # of a request's time by which the last lane ends after the mean one
_BUNCH = 0.5  # share of a request's time within which the prompts of one wave arrive


class Load(NamedTuple):
    """A closed loop of fixed lengths, tokens; `conc` requests at any time. `fresh`: tokens of a prompt that a prefill
    pool must compute, the others being in its cache; None: all. `accepted`: tokens a step yields with drafts; None: as
    the engine's options say."""

    isl: int
    osl: int
    conc: int
    fresh: int | None = None
    accepted: float | None = None


class Steady(NamedTuple):
    """Seconds; tokens per second and GPU, input and output together."""

    tpot_s: float
    ttft_s: float
    tput_per_gpu: float
    running: float  # requests that decode at once


def decode_batch(requests: int, context: float, query: int = 1) -> Batch:
    """Everyone decodes at `context` tokens."""
    batch = Batch()
    batch.decodes = batch.emitting = requests
    batch.tokens = batch.decode_tokens = requests * query
    batch.decode_context = requests * context
    return batch


def prefill_batch(tokens: int, context: int, block: int) -> Batch:
    """One chunk."""
    batch = Batch()
    batch.chunks, batch.tokens, batch.emitting, batch.attached = [Chunk(tokens, context)], tokens, 1, tokens / block
    return batch


def prefill_s(price: StepCost, isl: int) -> float:
    """A prompt alone on one rank while the others have nothing of their own to do."""
    options = price.options
    ranks = options.topology.dp_ranks
    total, done = 0.0, 0
    while done < isl:
        count = min(options.max_num_batched_tokens, isl - done)
        batches: list[Batch | None] = [prefill_batch(count, done, options.block_size), *[None] * (ranks - 1)]
        total += price.seconds(batches)
        done += count
    return total


def crowded_prefill_s(price: StepCost, isl: int) -> float:
    """Seconds of a worker a prompt where prompts wait: as many as the budget holds are computed in one step, on every
    data-parallel rank at once."""
    options = price.options
    ranks, together = options.topology.dp_ranks, max(1, options.max_num_batched_tokens // isl)
    if ranks == 1 and together == 1:
        return prefill_s(price, isl)
    total, done = 0.0, 0
    while done < isl:
        count = min(options.max_num_batched_tokens, isl - done)
        batch = prefill_batch(count, done, options.block_size)
        batch.chunks, batch.tokens, batch.emitting = batch.chunks * together, count * together, together
        batch.attached *= together
        total += price.seconds([batch] * ranks)
        done += count
    return total / together / ranks


def steady(price: StepCost, load: Load, kv_tokens: float | None = None) -> Steady:
    """What a closed loop settles to. `kv_tokens`: the cache of one rank; None: as much as is needed.

    With data-parallel ranks prompts arrive on any of them: while one rank prefills the others wait, but when many
    prompts are under way several ranks prefill in the same step. The first token of the mean request also waits behind
    other prompts: as in a queue with one server and equal services, and in the burst that a closed loop begins with.
    """
    options = price.options
    ranks, query = options.topology.dp_ranks, 1 + options.num_speculative_tokens
    accepted = load.accepted or options.accepted_per_step
    mean = load.isl + load.osl / 2
    each = load.conc / ranks
    held = load.isl + load.osl if options.engine == "trt" else mean
    room = min(options.max_num_seqs, kv_tokens / held if kv_tokens else each)
    running = max(1.0, min(each, room))
    busy = min(ranks, load.conc)
    batches: list[Batch | None] = [decode_batch(round(running), mean, query)] * busy
    batches += [None] * (ranks - busy)
    step = price.seconds(batches)
    prompt = prefill_s(price, load.isl)
    # Prompts of all ranks in the time of one request's decoding; those that meet in a step share it.
    prompts = running * busy
    together = min(busy, max(1.0, prompts * prompt / (_BUNCH * load.osl / accepted * step + prompts * prompt / busy)))
    others = max(0.0, prompts - 1)  # a request's own prompt is over before its first token
    tpot = step / accepted + others / load.osl * prompt / together
    first = price.frontend_s(load.isl) + price.p.reply_s + prompt + step
    busy_share = min(0.9, others / load.osl * prompt / together / tpot)
    first += busy_share / (2 * (1 - busy_share)) * prompt / together + load.conc * prompt / together / 2 / _WAVES
    whole = first + load.osl * tpot
    served = min(load.conc, running * busy)
    queue = whole * (load.conc / served - 1)
    tput = load.conc * (load.isl + load.osl) / (whole + queue) / (1 + _DRAIN / _WAVES) / options.topology.gpus
    return Steady(tpot, first + queue, tput, running * busy)


def disaggregated(
    decode: StepCost, prefill: StepCost, load: Load, workers: int, prefills: int, kv_tokens: float | None = None
) -> Steady:
    """Prefill and decode on workers of their own, equal among themselves. The cache of a prompt crosses the scale-out
    network once; decode steps hold no prefill. Prompts queue when the prefill pool is the slower one, and in the burst
    that a closed loop begins with."""
    options = decode.options
    ranks, query = options.topology.dp_ranks, 1 + options.num_speculative_tokens
    accepted = load.accepted or options.accepted_per_step
    mean = load.isl + load.osl / 2
    fresh = load.isl if load.fresh is None else load.fresh
    alone, prompt = prefill_s(prefill, fresh), crowded_prefill_s(prefill, fresh) / prefills
    row = sum(cache.row_bytes + cache.scan_bytes for cache in decode.attention.caches)
    transfer = load.isl * row / options.gpu.scale_out_bandwidth
    room = min(options.max_num_seqs, kv_tokens / mean if kv_tokens else load.conc)
    running = max(1.0, min(load.conc / workers / ranks, room))
    whole = tpot = first = 0.0
    burst = load.conc * prompt / 2 / _WAVES  # mean wait of the first wave, over all waves
    for _ in range(8):  # requests in prefill do not decode: a few rounds find the share
        busy = min(ranks, max(1, round(running * ranks)))
        batches: list[Batch | None] = [decode_batch(max(1, round(running)), mean, query)] * busy
        batches += [None] * (ranks - busy)
        tpot = decode.seconds(batches) / accepted
        first = decode.frontend_s(load.isl) + decode.p.reply_s + alone + transfer + burst
        # What the slowest of three allows: the requests themselves, the prefill pool, the room of the decode pool.
        whole = max(first + load.osl * tpot, load.conc * prompt, load.conc * load.osl * tpot / (room * ranks * workers))
        share = load.osl * tpot / whole
        running = max(1.0 / ranks, min(load.conc * share / workers / ranks, room))
    rate = load.conc / whole
    total = workers * options.topology.gpus + prefills * prefill.options.topology.gpus
    return Steady(tpot, whole - load.osl * tpot, rate * (load.isl + load.osl) / total, running * ranks * workers)
