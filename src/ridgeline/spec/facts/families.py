"""Hugging Face `config.json` to `ModelArch`, one function per family of `model_type`s.

Sources: the families' own modelling code as published with the models, checked against published parameter counts.
Vision and audio towers are left out: they take no part in text serving except a constant share of memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.spec.facts.formats import shipped_formats
from ridgeline.spec.facts.model import (
    Attention,
    Block,
    Compressed,
    Dense,
    Experts,
    FeedForward,
    Gqa,
    Indexer,
    Mla,
    ModelArch,
    Recurrent,
)
from ridgeline.spec.facts.reading import Reader

Layer = tuple[Attention | None, FeedForward | None]
Layers = tuple[list[Layer], list[Layer]]  # the model's own, and those of one multi-token-prediction module


def arch_from(config: Mapping[str, Any], *, name: str, file: str, source: str = "", licence: str = "") -> ModelArch:
    """A `ModelArch` from a parsed `config.json`. Raises InputError for an unknown family or missing keys."""
    text = next((config[key] for key in ("text_config", "llm_config") if isinstance(config.get(key), Mapping)), config)
    family = str(text.get("model_type") or config.get("model_type") or "")
    build = FAMILIES.get(family) or FAMILIES.get(str(config.get("model_type")))
    if build is None:
        known = ", ".join(sorted(FAMILIES))
        raise InputError(
            [Problem(f"family `{family}` is not understood", Where(file), "model_type", f"known: {known}")]
        )
    reader = Reader(text, file)
    layers, mtp = build(reader)
    if not layers:
        reader.refuse("has no layers that are understood", "layer_types")
    formats = shipped_formats(config, text, name, any(isinstance(ffn, Experts) for _, ffn in layers))
    arch = ModelArch(
        name=name,
        family=family,
        hidden=reader.integer("hidden_size"),
        vocab=reader.integer("vocab_size"),
        max_len=reader.integer("max_position_embeddings"),
        blocks=_grouped(layers),
        mtp=_grouped(mtp),
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        hyper=reader.count("hc_mult"),
        experts_format=formats.experts,
        linear_format=formats.linear,
        source=source,
        licence=licence,
    )
    reader.done()
    return arch


def _grouped(layers: Iterable[Layer]) -> tuple[Block, ...]:
    return tuple(Block(count, *layer) for layer, count in Counter(layers).items())


def _gqa(r: Reader, **more: Any) -> Gqa:
    heads = r.integer("num_attention_heads")
    dim = r.optional("head_dim", "attention_head_dim") or r.integer("hidden_size") // heads
    facts = {
        "kv_heads": r.optional("num_key_value_heads") or heads,
        "qk_dim": dim,
        "v_dim": r.optional("v_head_dim") or dim,
    }
    return Gqa(heads=heads, **{**facts, **more})


def _window(r: Reader) -> int | None:
    return r.optional("sliding_window") if r.get("use_sliding_window") is not False else None


def _experts(r: Reader, **more: Any) -> Experts:
    inter = r.integer("moe_intermediate_size", "intermediate_size")
    facts = {
        "count": r.integer("n_routed_experts", "num_experts", "num_local_experts"),
        "top_k": r.integer("num_experts_per_tok", "num_experts_per_token", "top_k_experts"),
        "inter": inter,
        "shared": r.count("n_shared_experts", "num_shared_experts") * inter,
    }
    return Experts(**{**facts, **more})


def _leading_dense(r: Reader, attention: Attention, experts: Experts, dense: Dense) -> list[Layer]:
    first = r.count("first_k_dense_replace")
    return [(attention, dense if index < first else experts) for index in range(r.integer("num_hidden_layers"))]


def _plain(r: Reader) -> Layers:
    """Llama, Qwen3, Mixtral, MiniMax-M2 and their like: equal layers, dense or routed."""
    layers, attention = r.integer("num_hidden_layers"), _gqa(r, window=_window(r))
    if not r.get("num_experts", "num_local_experts"):
        dense = (attention, Dense(r.integer("intermediate_size")))
        return [dense] * layers, [dense] * min(1, r.count("num_nextn_predict_layers"))
    experts, only_dense = _experts(r), set(r.get("mlp_only_layers") or ())
    step = r.optional("decoder_sparse_step") or 1
    routed = [index not in only_dense and (index + 1) % step == 0 for index in range(layers)]
    return [(attention, experts if is_routed else Dense(r.integer("intermediate_size"))) for is_routed in routed], []


def _gpt_oss(r: Reader) -> Layers:
    experts, window = _experts(r), r.integer("sliding_window")
    kinds = r.get("layer_types") or []
    layers = [(_gqa(r, window=window if kind == "sliding_attention" else None), experts) for kind in kinds]
    if len(layers) != r.integer("num_hidden_layers"):
        r.refuse(f"must name every layer's kind, has {len(layers)}", "layer_types")
    return list(layers), []


def _mla(r: Reader, **more: Any) -> Mla:
    return Mla(
        heads=r.integer("num_attention_heads"),
        q_lora=r.optional("q_lora_rank"),
        kv_lora=r.integer("kv_lora_rank"),
        nope=r.integer("qk_nope_head_dim"),
        rope=r.integer("qk_rope_head_dim"),
        v_dim=r.integer("v_head_dim"),
        **more,
    )


def _indexer(r: Reader) -> Indexer:
    """DeepSeek's: queries from the q latent, one key head, one weight per head. fp8 keys with a 4-byte scale."""
    heads, dim, hidden = r.integer("index_n_heads"), r.integer("index_head_dim"), r.integer("hidden_size")
    queries = r.integer("q_lora_rank") * heads * dim
    return Indexer(heads, dim, queries + hidden * dim, dim + 4, hidden * heads)


