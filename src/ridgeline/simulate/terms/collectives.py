"""Communication between the GPUs of one engine: ring and one-shot all-reduces, experts' dispatch, pipeline stages."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.core.topology import Topology
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.terms.experts import ExpertWork
from ridgeline.spec.facts.gpu import Gpu

_OUT_STARTS = 2.5  # starts inside a node that one over the scale-out network takes: some 20 us; assumption


def all_reduce_s(size: float, ranks: int, gpu: Gpu, p: CostParameters) -> float:
    """One all-reduce of `size` bytes per rank: everything to everybody in one exchange, or sums and their spreading in
    two, whichever is sooner. Engines switch at some hundred kilobytes, which is where the two meet. GPUs of several
    nodes sum inside each, then every GPU its share with those of the other nodes."""
    if ranks == 1:
        return 0.0
    bandwidth = gpu.link_bandwidth * p.link
    within = min(ranks, gpu.link_world)
    once = p.collective_s + (within - 1) * size / bandwidth
    inside = min(once, 2 * (p.collective_s + size * (within - 1) / within / bandwidth))
    return inside + 2 * between_s(size / within, ranks, gpu, p)


def between_s(size: float, ranks: int, gpu: Gpu, p: CostParameters) -> float:
    """One exchange of `size` bytes a GPU among the nodes that `ranks` GPUs are spread over; 0 inside one domain."""
    nodes = -(-ranks // gpu.link_world)
    return 0.0 if nodes == 1 else _OUT_STARTS * p.collective_s + size * (nodes - 1) / nodes / gpu.scale_out_bandwidth


def dispatch_s(tokens: float, hidden: int, top_k: int, ranks: int, gpu: Gpu, p: CostParameters) -> float:
    """Tokens to their experts' ranks (one byte per value) and back (two); a token goes to a rank once, however many of
    its experts are there."""
    if ranks == 1:
        return 0.0
    copies = min(top_k, ranks) * (ranks - 1) / ranks
    size = tokens * copies * hidden * 3
    within = min(ranks, gpu.link_world) / ranks
    return 2 * p.collective_s + size * within / (gpu.link_bandwidth * p.link) + 2 * between_s(size / 2, ranks, gpu, p)


def gather_s(size: float, ranks: int, gpu: Gpu, p: CostParameters) -> float:
    """All ranks' tokens to every rank (`size` bytes together) and sums back: an all-gather and a reduce-scatter."""
    inside = p.collective_s + size * (ranks - 1) / ranks / (gpu.link_bandwidth * p.link)
    return 2 * (inside + between_s(size / min(ranks, gpu.link_world), ranks, gpu, p))


def collectives_s(
    tokens: int, total: int, topology: Topology, layers: int, hidden: int, experts: Sequence[ExpertWork], gpu: Gpu,
    p: CostParameters,
) -> float:  # fmt: skip
    """All-reduces of tensor-parallel attention and feed-forward parts over `layers` layers; experts' dispatch and
    combine, or the gathering that data-parallel attention needs in front of experts without it. `tokens` of one rank,
    `total` of all."""
    group = topology.tp * topology.pcp  # GPUs that share the experts
    if topology.attention_tp > 1:
        time = 2 * layers / topology.pp * all_reduce_s(2.0 * tokens * hidden, topology.attention_tp, gpu, p)
    else:
        time = 0.0
    if (topology.dp_attn or topology.pcp > 1) and group > 1:
        for work in experts:
            if topology.ep > 1:
                each = dispatch_s(total / group, hidden, work.top_k, group, gpu, p)
            else:
                each = gather_s(2.0 * total * hidden, group, gpu, p)
            time += work.layers * each
    if topology.pp > 1:  # activations handed on from stage to stage
        time += (topology.pp - 1) * (p.collective_s + 2.0 * tokens * hidden / gpu.link_bandwidth)
    return time
