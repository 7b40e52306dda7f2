import json

import pytest

from ridgeline.core.errors import InputError
from ridgeline.engine.parameters import total_parameters
from ridgeline.spec.facts.archfile import from_json, to_json
from ridgeline.spec.facts.library import find_model, load_model

CONFIG = {
    "model_type": "qwen3", "hidden_size": 8, "vocab_size": 16, "max_position_embeddings": 64, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("qwen3-8b-fp8", "Qwen/Qwen3-8B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3.1-8B"),
        ("nvidia/Llama-3.3-70B-Instruct-FP4", "meta-llama/Meta-Llama-3.1-70B"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1"),
        ("openai/gpt-oss-120b", "openai/gpt-oss-120b"),
        ("zai-org/GLM-5.2-FP8", "zai-org/GLM-5.2"),
        ("zai-org/GLM-5", "zai-org/GLM-5"),
        ("Qwen/Qwen3.5-397B-A17B-FP8", "Qwen/Qwen3.5-397B-A17B"),
        ("nvidia/DeepSeek-V3.2-NVFP4", "deepseek-ai/DeepSeek-V3.2"),
        ("nvidia/DeepSeek-V3.1-NVFP4", "deepseek-ai/DeepSeek-V3"),
        ("zai-org/GLM-5.3", "zai-org/GLM-5.3"),
        ("moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K2"),
        ("nvidia/Kimi-K2.6-NVFP4", "moonshotai/Kimi-K2.5"),
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", "Qwen/Qwen3.5-35B-A3B"),
    ],
)
def test_names_of_releases_find_their_architecture(name: str, found: str) -> None:
    assert find_model(name).name == found


@pytest.mark.parametrize("name", ["qwen3-8bx", "llama", "", "deepseek-v9"])
def test_unknown_names_are_refused_with_what_is_known(name: str) -> None:
    with pytest.raises(InputError, match="gpt-oss-120b"):
        find_model(name)


@pytest.mark.parametrize("name", ["deepseek-v4-pro", "gpt-oss-120b", "kimi-k3", "minimax-m3", "qwen3.5-397b-a17b"])
def test_our_file_form_keeps_everything(name: str) -> None:
    arch = find_model(name)
    assert from_json(json.loads(json.dumps(to_json(arch))), "x.json") == arch
    assert arch.source
    assert arch.licence


def test_sparse_successors_are_not_taken_for_dense_ancestors() -> None:
    """V3.2 scores tokens before it reads them, V3 reads all; layers of GLM-5.3 share scores, those of GLM-5 do not."""
    scored = {
        name: [bool(getattr(block.attention, "indexer", None)) for block in find_model(name).blocks]
        for name in ("DeepSeek-V3", "DeepSeek-V3.2", "GLM-5", "GLM-5.3")
    }
    assert scored["DeepSeek-V3"] == [False, False] and scored["DeepSeek-V3.2"] == [True, True]
    assert all(scored["GLM-5"]) and not all(scored["GLM-5.3"])


def test_the_shipped_sizes_are_the_published_ones() -> None:
    sizes = {
        "Qwen3-0.6B": 0.6e9,
        "Llama-3.1-70B": 70.6e9,
        "gpt-oss-120b": 117e9,
        "DeepSeek-R1": 671e9,
        "Kimi-K2.5": 1.03e12,
        "Kimi-K2": 1.03e12,
        "Llama-3.1-405B": 406e9,
        "Mixtral-8x22B": 141e9,
        "Qwen3-Coder-480B-A35B": 480e9,
        "Qwen3.5-122B-A10B": 122e9,
        "MiMo-V2-Flash": 309e9,
        "Llama-4-Maverick": 400e9,
        "Step-3.7-Flash": 196e9,
    }
    for name, published in sizes.items():
        assert total_parameters(find_model(name)) == pytest.approx(published, rel=0.01)


def test_a_config_file_or_its_folder_is_a_name_too(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert find_model(str(tmp_path)).layers == find_model(str(tmp_path / "config.json")).layers == 1
    assert find_model(str(tmp_path)).name == tmp_path.name


def test_a_dropped_model_file_joins(tmp_path, monkeypatch) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "my-model.json").write_text(json.dumps(CONFIG))
    monkeypatch.setenv("RIDGELINE_FACTS", str(tmp_path))
    assert find_model("me/My-Model-v2").hidden == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"format": "ridgeline-model/1", "name": "x", "colour": 1}', "not a ridgeline-model/1 file"),
        ('{"format": "ridgeline-model/1", "blocks": [{"count": 1, "attention": {"kind": "magic"}}]}', "magic"),
    ],
)
def test_broken_files_are_named(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        load_model(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match="No such file"):
        find_model(str(tmp_path / "nothing.json"))
