import json

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.engine.parameters import active_parameters, total_parameters
from ridgeline.spec.facts.families import arch_from
from ridgeline.spec.facts.library import load_model
from ridgeline.spec.facts.model import Block, Dense, Experts, Gqa, Mla, ModelArch

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "vocab_size": 100, "max_position_embeddings": 512, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 256, "tie_word_embeddings": True,
}  # fmt: skip


def read(config: dict) -> ModelArch:
    return arch_from(config, name="m", file="config.json")


def test_a_dense_model() -> None:
    arch = read(LLAMA)
    assert arch.blocks == (Block(3, Gqa(8, 2, 8, 8), Dense(256)),)
    assert arch.tied
    # q and o: 2 x 64 x 64, k and v: 2 x 64 x 16, feed-forward: 3 x 64 x 256, one table of 100 x 64
    assert total_parameters(arch) == 3 * (8192 + 2048 + 49152) + 6400


def test_a_head_size_of_its_own_and_a_window() -> None:
    arch = read({**LLAMA, "head_dim": 32, "sliding_window": 128})
    assert arch.blocks[0].attention == Gqa(8, 2, 32, 32, window=128)
    assert read({**LLAMA, "sliding_window": 128, "use_sliding_window": False}).blocks[0].attention == Gqa(8, 2, 8, 8)


def test_experts_with_leading_dense_layers_and_an_mtp_module() -> None:
    config = {
        "model_type": "deepseek_v3", "hidden_size": 64, "vocab_size": 10, "max_position_embeddings": 99,
        "num_hidden_layers": 4, "num_attention_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4, "v_head_dim": 8, "intermediate_size": 128, "moe_intermediate_size": 32,
        "n_routed_experts": 16, "num_experts_per_tok": 2, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 1,
        "quantization_config": {"quant_method": "fp8"},
    }  # fmt: skip
    arch = read(config)
    mla, experts = Mla(4, 16, 8, 8, 4, 8), Experts(16, 2, 32, shared=64)
    assert arch.blocks == (Block(1, mla, Dense(128)), Block(3, mla, experts))
    assert arch.mtp == (Block(1, mla, experts),)
    assert (arch.experts_format, arch.linear_format) == ("fp8", "fp8")


def test_a_text_model_inside_a_multimodal_one() -> None:
    config = {"model_type": "qwen3_vl", "text_config": {**LLAMA, "model_type": "qwen3_vl_text"}}
    assert read(config).blocks == read(LLAMA).blocks


def test_an_unknown_family_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"family `mystery` is not understood[\s\S]*llama"):
        read({"model_type": "mystery"})


def test_all_missing_keys_are_named_at_once() -> None:
    with pytest.raises(InputError) as raised:
        read({"model_type": "llama", "num_hidden_layers": "three"})
    keys = {problem.key for problem in raised.value.problems}
    assert {"hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"} <= keys


