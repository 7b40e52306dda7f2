"""Attention: what it reads of the cache and computes, by kind, for decoding requests and for chunks of prompts."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

from ridgeline.engine.kv import WINDOW
from ridgeline.engine.kvlayers import kv_layers
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.costparams import CostParameters
from ridgeline.spec.facts.model import Attention, Block, Compressed, Gqa, Mla, ModelArch, Recurrent

_SLOW_ROWS = 0.6  # of the rate of 8-bit rows where values are turned on the way


@dataclass(frozen=True, slots=True)
class Cache:
    """Reads of one kind of attention in all its layers: bytes per token read, how much is read, work per token."""

    row_bytes: float  # bytes per cached token and rank, all layers
    limit: int | None  # tokens read at most (window, top-k); None: all
    scan_bytes: float  # bytes per context token that are read whatever the limit (index keys)
    flops: float  # attention FLOPs per (query, visible token), all layers, one rank
    scan_flops: float  # the same for the scan
    decode_flops: float  # attention FLOPs per visible token of a decoding query, which works on the cached form

    def visible(self, context: float) -> float:
        return context if self.limit is None else min(context, self.limit)


def caches(options: EngineOptions) -> list[Cache]:
    """What attention reads, by kind, on one rank and stage."""
    found = []
    for block in options.arch.blocks:
        attention = block.attention
        if attention is None or isinstance(attention, Recurrent):
            continue
        found += _caches(attention, block, options)
    return found


def _caches(attention: Attention, block: Block, options: EngineOptions) -> list[Cache]:
    layers = [
        layer
        for layer in kv_layers(_single(options, block), options.topology, fp8=options.kv_cache_dtype.startswith("fp8"))
        if layer.kind != "state"
    ]
    heads = getattr(attention, "heads", 0) / options.topology.attention_tp
    count = -(-block.count // options.topology.pp)
    width = sum(latent_dims(attention)) if isinstance(attention, (Mla, Compressed)) else 0
    if isinstance(attention, Gqa):
        width = attention.qk_dim + attention.v_dim
    flops = decode_flops = 2.0 * heads * width * count
    if isinstance(attention, Mla):  # scores over latent and rope, values over the latent, without expanding either
        decode_flops = 2.0 * heads * (2 * attention.kv_lora + attention.rope) * count
    indexer = getattr(attention, "indexer", None)
    scan_bytes = scan_flops = 0.0
    if indexer:
        scan_bytes = count * indexer.key_bytes / indexer.ratio
        scan_flops = 2.0 * count * indexer.heads * indexer.dim / indexer.ratio
    if isinstance(attention, Compressed):
        window = next(layer for layer in layers if layer.kind == WINDOW)
        own = [Cache(float(count * window.row_bytes), attention.window, 0.0, flops, 0.0, flops)]
        if attention.ratio:
            row, limit = count * window.row_bytes / attention.ratio, attention.topk
            tokens = limit * attention.ratio if limit else None
            own.append(Cache(row, tokens, scan_bytes, flops / attention.ratio, scan_flops, flops / attention.ratio))
        return own
    row = sum(layer.count * layer.row_bytes / layer.ratio for layer in layers[:1])
    limit = getattr(attention, "topk", None) or getattr(attention, "window", None)
    return [Cache(float(row), limit, scan_bytes, flops, scan_flops, decode_flops)]


def _single(options: EngineOptions, block: Block) -> ModelArch:
    return replace(options.arch, blocks=(block,), mtp=())


def latent_dims(attention: Mla | Compressed) -> tuple[int, int]:
    """(score width, value width) of one head when prefill attends in expanded form."""
    if isinstance(attention, Mla):
        return attention.nope + attention.rope, attention.v_dim
    return attention.head_dim, attention.head_dim


def turned(options: EngineOptions) -> bool:
    """Hopper's matrix units take 8-bit values in one order only, and FlashAttention 3, which vLLM runs there for
    grouped-query attention, turns what the cache holds on the way; TensorRT-LLM's kernels and later GPUs need not."""
    gpu = options.gpu
    hopper = gpu.vendor == "nvidia" and gpu.fp8_flops is not None and gpu.fp4_flops is None
    return (
        hopper and options.engine == "vllm" and any(isinstance(block.attention, Gqa) for block in options.arch.blocks)
    )


class AttentionCost:
    """Prices attention of one rank and stage."""

    def __init__(self, options: EngineOptions, p: CostParameters) -> None:
        arch = options.arch
        self.caches = caches(options)
        self.state_bytes = sum(
            2 * layer.count * layer.row_bytes for layer in kv_layers(arch, options.topology) if layer.kind == "state"
        )
        self._options = options
        self._reads = [(c.row_bytes, c.limit, c.scan_bytes, c.decode_flops) for c in self.caches]
        self._sparse = any(
            isinstance(block.attention, Compressed) or getattr(block.attention, "topk", None) for block in arch.blocks
        )
        self._price(p)

    def _price(self, p: CostParameters) -> None:
        gpu = self._options.gpu
        narrow = 1.0
        if self._options.kv_cache_dtype.startswith("fp8"):
            narrow = p.narrow_cache * (_SLOW_ROWS if turned(self._options) else 1.0)
        share = p.sparse_attention if self._sparse else p.prefill_attention
        self.bandwidth = gpu.bandwidth * p.kv_read * narrow  # bytes/s of the cache; 8-bit rows are unpacked on the way
        self._state_rate = gpu.bandwidth * p.kv_read  # states are not narrowed with the rows
        self._decode_flops = gpu.bf16_flops * p.prefill_attention
        self._chunk_flops, self._scan_flops = gpu.bf16_flops * share, gpu.flops("fp8") * share

    def priced_by(self, p: CostParameters) -> AttentionCost:
        """The same reads at other rates."""
        other = copy.copy(self)
        other._price(p)
        return other

    def decode_s(self, batch: Batch) -> float:
        """Cache reads of decoding requests, or their arithmetic where that takes longer (a latent is shared by all
        heads: few bytes, much work); recurrent states read and written. Requests count with their mean context."""
        if not batch.decodes:
            return 0.0
        mean = batch.decode_context / batch.decodes
        query = batch.decode_tokens / batch.decodes  # drafts of a sequence are verified in one reading
        read, peak = self.bandwidth, self._decode_flops
        total = self.state_bytes / self._state_rate
        for row_bytes, limit, scan_bytes, decode_flops in self._reads:
            visible = mean if limit is None or mean < limit else limit
            reading = (row_bytes * visible + scan_bytes * mean) / read
            computing = query * decode_flops * visible / peak
            total += reading if reading >= computing else computing
        return total * batch.decodes

    def prefill_s(self, batch: Batch) -> float:
        """Attention of prefill chunks: 4 FLOPs per head value and visible token, and one pass over the cache. Sparse
        attention gathers what it reads and reaches less of the peak; its index keys hold 8 bits and are scored so."""
        peak, scan, read = self._chunk_flops, self._scan_flops, self.bandwidth
        total = 0.0
        for count, context in batch.chunks:
            middle = context + count / 2  # the mean token sees the context and half of its own chunk
            for c in self.caches:
                computing = count * (c.flops * c.visible(middle) / peak + c.scan_flops * middle / scan)
                total += max(computing, (c.row_bytes * c.visible(context) + c.scan_bytes * context) / read)
            total += self.state_bytes / self._state_rate
        return total
