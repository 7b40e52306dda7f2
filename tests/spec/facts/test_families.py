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
    ],
)
def test_formats_as_shipped(name: str, experts: str, linear: str) -> None:
    arch = load_model(golden(f"data/model_configs/{name}.json"))
    assert (arch.experts_format, arch.linear_format) == (experts, linear)
