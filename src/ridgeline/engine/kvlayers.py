"""From a model and its layout to the KV layers of one rank (vLLM's KV specs)."""

from __future__ import annotations

from ridgeline.core.topology import Topology
from ridgeline.engine.kv import CHUNK, FULL, STATE, WINDOW, KvLayer
from ridgeline.spec.facts.model import Attention, Block, Compressed, Gqa, Mla, ModelArch, Recurrent

_LATENT_ROW = 584  # DeepSeek-V4 row: 448 fp8 + 64 bf16 rope + 8 scale bytes
_LATENT_ALIGN = 576
FP32 = 4


def kv_layers(
    arch: ModelArch, topology: Topology, *, block: int = 16, fp8: bool = False, mtp: bool = False
) -> list[KvLayer]:
    """The KV layers of the fullest pipeline stage on one rank.

    Tensor parallelism splits heads down to one per rank and never a latent; data-parallel ranks hold whole pools of
    their own; decode-context parallelism splits tokens, which here divides the bytes of full-history rows.
    """
    layers: list[KvLayer] = []
    for item in arch.blocks + (arch.mtp if mtp else ()):
        count = -(-item.count // topology.pp)
        layers += [layer for layer in _layers(item, count, topology, block, fp8) if layer.row_bytes]
    return layers


def _layers(item: Block, count: int, topology: Topology, block: int, fp8: bool) -> list[KvLayer]:
    attention, element = item.attention, 1 if fp8 else 2
    if isinstance(attention, Gqa):
        heads = max(1, attention.kv_heads // topology.attention_tp)
        row = heads * (attention.qk_dim + attention.v_dim) * element
        window = attention.window or 0
        kind = FULL if not window else CHUNK if attention.chunked else WINDOW
        own = [KvLayer(count, kind, _shared(row, kind, topology), block, window=window)]
        return own + _index(attention, count, block, topology)
    if isinstance(attention, Mla):
        sparse = fp8 and attention.topk is not None
        row = 656 if sparse else (attention.kv_lora + attention.rope) * element  # fp8_ds_mla: 512 fp8 + 16 scale + 128
        layer = KvLayer(count, FULL, _shared(row, FULL, topology), block, latent=True)
        return [layer, *_index(attention, count, block, topology)]
    if isinstance(attention, Compressed):
        return _compressed(attention, count)
    if isinstance(attention, Recurrent):
        elements = attention.state * FP32 + attention.conv_state * 2
        return [KvLayer(count, STATE, -(-elements // topology.attention_tp), block)]
    return []


def _shared(row: int, kind: str, topology: Topology) -> int:
    return -(-row // topology.dcp) if kind == FULL else row


def _index(attention: Attention, count: int, block: int, topology: Topology) -> list[KvLayer]:
    indexer = getattr(attention, "indexer", None)
    if indexer is None:
        return []
    return [KvLayer(count, FULL, _shared(indexer.key_bytes, FULL, topology), block, ratio=indexer.ratio, latent=True)]


def _compressed(attention: Compressed, count: int) -> list[KvLayer]:
    """DeepSeek-V4: window rows on every layer; compressed rows and the compressor's running state where there is a
    ratio; index keys and their compressor's state where entries are indexed. Blocks are the model's own."""
    align = _LATENT_ALIGN
    layers = [KvLayer(count, WINDOW, _LATENT_ROW, 64, align=align, window=attention.window, latent=True)]
    if not attention.ratio:
        return layers
    layers.append(KvLayer(count, FULL, _LATENT_ROW, 256, ratio=attention.ratio, align=align, latent=True))
    # Two fp32 values (value and gate) per channel, doubled where compressor windows overlap.
    streams = 2 if attention.overlapping else 1
    state_block, window = (4, 2 * attention.ratio) if attention.overlapping else (8, attention.ratio)
    state = 2 * streams * attention.head_dim * FP32
    layers.append(KvLayer(count, WINDOW, state, state_block, align=align, window=window, latent=True))
    if attention.indexer:
        key = attention.indexer
        layers.append(KvLayer(count, FULL, key.key_bytes, 256, ratio=key.ratio, align=align, latent=True))
        own = 2 * streams * key.dim * FP32
        layers.append(KvLayer(count, WINDOW, own, state_block, align=align, window=window, latent=True))
    return layers
