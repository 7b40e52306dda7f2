"""Weight bytes on one GPU, by part, for a topology and formats.

Rules (vLLM's, read in its source): with expert parallelism each rank holds its share of whole experts; without it every
expert is split over all ranks of tp x dp, padded to what the kernel needs. Attention, dense and shared parts are split
by attention-tp only, so data-parallel attention copies them. Down-projections, compressors, indexers, routers and norms
are on every rank. Embedding and head are split by attention-tp and kept in bf16.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ridgeline.core.topology import Topology
from ridgeline.engine.formats import Formats
from ridgeline.engine.parameters import (
    attention_parameters,
    dense_parameters,
    hyper_parameters,
    latent_parameters,
    router_parameters,
    shared_parameters,
)
from ridgeline.spec.facts.model import Block, Compressed, Experts, ModelArch


class Weights(NamedTuple):
    """Bytes on one GPU (of the fullest pipeline stage)."""

    routed: float
    attention: float
    shared: float
    dense: float
    gate: float  # routers, their biases and hash tables
    hyper: float
    embed: float  # embedding and head
    mtp_projection: float
    norms: float

    @property
    def total(self) -> float:
        return float(sum(self))


def weights(arch: ModelArch, topology: Topology, formats: Formats, *, mtp: bool = False, pad: int = 1) -> Weights:
    """Weight bytes per GPU. `mtp` adds one multi-token-prediction module (its embedding and head are the model's own).
    `pad`: multiple to which a rank's expert width is rounded up, see `builds.expert_pad`."""
    tp, hidden = topology.attention_tp, arch.hidden
    blocks = arch.blocks + (arch.mtp if mtp else ())
    stage = math.ceil(arch.layers / topology.pp) / arch.layers
    parts = [0.0] * 9
    for block in blocks:
        attention = attention_parameters(block.attention, hidden)
        linear = formats.linear_bytes
        row = (
            routed_bytes(block, hidden, topology, formats, pad),
            attention.on_rank(tp) * linear + attention.wide * 2,
            shared_parameters(block.ffn, hidden) / tp * linear,
            (dense_parameters(block.ffn, hidden) / tp + latent_parameters(block.ffn, hidden)) * linear,
            _gate_bytes(arch, block),
            4.0 * hyper_parameters(arch),
            0.0,
            0.0,
            2.0 * 2 * hidden,
        )
        parts = [total + block.count * stage * part for total, part in zip(parts, row, strict=True)]
    tables = 1 if arch.tied or topology.pp > 1 else 2  # with pipeline stages no GPU holds both
    parts[6] = 2.0 * tables * arch.vocab * hidden / tp
    parts[7] = formats.linear_bytes * 2 * hidden * hidden if mtp and arch.mtp else 0.0
    if arch.hyper:  # the mixer that folds the residual streams before the head
        parts[5] += 4.0 * arch.hyper * arch.hyper * hidden
    return Weights(*parts)


def routed_bytes(block: Block, hidden: int, topology: Topology, formats: Formats, pad: int = 1) -> float:
    """Bytes of the routed experts of one layer of `block` on one GPU."""
    ffn = block.ffn
    if not isinstance(ffn, Experts):
        return 0.0
    world = topology.tp * topology.pcp
    split = max(1, world // max(1, topology.ep))  # ranks that share one expert
    width = math.ceil(ffn.inter / split / pad) * pad
    depth = math.ceil((ffn.latent or hidden) / pad) * pad
    return math.ceil(ffn.count / topology.ep) * ffn.matrices * depth * width * formats.expert_bytes


def _gate_bytes(arch: ModelArch, block: Block) -> float:
    """bf16 routers with an fp32 bias per expert, or with a table of top_k int32 per vocabulary entry."""
    ffn = block.ffn
    if not isinstance(ffn, Experts):
        return 0.0
    extra = arch.vocab * ffn.top_k * 4 if ffn.hash_routed else 4 * ffn.count
    return 2.0 * router_parameters(ffn, arch.hidden) + extra


def constructor_buffers(
    arch: ModelArch, vendor: str, max_num_batched_tokens: int, *, mtp: bool = False
) -> dict[str, float]:
    """Bytes of buffers that ROCm builds create in a model's constructor, so that the engine counts them as weights.

    DeepSeek-V4 only: hidden states of the draft layer (tokens x streams x width in bf16), the compressors' scratch (one
    fp32 row of 512 a token and layer with the wide ratio), two top-k index buffers (tokens x 1024 int32 each) and two
    rope tables of a million rows (64 fp32 values). Other models and vendors: none known.
    """
    compressed = [(b.count, b.attention) for b in arch.blocks if isinstance(b.attention, Compressed)]
    if vendor != "amd" or not compressed:
        return {}
    wide = sum(count for count, part in compressed if part.ratio and not part.indexer)
    first = compressed[0][1]
    topk = max(part.topk or 0 for _, part in compressed)
    return {
        "mtp_hidden": max_num_batched_tokens * max(1, arch.hyper) * arch.hidden * 2.0 if mtp else 0.0,
        "compress_scratch": wide * max_num_batched_tokens * first.head_dim * 4.0,
        "topk": 2.0 * max_num_batched_tokens * topk * 4,
        "rope": 2.0 * (1 << 20) * first.rope * 4,
    }