def _deepseek(r: Reader) -> Layers:
    """DeepSeek V3, R1, V3.2, Kimi K2 and GLM-5: MLA, leading dense layers, one MTP layer, sparse when indexed."""
    topk = r.optional("index_topk")
    full = _mla(r, topk=topk, indexer=_indexer(r) if topk else None)
    shares = _mla(r, topk=topk)
    experts, dense = _experts(r), Dense(r.integer("intermediate_size"))
    layers = _leading_dense(r, full, experts, dense)
    kinds = r.get("indexer_types")
    if isinstance(kinds, list) and topk:
        layers = [(shares if kind == "shared" else full, ffn) for kind, (_, ffn) in zip(kinds, layers, strict=False)]
    return layers, [(full, experts)] * min(1, r.count("num_nextn_predict_layers"))


def _deepseek_v4(r: Reader) -> Layers:
    ratios = r.get("compress_ratios") or []
    layers, hidden, dim = r.integer("num_hidden_layers"), r.integer("hidden_size"), r.integer("head_dim")
    if len(ratios) < layers:
        r.refuse(f"must give a ratio per layer, has {len(ratios)}", "compress_ratios")
    index_heads, index_dim = r.integer("index_n_heads"), r.integer("index_head_dim")

    def attention(ratio: int) -> Compressed:
        dense_entries = 0 < ratio <= 4  # only these are too many to read all, hence indexed
        # The indexer has a compressor of its own (two overlapping streams, value and gate).
        queries = r.integer("q_lora_rank") * index_heads * index_dim
        wide = hidden * index_heads + 4 * hidden * index_dim
        indexer = Indexer(index_heads, index_dim, queries, index_dim + 4, wide, ratio) if dense_entries else None
        return Compressed(
            heads=r.integer("num_attention_heads"),
            head_dim=dim,
            rope=r.integer("qk_rope_head_dim"),
            q_lora=r.integer("q_lora_rank"),
            o_groups=r.integer("o_groups"),
            o_lora=r.integer("o_lora_rank"),
            window=r.integer("sliding_window"),
            ratio=ratio,
            topk=r.integer("index_topk") if dense_entries else None,
            indexer=indexer,
        )

    hashed = r.count("num_hash_layers")
    own_layers = [
        (attention(ratio), _experts(r, hash_routed=index < hashed)) for index, ratio in enumerate(ratios[:layers])
    ]
    modules = min(1, r.count("num_nextn_predict_layers"))
    return list(own_layers), [(attention(ratio), _experts(r)) for ratio in ratios[layers : layers + modules]]


def _minimax_m3(r: Reader) -> Layers:
    sparse = r.get("sparse_attention_config") or {}
    own = Reader(sparse, r.file)
    heads, dim = own.integer("sparse_num_index_heads"), own.integer("sparse_index_dim")
    topk = own.integer("sparse_topk_blocks") * own.integer("sparse_block_size")
    r.problems += own.problems
    indexer = Indexer(heads, dim, r.integer("hidden_size") * (heads + 1) * dim, 2 * dim)
    routed = r.get("moe_layer_freq") or []
    is_sparse = sparse.get("sparse_attention_freq") or sparse.get("sparse_disable_index_value") or routed
    experts = _experts(r, shared=r.count("shared_intermediate_size"))
    dense = Dense(r.integer("dense_intermediate_size"))
    pick = {True: _gqa(r, topk=topk, indexer=indexer), False: _gqa(r)}
    layers = [(pick[bool(s)], experts if e else dense) for s, e in zip(is_sparse, routed, strict=True)]
    return list(layers), []


