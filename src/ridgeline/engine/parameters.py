"""How many parameters the parts of a layer have, by how they are split over GPUs. Biases and norms are left out of the
linear counts (under 0.1 % of any model here); norms are counted once per layer in `layer_extras`."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.spec.facts.model import Attention, Compressed, Dense, Experts, Gqa, Mla, ModelArch


class AttentionParameters(NamedTuple):
    """Parameters of one attention layer. `kv` is split like heads until there is one head per rank, then copied."""

    sharded: int
    kv: int
    kv_heads: int
    replicated: int
    wide: int  # replicated and kept in bf16 when the rest is quantised

    @property
    def total(self) -> int:
        return self.sharded + self.kv + self.replicated + self.wide

    def on_rank(self, tp: int) -> float:
        """Parameters on one of `tp` ranks, `wide` ones left out."""
        return self.sharded / tp + self.kv / min(tp, self.kv_heads) + self.replicated


def attention_parameters(attention: Attention | None, hidden: int) -> AttentionParameters:
    """Counts of one attention layer, from the projections of its family."""
    if attention is None:
        return AttentionParameters(0, 0, 1, 0, 0)
    if isinstance(attention, Gqa):
        queries = hidden * attention.heads * attention.qk_dim * (2 if attention.gated else 1)
        keys = hidden * attention.kv_heads * (attention.qk_dim + (0 if attention.shared_kv else attention.v_dim))
        out = attention.heads * attention.v_dim * hidden
        index = attention.indexer.parameters if attention.indexer else 0
        return AttentionParameters(queries + out, keys, attention.kv_heads, index, 0)
    if isinstance(attention, Mla):
        return _mla(attention, hidden)
    if isinstance(attention, Compressed):
        return _compressed(attention, hidden)
    return AttentionParameters(attention.sharded, 0, 1, attention.replicated, 0)


def _mla(attention: Mla, hidden: int) -> AttentionParameters:
    """Down-projections are replicated, everything per head is split."""
    width = attention.heads * (attention.nope + attention.rope)
    out = attention.heads * attention.v_dim * hidden * (2 if attention.gated else 1)
    up = attention.kv_lora * attention.heads * (attention.nope + attention.v_dim)
    down = hidden * (attention.kv_lora + attention.rope) + (hidden * attention.q_lora if attention.q_lora else 0)
    queries = (attention.q_lora or hidden) * width
    index, wide = (attention.indexer.parameters, attention.indexer.wide) if attention.indexer else (0, 0)
    return AttentionParameters(queries + up + out, 0, 1, down + index, wide)


def _compressed(attention: Compressed, hidden: int) -> AttentionParameters:
    """Queries through a latent, output through grouped low-rank projections; one latent is key and value."""
    width = attention.heads * attention.head_dim
    sharded = attention.q_lora * width + width * attention.o_lora + attention.o_groups * attention.o_lora * hidden
    replicated = hidden * attention.q_lora + hidden * attention.head_dim
    # A compressor has a value and a gate projection, each doubled where windows overlap, and a position bias.
    compressor = 0
    if attention.ratio:
        streams = 2 if attention.overlapping else 1
        compressor = 2 * streams * attention.head_dim * (hidden + attention.ratio)
    index, wide = (attention.indexer.parameters, attention.indexer.wide) if attention.indexer else (0, 0)
    return AttentionParameters(sharded, 0, 1, replicated + index, compressor + wide)


def dense_parameters(ffn: Dense | Experts | None, hidden: int) -> int:
    """The plain feed-forward part of a layer (also the one beside experts), without shared experts."""
    if isinstance(ffn, Dense):
        return ffn.matrices * hidden * ffn.inter
    return 3 * hidden * ffn.dense_inter if isinstance(ffn, Experts) else 0


def shared_parameters(ffn: Dense | Experts | None, hidden: int) -> int:
    """All shared experts of a layer."""
    return ffn.shared_matrices * hidden * ffn.shared if isinstance(ffn, Experts) else 0


def expert_parameters(ffn: Experts, hidden: int) -> int:
    """One routed expert."""
    return ffn.matrices * (ffn.latent or hidden) * ffn.inter


def latent_parameters(ffn: Dense | Experts | None, hidden: int) -> int:
    """The projections into and out of the experts' latent space."""
    return 2 * hidden * ffn.latent if isinstance(ffn, Experts) and ffn.latent else 0


def router_parameters(ffn: Dense | Experts | None, hidden: int) -> int:
    return hidden * ffn.count if isinstance(ffn, Experts) else 0


def hyper_parameters(arch: ModelArch) -> int:
    """Hyper-connection mixers of one layer: before attention and before the feed-forward part, each from all residual
    streams to 2n + n^2 coefficients (DeepSeek-V4)."""
    n = arch.hyper
    return 2 * n * arch.hidden * n * (2 + n)


def total_parameters(arch: ModelArch) -> int:
    """All parameters of the model without its multi-token-prediction modules."""
    embed = arch.vocab * arch.hidden * (1 if arch.tied else 2)
    return embed + sum(block.count * _layer(arch, block.attention, block.ffn) for block in arch.blocks)


def active_parameters(arch: ModelArch) -> int:
    """Parameters that take part in one token, without the input embedding (a look-up)."""
    total = arch.vocab * arch.hidden
    for block in arch.blocks:
        total += block.count * _layer(arch, block.attention, block.ffn)
        if isinstance(block.ffn, Experts):
            idle = block.ffn.count - block.ffn.top_k
            total -= block.count * idle * expert_parameters(block.ffn, arch.hidden)
    return total


def _layer(arch: ModelArch, attention: Attention | None, ffn: Dense | Experts | None) -> int:
    hidden = arch.hidden
    routed = ffn.count * expert_parameters(ffn, hidden) if isinstance(ffn, Experts) else 0
    parts = (shared_parameters, dense_parameters, latent_parameters, router_parameters)
    return attention_parameters(attention, hidden).total + routed + sum(part(ffn, hidden) for part in parts)
