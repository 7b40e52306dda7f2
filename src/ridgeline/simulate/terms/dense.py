"""Linear layers that every token passes, the head, and element-wise kernels: what depends on a rank's tokens alone."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.engine.formats import compute_width
from ridgeline.engine.options import EngineOptions
from ridgeline.engine.parameters import attention_parameters, dense_parameters, latent_parameters, shared_parameters
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.terms.attention import latent_dims
from ridgeline.simulate.terms.roofline import overlapped, saturating
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import Block, Compressed, Experts, Gqa, Mla


@dataclass(frozen=True, slots=True)
class DenseWork:
    """Of one rank and pipeline stage."""

    weights: float  # parameters that every token passes
    bytes: float  # what they take
    flops: float  # peak FLOP/s of their format
    unpacked: bool  # 4-bit weights
    head: float  # parameters of the output head, computed for sampled tokens only
    traffic: float  # bytes of element-wise kernels per token


def dense_work(options: EngineOptions) -> DenseWork:
    arch, topology, formats = options.arch, options.topology, options.formats
    tp, hidden = topology.attention_tp, arch.hidden
    weights = traffic = 0.0
    for block in arch.blocks:
        share = block.count / topology.pp
        own = attention_parameters(block.attention, hidden)
        ffn = (shared_parameters(block.ffn, hidden) + dense_parameters(block.ffn, hidden)) / tp
        weights += share * (own.on_rank(tp) + own.wide + ffn + latent_parameters(block.ffn, hidden))
        traffic += share * element_bytes(block, hidden, tp, arch.hyper)
    return DenseWork(
        weights=weights,
        bytes=weights * formats.linear_bytes,
        flops=options.gpu.flops(compute_width(formats.linear, options.gpu)),
        unpacked=formats.linear_bytes < 1,
        head=arch.vocab * hidden / tp,
        traffic=traffic,
    )


def element_bytes(block: Block, hidden: int, tp: int, streams: int = 0) -> float:
    """Memory traffic of norms, residuals, rotary and activation kernels per token of one layer: 8 residual-sized
    passes, queries twice in and out, gate and up in and their product out (bf16). With hyper-connections every one of
    the residual `streams` is read and written around both parts of a layer."""
    values = 8.0 * hidden + (4.0 * streams * hidden if streams > 1 else 0.0)
    attention, ffn = block.attention, block.ffn
    if isinstance(attention, (Gqa, Mla, Compressed)):
        width = attention.qk_dim if isinstance(attention, Gqa) else latent_dims(attention)[0]
        values += 4 * attention.heads * width / tp
    if isinstance(ffn, Experts):
        values += 3 * (ffn.top_k * ffn.inter + ffn.shared + ffn.dense_inter) / tp
    elif ffn is not None:
        values += 3 * ffn.inter / tp
    return 2 * values


def linear_s(work: DenseWork, tokens: int, sampled: int, gpu: Gpu, p: CostParameters) -> float:
    """Projections, dense and shared feed-forward parts and the head: weights are read once per step."""
    head_bytes = 2 * work.head if sampled else 0.0
    narrow = p.narrow_read if work.unpacked else 1.0
    read = (work.bytes / narrow + head_bytes) / (gpu.bandwidth * p.weight_read)
    compute = 2 * work.weights * tokens / (work.flops * saturating(p.gemm_top, p.gemm_half, tokens))
    if sampled:
        compute += 2 * work.head * sampled / (gpu.bf16_flops * saturating(p.gemm_top, p.gemm_half, sampled))
    return overlapped(read, compute)


def dense_s(work: DenseWork, tokens: int, sampled: int, gpu: Gpu, p: CostParameters) -> float:
    """Linear layers, element-wise kernels and sampling."""
    element = work.traffic * tokens / (gpu.bandwidth * p.traffic)
    return linear_s(work, tokens, sampled, gpu, p) + element + sampled * p.sample_s