def _qwen3_5(r: Reader) -> Layers:
    """Three gated-delta-net layers for each full-attention layer with an output gate."""
    hidden, values = r.integer("hidden_size"), r.integer("linear_num_value_heads")
    keys, values_dim = r.integer("linear_num_key_heads"), r.integer("linear_value_head_dim")
    key_width, value_width = keys * r.integer("linear_key_head_dim"), values * values_dim
    # Projections q, k, v, output gate z, per-head decay and step, and out.
    sharded = hidden * (2 * key_width + 3 * value_width + 2 * values)
    conv = (r.integer("linear_conv_kernel_dim") - 1) * (2 * key_width + value_width)
    linear = Recurrent("gdn", sharded, 0, values * r.integer("linear_key_head_dim") * values_dim, conv)
    full = _gqa(r, gated=bool(r.get("attn_output_gate")))
    shared = r.count("shared_expert_intermediate_size")
    ffn = _experts(r, shared=shared) if r.get("num_experts") else Dense(r.integer("intermediate_size"))
    kinds = r.get("layer_types") or []
    layers: list[Layer] = [(full if kind == "full_attention" else linear, ffn) for kind in kinds]
    if len(layers) != r.integer("num_hidden_layers"):
        r.refuse(f"must name every layer's kind, has {len(layers)}", "layer_types")
    return layers, [(full, ffn)] * min(1, r.count("mtp_num_hidden_layers"))


def _kimi_linear(r: Reader) -> Layers:
    """Kimi K3: delta attention with full-rank gates, MLA on every fourth layer, experts in a latent space."""
    own = Reader(r.get("linear_attn_config") or {}, r.file)
    heads, dim = own.integer("num_heads"), own.integer("head_dim")
    hidden, width = r.integer("hidden_size"), heads * dim
    # q, k, v, out, output gate and decay, all full rank, and a step per head.
    conv = 3 * width * (own.integer("short_conv_kernel_size") - 1)
    linear = Recurrent("kda", 6 * hidden * width + hidden * heads, 0, heads * dim * dim, conv)
    full_layers = set(own.get("full_attn_layers") or ())
    r.problems += own.problems
    full = _mla(r, gated=bool(r.get("mla_use_output_gate")))
    experts = _experts(r, latent=r.optional("routed_expert_hidden_size"))
    layers = _leading_dense(r, full, experts, Dense(r.integer("intermediate_size")))
    return [(full if index + 1 in full_layers else linear, ffn) for index, (_, ffn) in enumerate(layers)], []


def _llama4(r: Reader) -> Layers:
    """Three layers of four read a chunk only; routed layers come every `interleave_moe_layer_step`-th."""
    shared = r.integer("intermediate_size")
    experts = _experts(r, inter=shared, shared=shared)
    dense, step = Dense(r.integer("intermediate_size_mlp")), r.integer("interleave_moe_layer_step")
    full, local = _gqa(r), _gqa(r, window=r.integer("attention_chunk_size"), chunked=True)
    count = r.integer("num_hidden_layers")
    picks = [(full if (i + 1) % 4 == 0 else local, experts if (i + 1) % step == 0 else dense) for i in range(count)]
    return list(picks), []


def _gemma4(r: Reader) -> Layers:
    """Sliding layers and wider full ones whose keys serve as values; experts beside a dense part."""
    window, wide = r.integer("sliding_window"), r.integer("global_head_dim")
    same = bool(r.get("attention_k_eq_v"))
    heads = r.optional("num_global_key_value_heads") or r.integer("num_key_value_heads")
    full = _gqa(r, kv_heads=heads, qk_dim=wide, v_dim=wide, shared_kv=same)
    local, dense = _gqa(r, window=window), r.integer("intermediate_size")
    ffn = _experts(r, shared=0, dense_inter=dense) if r.get("enable_moe_block") else Dense(dense)
    kinds = r.get("layer_types") or []
    return [(full if kind == "full_attention" else local, ffn) for kind in kinds], []


def _mimo_v2(r: Reader) -> Layers:
    full = _gqa(r)
    local = _gqa(
        r,
        kv_heads=r.integer("swa_num_key_value_heads"),
        qk_dim=r.integer("swa_head_dim"),
        v_dim=r.integer("swa_v_head_dim"),
        window=r.integer("sliding_window"),
    )
    experts, dense = _experts(r), Dense(r.integer("intermediate_size"))
    pattern, routed = r.get("hybrid_layer_pattern") or [], r.get("moe_layer_freq") or []
    layers = [(local if s else full, experts if e else dense) for s, e in zip(pattern, routed, strict=True)]
    return list(layers), []


