"""From a model and its layout to the KV layers of one rank (vLLM's KV specs)."""

from __future__ import annotations

from ridgeline.core.topology import Topology
from ridgeline.engine.kv import CHUNK, FULL, STATE, WINDOW, KvLayer
from ridgeline.spec.facts.model import Attention, Block, Compressed, Gqa, Mla, ModelArch, Recurrent

# DeepSeek-V4 rows of 512 values: 448 fp8 + 64 bf16 rope + 8 scale bytes; plain fp8; bf16. (bytes of a row, alignment)
ROWS = {"packed": (584, 576), "plain": (512, 512), "bf16": (1024, 512)}
FP32 = 4


def kv_layers(
    arch: ModelArch,
    topology: Topology,
    *,
    block: int = 16,
    fp8: bool = False,
    mtp: bool = False,
    rows: str = "packed",
    state_extra: int = 0,
) -> list[KvLayer]:
    """The KV layers of the fullest pipeline stage on one rank.

    Tensor parallelism splits heads down to one per rank and never a latent; data-parallel ranks hold whole pools of
    their own; context parallelism, of decoding and of prefills, splits the tokens of full history. `rows`: how the
    attention backend stores DeepSeek-V4's latents (see ROWS). `state_extra`: further recurrent states a request holds.
    """
    layers: list[KvLayer] = []
    for item in arch.blocks + (arch.mtp if mtp else ()):
        count = -(-item.count // topology.pp)
        found = _compressed(item.attention, count, rows) if isinstance(item.attention, Compressed) else None
        found = found or _layers(item, count, topology, block, fp8, state_extra)
        layers += [layer for layer in found if layer.row_bytes]
    return layers


def _layers(item: Block, count: int, topology: Topology, block: int, fp8: bool, state_extra: int) -> list[KvLayer]:
    attention, element = item.attention, 1 if fp8 else 2
    if isinstance(attention, Gqa):
        heads = max(1, attention.kv_heads // topology.attention_tp)
        row = heads * (attention.qk_dim + attention.v_dim) * element
        window = attention.window or 0
        kind = FULL if not window else CHUNK if attention.chunked else WINDOW
        shards = topology.dcp * topology.pcp if kind == FULL else 1
        own = [KvLayer(count, kind, row, block, window=window, shards=shards)]
        return own + _index(attention, count, block, topology)
    if isinstance(attention, Mla):
        sparse = fp8 and attention.topk is not None
        row = 656 if sparse else (attention.kv_lora + attention.rope) * element  # fp8_ds_mla: 512 fp8 + 16 scale + 128
        layer = KvLayer(count, FULL, row, block, latent=True, shards=topology.dcp * topology.pcp)
        return [layer, *_index(attention, count, block, topology)]
    if isinstance(attention, Recurrent):
        elements = attention.state * FP32 + attention.conv_state * 2
        return [KvLayer(count, STATE, -(-elements // topology.attention_tp), block, extra=state_extra)]
    return []


def _index(attention: Attention, count: int, block: int, topology: Topology) -> list[KvLayer]:
    indexer = getattr(attention, "indexer", None)
    if indexer is None:
        return []
    ratio, shards = indexer.ratio, topology.dcp * topology.pcp
    return [KvLayer(count, FULL, indexer.key_bytes, block, ratio=ratio, latent=True, shards=shards)]


def _compressed(attention: Compressed, count: int, rows: str) -> list[KvLayer]:
    """DeepSeek-V4: window rows on every layer; compressed rows and the compressor's running state where there is a
    ratio; index keys and their compressor's state where entries are indexed. Blocks are the model's own."""
    row, align = ROWS[rows]
    layers = [KvLayer(count, WINDOW, row, 64, align=align, window=attention.window, latent=True)]
    if not attention.ratio:
        return layers
    layers.append(KvLayer(count, FULL, row, 256, ratio=attention.ratio, align=align, latent=True))
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
