"""Kernels of a step, counted from the parts that a model has, and what starting them takes.

A captured step still starts and drains its kernels one after the other; one that is not captured is launched from the
host.
"""

from __future__ import annotations

from ridgeline.engine.formats import Formats
from ridgeline.engine.graphs import FULL, NONE
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.costparams import CostParameters
from ridgeline.spec.facts.model import Block, Experts, Recurrent

_BLOCK_SCALED = 1.5  # small kernels that a product over fp8 in 128 x 128 blocks takes longer; assumption
_UNFUSED = 5  # kernels launched one by one for each fused one where nothing is compiled: an 8B model takes 14 ms a step


def kernels_of_step(options: EngineOptions) -> tuple[float, float]:
    """(products, all kernels) of a captured step on one pipeline stage's share of the layers."""
    products, small = 1.0, 3.0  # head; embedding, last norm, sampling
    for block in options.arch.blocks:
        share = block.count / options.topology.pp
        more, others = kernels_of(block, options.formats, hyper=options.arch.hyper > 1)
        products, small = products + share * more, small + share * others
    return products, products + small


def kernels_of(block: Block, formats: Formats, *, hyper: bool = False) -> tuple[int, float]:
    """(products, other kernels) of one layer in a captured step, in the order engines run them; attention counts as two
    products (split over the context, then combined). Layers whose weights are quantised also quantise what they read,
    but where one scale serves a whole tensor, as in fp8 exports of dense models, the kernel before does it. Models of
    experts come in fp8 with a scale for every block; such products take longer to start and end (`_BLOCK_SCALED`).

    - grouped-query: projection in and out; norm, rotary, cache write, norm of queries and keys
    - latent: five projections (down, queries up, keys and values absorbed, out); three norms, rotary, cache write, two
      layouts, joining queries
    - compressed: down, up, two groups out, two compressors; three norms, rotary and back, cache and state writes,
      compression, two layouts
    - recurrent: in, out and two scans; convolution, gates, norms, state
    - indexer: queries, weights, scores; rotary, norm, two quantisations, top-k, index
    - dense: up, down; norm, activation
    - experts: router, up, down; norm, top-k, two sorts, activation, sum; shared ones: up, down; activation, sum
    - hyper-connections, around both parts: one mixing product; norm, balancing, mixing in and out
    """
    attention, ffn = block.attention, block.ffn
    eights, experts = formats.linear == "fp8", isinstance(ffn, Experts)
    narrow = formats.linear != "bf16" and (experts or not eights)
    products = small = 0
    if attention is not None:
        more, others, inputs = {"gqa": (4, 4, 2), "mla": (7, 8, 3), "compressed": (8, 10, 3), "recurrent": (4, 6, 2)}[
            attention.kind
        ]
        products, small = more, others + inputs * narrow
        if getattr(attention, "indexer", None):
            products, small = products + 3, small + 6
    if isinstance(ffn, Experts):
        products, small = products + 3, small + 6 + 2 * (formats.experts != "bf16")
        if ffn.shared or ffn.dense_inter:
            products, small = products + 2, small + 2 + 2 * narrow
    elif ffn is not None:
        products, small = products + 2, small + 2 + 2 * narrow
    if hyper:
        products, small = products + 2, small + 8
    return products, small + _BLOCK_SCALED * products * (eights and experts)


def gaps_s(products: float, kernels: float, factor: float, p: CostParameters) -> float:
    """Starting and draining kernels one after the other, which even a captured graph does not hide. A product takes
    as long as `product_kernels` others before its first and after its last byte. `factor`: of the checkpoint."""
    return (kernels + (p.product_kernels - 1) * products) * factor * p.graph_kernel_s


def recurrent_layers(options: EngineOptions) -> float:
    """Layers with a recurrent state on one pipeline stage."""
    blocks = options.arch.blocks
    return sum(block.count for block in blocks if isinstance(block.attention, Recurrent)) / options.topology.pp


def launch_s(kernels: float, mode: str, recurrent: float = 0.0, *, compiled: bool, p: CostParameters) -> float:
    """Host time to launch a step: nothing for a full graph, attention only for a piecewise one, else everything:
    compiled code where a step is merely too large for its graphs, single operations where nothing is captured. The
    host runs ahead, so it counts only where the GPU is faster.

    The scans of `recurrent` layers over prompts (0: the step has none) are dozens of small kernels that interpreted
    code prepares and starts one by one, in no graph of any engine, however long a chunk is."""
    share = {FULL: 0.0, NONE: 1.0}.get(mode, 1 / 3)
    return share * (1 if compiled else _UNFUSED) * kernels * p.eager_kernel_s + recurrent * p.recurrent_launch_s
