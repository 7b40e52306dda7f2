"""Routed experts: how many of them a step reads, how unevenly they are spread over GPUs, and what that takes.

Formulas: coverage of skewed routing (`experts_touched`), the largest of several draws (`largest_of`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.engine.formats import compute_width
from ridgeline.engine.options import EngineOptions
from ridgeline.engine.weights import routed_bytes
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.terms.roofline import overlapped, saturating
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import Block, Experts

_NARROW_GAIN = 0.75  # of log(peak) from bf16 to 8 or 4 bits that grouped products reach; assumption
_SLICE = 60  # columns of an expert's slice under tensor parallelism that its arithmetic loses; assumption
# Passes over a row of the hidden size for every (token, expert): input gathered, output written, outputs summed. Slices
# of an expert do not shorten them. vLLM's fused experts on one H200, measured 2026-11-30: of 4,096 tokens 205 us stay
# whether 768 or 96 columns are computed (hidden size 2,048, top 8), 800 us at 7,168: 6 to 7.
_ROW_PASSES = 6.5
_TILE = 128  # columns to whose multiple grouped products compute a slice
_EXTREME = (0.0, 0.56, 0.85, 1.03, 1.16, 1.27, 1.35, 1.42)  # deviations by which the largest of 1, 2... normals exceeds


@dataclass(frozen=True, slots=True)
class ExpertWork:
    """Routed experts of equal layers, all of them together."""

    layers: int
    count: int
    top_k: int
    bytes_each: float  # bytes of one expert of one layer on one rank's share of it
    flops_each: float  # FLOPs of one token in one expert, on one rank's share
    hidden: int
    slice: float  # columns of one expert on one GPU
    width: int  # values of a row that an expert takes in and gives back


def expert_work(block: Block, options: EngineOptions) -> ExpertWork | None:
    """The routed experts of a block as one GPU sees them."""
    ffn = block.ffn
    if not isinstance(ffn, Experts):
        return None
    topology, hidden = options.topology, options.arch.hidden
    group = topology.tp * topology.pcp
    on_gpu = routed_bytes(block, hidden, topology, options.formats)  # all experts' bytes on one GPU
    layers = -(-block.count // topology.pp)
    columns = ffn.inter * topology.ep / group
    flops = 2.0 * ffn.matrices * (ffn.latent or hidden) * math.ceil(columns / _TILE) * _TILE / topology.ep
    return ExpertWork(layers, ffn.count, ffn.top_k, on_gpu / ffn.count, flops, hidden, columns, ffn.latent or hidden)


def grouped_flops(options: EngineOptions) -> float:
    """Peak FLOP/s of grouped products, which gain from narrow types only a part of what the peak promises."""
    gpu = options.gpu
    peak = gpu.flops(compute_width(options.formats.experts, gpu))
    return float(gpu.bf16_flops * (peak / gpu.bf16_flops) ** _NARROW_GAIN)


def experts_touched(count: int, top_k: int, tokens: float, evenness: float) -> float:
    """Expected distinct experts of one layer for `tokens` tokens: E (1 - (1 + T k / (E a))^-a), which Poisson hits
    leave when the popularity of experts follows a gamma distribution of shape a = `evenness`. It approaches
    E (1 - exp(-T k / E)), uniform routing, as a grows. A token touches its own k in any case."""
    hit = 1 - (1 + tokens * top_k / (count * evenness)) ** -evenness
    return float(min(count, max(count * hit, top_k * min(tokens, 1.0))))


def largest_of(groups: int) -> float:
    """Standard deviations by which the largest of as many normal values is expected above their mean."""
    if groups <= len(_EXTREME):
        return _EXTREME[groups - 1]
    return math.sqrt(2 * math.log(groups)) - 0.57  # within 3 % from 9 to 100


def busiest_reading(count: int, touched: float, groups: int) -> float:
    """How many experts the GPU with most of them reads, over the mean of `groups` GPUs with equal numbers of them: the
    touched ones are drawn without putting back (hypergeometric), and everybody waits for the unluckiest."""
    mean = touched / groups
    if groups == 1 or mean <= 0:
        return 1.0
    spread = math.sqrt(mean * (1 - 1 / groups) * (count - touched) / max(1, count - 1))
    most = min(count / groups, max(min(touched, 1.0), mean + largest_of(groups) * spread))
    return max(1.0, most / mean)


def busiest_computing(count: int, groups: int, evenness: float) -> float:
    """The same for tokens: a GPU's experts are popular by gamma distributions of that shape, whose sum varies by
    1 / sqrt(shape x experts)."""
    return 1 + largest_of(groups) / math.sqrt(evenness * count / groups)


def experts_s(
    tokens: float, experts: Sequence[ExpertWork], groups: int, flops: float, gpu: Gpu, p: CostParameters
) -> float:
    """Routed experts on the busiest of `groups` GPUs with experts of their own (1: every expert is cut across all), for
    the tokens of all ranks."""
    total = 0.0
    for work in experts:
        touched = experts_touched(work.count, work.top_k, tokens, p.expert_evenness)
        most = busiest_reading(work.count, touched, groups)
        read = touched * work.bytes_each * most / (gpu.bandwidth * p.expert_read)
        each = tokens * work.top_k / max(touched, 1.0)
        rate = flops * saturating(p.expert_top, p.expert_half, each)
        most = busiest_computing(work.count, groups, p.expert_evenness)
        compute = tokens * work.top_k * work.flops_each * most / rate if tokens else 0.0
        if groups == 1:  # cut across: thin slices keep matrix units less busy; reading does not mind (measured)
            compute *= 1 + _SLICE / work.slice
        rows = tokens * work.top_k * most / groups * _ROW_PASSES * 2 * work.width / (gpu.bandwidth * p.traffic)
        total += work.layers * (overlapped(read, compute) + rows)
    return total