def test_a_hybrid_without_its_layer_kinds_is_refused() -> None:
    with pytest.raises(InputError, match="layer_types"):
        read({**LLAMA, "model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8})


def test_known_parameter_counts() -> None:
    facts = json.loads(golden("data/model_facts.json").read_text())
    for name, known in facts.items():
        arch = load_model(golden(f"data/model_configs/{name}.json"))
        assert total_parameters(arch) == pytest.approx(known["params_total"], rel=2e-5), name
        assert active_parameters(arch) == pytest.approx(known["params_active"], rel=3e-4), name


def test_real_configs_are_understood_or_refused_by_name() -> None:
    refused = {}
    paths = sorted(golden("data/model_configs").glob("*.json"))
    for path in paths:
        try:
            arch = load_model(path)
        except InputError as error:
            refused[path.stem] = str(error)
            continue
        assert arch.layers > 0
        assert total_parameters(arch) > active_parameters(arch) * 0.99 > 0
    assert len(paths) - len(refused) >= 87
    assert all("is not understood" in message for message in refused.values())


def test_a_searched_network_keeps_some_parts_of_each_layer() -> None:
    block = {"attention": {"n_heads_in_group": 4, "no_op": False}, "ffn": {"ffn_mult": 2.0, "no_op": False}}
    dropped = {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"ffn_mult": 2.0, "no_op": False}}
    config = {**LLAMA, "model_type": "nemotron-nas", "block_configs": [block, dropped, block]}
    width = -(-int(2 * 2.0 * 64 / 3) // 256) * 256
    assert read(config).blocks == (Block(2, Gqa(8, 2, 8, 8), Dense(width)), Block(1, None, Dense(width)))
    linear = {**block, "ffn": {"ffn_mult": 1.0, "replace_with_linear": True}}
    with pytest.raises(InputError, match="layer 1 has a part"):
        read({**config, "block_configs": [block, linear, block]})


@pytest.mark.parametrize(
    ("name", "experts", "linear"),
    [
        ("deepseek-ai__DeepSeek-V4-Pro", "mxfp4", "fp8"),
        ("openai__gpt-oss-120b", "mxfp4", "bf16"),
        ("moonshotai__Kimi-K2.5", "int4", "bf16"),
        ("nvidia__GLM-5.2-NVFP4", "nvfp4", "bf16"),
        ("Qwen__Qwen3-32B-FP8", "fp8", "fp8"),
        ("Qwen__Qwen3-8B", "bf16", "bf16"),
        ("nvidia__DeepSeek-V3.2-NVFP4", "nvfp4", "bf16"),
        ("nvidia__Llama-3.1-70B-Instruct-FP8", "fp8", "fp8"),
    ],
)
def test_formats_as_shipped(name: str, experts: str, linear: str) -> None:
    arch = load_model(golden(f"data/model_configs/{name}.json"))
    assert (arch.experts_format, arch.linear_format) == (experts, linear)


# Parameters as the publishers round them, in billions: total, and active where they say so.
PUBLISHED = {
    "Qwen__Qwen3-0.6B": (0.6, 0.6), "Qwen__Qwen3-1.7B": (1.7, 1.7), "Qwen__Qwen3-8B": (8.2, None),
    "Qwen__Qwen3-32B": (32.8, None), "Qwen__Qwen3-30B-A3B": (30.5, 3.3), "Qwen__Qwen3-235B-A22B": (235, 22),
    "Qwen__Qwen3-Coder-480B-A35B-Instruct": (480, 35), "Qwen__Qwen3.5-397B-A17B": (397, 17),
    "Qwen__Qwen3.5-122B-A10B": (122, 10), "Qwen__Qwen3.5-35B-A3B": (35, 3), "Qwen__Qwen3.5-27B": (27, 27),
    "MiniMaxAI__MiniMax-M2.5": (229, 10), "XiaomiMiMo__MiMo-7B-Base": (7.6, None),
    "XiaomiMiMo__MiMo-V2-Flash": (309, 15), "deepseek-ai__DeepSeek-V3": (671, 37),
    "deepseek-ai__DeepSeek-R1": (671, 37), "deepseek-ai__DeepSeek-V4-Flash": (284, 13),
    "deepseek-ai__DeepSeek-V4-Pro": (1600, 49), "google__gemma-4-26B-A4B": (25.2, 3.8),
    "meta-llama__Llama-4-Maverick-17B-128E-Instruct": (400, 17),
    "meta-llama__Llama-4-Scout-17B-16E-Instruct": (109, 17),
    "meta-llama__Meta-Llama-3.1-8B": (8.03, None), "meta-llama__Meta-Llama-3.1-70B": (70.6, None),
    "meta-llama__Meta-Llama-3.1-405B": (405.9, None), "mistralai__Mixtral-8x7B-v0.1": (46.7, 12.9),
    "mistralai__Mixtral-8x22B-v0.1": (140.6, 39), "moonshotai__Kimi-K2-Instruct": (1026, 32),
    "nvidia__Llama-3_3-Nemotron-Super-49B-v1": (49.9, None), "nvidia__Nemotron-H-56B-Base-8K": (56.3, None),
    "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (31.6, 3.2),
    "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8": (120.6, 12.7),
    "nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": (550, 55), "openai__gpt-oss-120b": (116.8, 5.1),
    "openai__gpt-oss-20b": (20.9, 3.6), "zai-org__GLM-5": (744, 40), "stepfun-ai__Step-3.7-Flash": (196, 11),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_that_everybody_knows(name: str) -> None:
    arch = load_model(golden(f"data/model_configs/{name}.json"))
    total, active = PUBLISHED[name]
    assert total_parameters(arch) / 1e9 == pytest.approx(total, rel=0.02)
    if active is not None:  # publishers round, and count the input table or do not
        assert active_parameters(arch) / 1e9 == pytest.approx(active, rel=0.12)


def test_every_config_has_weights_and_a_cache() -> None:
    """Each file is read by the calculators: the parts add up, more GPUs hold less, a longer request needs more."""
    from ridgeline.engine.answers import kv, weights

    for path in sorted(golden("data/model_configs").glob("*.json")):
        one, eight = (weights.answer({"model": str(path), "topology": text}) for text in ("TP1", "TP8"))
        parts = ("routed", "attention", "shared", "dense", "gate", "hc", "embed_lmhead", "mtp_proj", "norms")
        assert sum(one[part] for part in parts) == pytest.approx(one["total"], abs=0.01), path.name
        assert one["total"] / 8 * 0.99 < eight["total"] < one["total"], path.name
        per_parameter = one["total_bytes"] / one["parameters_total"]
        assert 0.5 < per_parameter < 2.1, path.name
        asked = [kv.answer({"model": str(path), "topology": "TP8", "max_model_len": n}) for n in (4096, 65536)]
        assert 0 < asked[0]["needed_bytes"] < asked[1]["needed_bytes"], path.name
        assert asked[0]["error"] is None