def _step3p7(r: Reader) -> Layers:
    full, local = _gqa(r), _gqa(r, window=r.integer("sliding_window"))
    experts = _experts(r, shared=r.count("share_expert_dim"))
    layers = _leading_dense(r, full, experts, Dense(r.integer("intermediate_size")))
    kinds = r.get("layer_types") or []
    mixed = [
        (local if kind == "sliding_attention" else full, ffn) for kind, (_, ffn) in zip(kinds, layers, strict=False)
    ]
    return list(mixed), [(full, experts)] * min(1, r.count("num_nextn_predict_layers"))


def _nemotron_nas(r: Reader) -> Layers:
    """Layers of a searched network: each keeps, thins or drops its attention and its feed-forward part."""
    hidden, heads, found = r.integer("hidden_size"), r.integer("num_attention_heads"), []
    for index, item in enumerate(r.get("block_configs") or []):
        attention, ffn = item.get("attention") or {}, item.get("ffn") or {}
        if attention.get("replace_with_linear") or ffn.get("replace_with_linear") or attention.get("window_length"):
            r.refuse(f"layer {index} has a part that is not understood", "block_configs")
        group = attention.get("n_heads_in_group")
        keep = None if attention.get("no_op") or not group else _gqa(r, kv_heads=heads // group)
        width = None if ffn.get("no_op") else int(2 * ffn.get("ffn_mult", 0) * hidden / 3)
        found.append((keep, Dense(-(-width // 256) * 256) if width else None))
    if len(found) != r.integer("num_hidden_layers"):
        r.refuse(f"must describe every layer, has {len(found)}", "block_configs")
    return list(found), []


def _nemotron_h(r: Reader) -> Layers:
    """Mamba-2 mixers, attention and feed-forward parts as layers of their own, in the order of a pattern."""
    hidden, heads, groups = r.integer("hidden_size"), r.integer("mamba_num_heads"), r.integer("n_groups")
    inner, states = heads * r.integer("mamba_head_dim"), groups * r.integer("ssm_state_size")
    conv = (r.integer("conv_kernel") - 1) * (inner + 2 * states)
    parameters = hidden * (2 * inner + 2 * states + heads) + inner * hidden
    mixer = Recurrent("mamba2", parameters, 0, inner * r.integer("ssm_state_size"), conv)
    shared = r.count("moe_shared_expert_intermediate_size") * r.count("n_shared_experts")
    parts: dict[str, Layer] = {"M": (mixer, None), "*": (_gqa(r), None)}
    if "-" in (pattern := _pattern(r, "hybrid_override_pattern", "layers_block_type")):
        parts["-"] = (None, Dense(r.integer("intermediate_size"), matrices=2))
    if "E" in pattern:
        latent = r.optional("moe_latent_size")
        parts["E"] = (None, _experts(r, shared=shared, latent=latent, matrices=2, shared_matrices=2))
    if unknown := set(pattern) - set(parts):
        r.refuse(f"has layer kinds that are not understood: {sorted(unknown)}", "hybrid_override_pattern")
    mtp = (
        _pattern(r, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
        if r.count("num_nextn_predict_layers")
        else ""
    )
    return [parts[kind] for kind in pattern if kind in parts], [parts[kind] for kind in mtp if kind in parts]


def _pattern(r: Reader, text: str, names: str) -> str:
    """The order of layers as one letter each; newer configs spell the kinds out in a list."""
    letters = {"mamba": "M", "moe": "E", "attention": "*", "mlp": "-"}
    spelled = r.get(names)
    return (
        "".join(letters.get(str(name), "?") for name in spelled)
        if isinstance(spelled, list)
        else str(r.get(text) or "")
    )


FAMILIES: dict[str, Callable[[Reader], Layers]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "mimo", "minimax_m2"), _plain),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_text", "qwen3_vl_moe", "qwen3_vl_moe_text"), _plain),
    **dict.fromkeys(("deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_k25", "glm_moe_dsa"), _deepseek),
    **dict.fromkeys(("deepseek_v4", "deepseek_ref"), _deepseek_v4),
    **dict.fromkeys(("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), _qwen3_5),
    **dict.fromkeys(("minimax_m3", "minimax_m3_vl"), _minimax_m3),
    **dict.fromkeys(("llama4", "llama4_text"), _llama4),
    **dict.fromkeys(("gemma4", "gemma4_text"), _gemma4),
    "gpt_oss": _gpt_oss,
    "kimi_linear": _kimi_linear,
    "mimo_v2_flash": _mimo_v2,
    "step3p7": _step3p7,
    "nemotron_h": _nemotron_h,
    "nemotron-nas": _nemotron_nas,
}
