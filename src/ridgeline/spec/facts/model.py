"""What a model is made of: blocks of layers, each an attention and a feed-forward part, as plain dimensions.

Counting parameters, bytes and operations from these is `engine/`'s work. A new family joins by composing these parts
(see families.py); a new kind of part joins here, with its counts in engine/parameters.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class Indexer:
    """A small scorer that picks which tokens (or blocks of them) sparse attention reads. Its keys are cached too."""

    heads: int
    dim: int
    parameters: int  # linear layers, replicated on every rank
    key_bytes: int  # bytes per stored key, scale included
    wide: int = 0  # further parameters that stay bf16 in quantised checkpoints
    ratio: int = 1  # tokens per stored key


@dataclass(frozen=True, slots=True)
class Gqa:
    """Grouped-query attention (multi-head when kv_heads == heads). `window`: reads only that many tokens back."""

    kind: ClassVar[str] = "gqa"
    heads: int
    kv_heads: int
    qk_dim: int
    v_dim: int
    window: int | None = None
    chunked: bool = False  # `window` is a chunk that restarts instead of sliding (Llama 4)
    gated: bool = False  # an output gate as wide as the queries
    shared_kv: bool = False  # keys serve as values in the weights: no value projection (the cache still holds both)
    topk: int | None = None  # tokens read per query when sparse
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: one cached latent of kv_lora + rope values per token, the same for all heads."""

    kind: ClassVar[str] = "mla"
    heads: int
    q_lora: int | None
    kv_lora: int
    nope: int
    rope: int
    v_dim: int
    gated: bool = False
    topk: int | None = None
    indexer: Indexer | None = None  # None with topk set: reuses another layer's choice


@dataclass(frozen=True, slots=True)
class Compressed:
    """DeepSeek-V4 attention: a sliding window on every layer plus one compressed entry per `ratio` tokens (0: none)."""

    kind: ClassVar[str] = "compressed"
    heads: int
    head_dim: int
    rope: int
    q_lora: int
    o_groups: int
    o_lora: int
    window: int
    ratio: int
    topk: int | None = None
    indexer: Indexer | None = None

    @property
    def overlapping(self) -> bool:
        """Compressor windows overlap (two value streams) where entries are dense enough to be indexed."""
        return self.indexer is not None


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Linear attention or a state-space mixer: a state per sequence instead of a cache that grows."""

    kind: ClassVar[str] = "recurrent"
    name: str  # "gdn" | "kda" | "mamba2"
    sharded: int  # parameters split over attention ranks
    replicated: int
    state: int  # state elements per sequence
    conv_state: int  # convolution state elements per sequence


@dataclass(frozen=True, slots=True)
class Dense:
    """A feed-forward part. `matrices`: 3 when gated (gate, up, down), 2 when not."""

    kind: ClassVar[str] = "dense"
    inter: int
    matrices: int = 3


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts. `shared`: intermediate width of all shared experts together; `latent`: experts work in a narrower
    space reached by two projections."""

    kind: ClassVar[str] = "experts"
    count: int
    top_k: int
    inter: int
    shared: int = 0
    latent: int | None = None
    matrices: int = 3
    shared_matrices: int = 3
    dense_inter: int = 0  # a dense part beside the experts in the same layer (Gemma 4)
    hash_routed: bool = False  # routed by a table over the vocabulary


Attention: TypeAlias = Gqa | Mla | Compressed | Recurrent
FeedForward: TypeAlias = Dense | Experts


@dataclass(frozen=True, slots=True)
class Block:
    """`count` equal layers. A part may be missing where a family alternates mixers and feed-forward layers."""

    count: int
    attention: Attention | None
    ffn: FeedForward | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArch:
    """A model. `mtp` holds the layers of one multi-token-prediction module; weights are counted with it."""

    name: str
    family: str
    hidden: int
    vocab: int
    max_len: int
    blocks: tuple[Block, ...]
    mtp: tuple[Block, ...] = ()
    tied: bool = False
    hyper: int = 0  # residual streams of hyper-connections
    experts_format: str = "bf16"  # as shipped: "bf16" | "fp8" | "mxfp4" | "nvfp4" | "int4"
    linear_format: str = "bf16"  # attention and dense linear layers, as shipped
    source: str = ""
    licence: str = ""

    @property
    def layers(self) -> int:
        return sum(block.count for block in self.blocks)

    @property
    def moe(self) -> bool:
        return any(isinstance(block.ffn, Experts) for block in self.blocks)
