"""KV layers from the engine's own words: the fields of vLLM's KV cache specs under their own names.

Each spec is a mapping with `kind` (the class name), `count`, `block_size`, `dtype` and the sizes of its kind. A given
`page_size_bytes` is what the engine counted and wins over our own formula.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.units import MOST, shown
from ridgeline.engine.kv import CHUNK, FULL, STATE, WINDOW, KvLayer

ELEMENT = {
    "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "fp8": 1, "float16": 2, "half": 2, "bfloat16": 2, "bf16": 2,
    "float32": 4, "fp32": 4,
}  # fmt: skip
KINDS = {
    "FullAttentionSpec": FULL,
    "MLAAttentionSpec": FULL,
    "CrossAttentionSpec": FULL,
    "SinkFullAttentionSpec": FULL,
    "SlidingWindowSpec": WINDOW,
    "SlidingWindowMLASpec": WINDOW,
    "ChunkedLocalAttentionSpec": CHUNK,
    "MambaSpec": STATE,
}
_NUMBERS = (
    "count", "block_size", "num_kv_heads", "head_size", "head_size_v", "page_size_bytes", "compress_ratio", "alignment",
    "sliding_window", "attention_chunk_size", "shapes_bytes",
)  # fmt: skip
_MOST = {"count": 100_000}  # layers: what looks for the best split of them takes time
# Bytes per (kv head, token) for `width` stored values, by the name of a narrow cache format.
_DS_MLA = {"deepseek_v4": 584}


def layer_of(spec: Mapping[str, Any], *, dcp: int = 1, mamba_mode: str = "none", where: str = "layers") -> KvLayer:
    """One layer of a pool. Raises InputError with every key that is missing or not understood."""
    if not isinstance(spec, Mapping):
        raise InputError([Problem(f"must be an object, is {spec!r}", key=where)])
    kind = KINDS.get(str(spec.get("kind")))
    problems = [
        Problem(f"must be an integer from 1 to {_MOST.get(key, MOST)}, is {shown(spec[key])}", key=f"{where}.{key}")
        for key in _NUMBERS
        if spec.get(key) is not None and not (type(spec[key]) is int and 0 < spec[key] <= _MOST.get(key, MOST))
    ]
    if kind is None:
        hint = f"one of {', '.join(KINDS)}"
        problems.append(Problem(f"`{spec.get('kind')}` is not a KV cache spec", key=f"{where}.kind", hint=hint))
    need = ["count", "block_size"]
    if kind is not None and spec.get("page_size_bytes") is None:
        need += ["shapes_bytes"] if kind == STATE else ["num_kv_heads", "head_size", "dtype"]
    window = kind in (WINDOW, CHUNK) and not (spec.get("sliding_window") or spec.get("attention_chunk_size"))
    problems += [Problem("is missing", key=f"{where}.sliding_window")] if window else []
    block, ratio = spec.get("block_size"), spec.get("compress_ratio") or 1
    if not problems and isinstance(block, int) and isinstance(ratio, int) and block % ratio:
        problems.append(Problem(f"must be a multiple of compress_ratio {ratio}", key=f"{where}.block_size"))
    problems += [Problem("is missing", key=f"{where}.{key}") for key in need if spec.get(key) is None]
    if "dtype" in spec and str(spec["dtype"]).removeprefix("torch.") not in ELEMENT:
        problems.append(Problem(f"`{spec['dtype']}` is not a known type", key=f"{where}.dtype"))
    if problems or kind is None:
        raise InputError(problems)
    if kind == STATE:
        return _state(spec, mamba_mode)
    layer = KvLayer(
        count=int(spec["count"]),
        kind=kind,
        row_bytes=_row(spec),
        block=int(spec["block_size"]),
        ratio=int(spec.get("compress_ratio") or 1),
        align=int(spec.get("alignment") or 1),
        window=int(spec.get("sliding_window") or spec.get("attention_chunk_size") or 0),
        latent="MLA" in str(spec["kind"]),
        shards=dcp if kind == FULL else 1,
    )
    return _counted(layer, spec.get("page_size_bytes"))


def _row(spec: Mapping[str, Any]) -> int:
    """Bytes of one stored row on this rank."""
    if None in (spec.get("num_kv_heads"), spec.get("head_size"), spec.get("dtype")):
        return 1
    heads, size = int(spec["num_kv_heads"]), int(spec["head_size"])
    element = ELEMENT[str(spec["dtype"]).removeprefix("torch.")]
    if spec.get("cache_dtype_str") == "fp8_ds_mla":
        return _DS_MLA.get(str(spec.get("model_version")), 656)
    if "MLA" in str(spec["kind"]):  # one latent serves as key and as value
        return heads * size * element
    value = int(spec.get("head_size_v") or size)
    mode = str(spec.get("kv_quant_mode") or "").lower()
    if "nvfp4" in mode:  # packed 4-bit values and an fp8 scale per 16
        return heads * (size // 2 + size // 16 + value // 2 + value // 16)
    if "int4" in mode:
        return heads * (size // 2 + value // 2 + 2 * 4)
    scales = 2 * 4 if "per_token_head" in mode else 0  # an fp32 scale for the key and one for the value
    return heads * ((size + value) * element + scales)


def _counted(layer: KvLayer, page: int | None) -> KvLayer:
    """The layer with the engine's own page size: as whole rows where it divides, else as a final alignment."""
    if page is None or layer.page == page:
        return layer
    rows = layer.block // layer.ratio
    if rows and page % rows == 0:
        return replace(layer, row_bytes=page // rows, align=1)
    return replace(layer, row_bytes=min(layer.row_bytes, page // max(1, rows)) or 1, align=page)


def _state(spec: Mapping[str, Any], mode: str) -> KvLayer:
    """A recurrent state: one a request and one a draft token; one more in "align" mode; one a block in "all" mode."""
    size = int(spec.get("page_size_bytes") or spec["shapes_bytes"])
    own = str(spec.get("mamba_cache_mode") or mode)
    drafts = int(spec.get("num_speculative_blocks") or 0)
    return KvLayer(
        int(spec["count"]), STATE, size, int(spec["block_size"]),
        extra=drafts + (own == "align"), per_block=own == "all",
    )  # fmt: skip
