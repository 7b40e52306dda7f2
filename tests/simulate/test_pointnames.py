"""Names as people write them."""

from __future__ import annotations

import json

import pytest
from tests.golden import golden

from ridgeline.simulate.pointnames import (
    date_in,
    drafts_unsaid,
    engine_name,
    gpu_name,
    model_name,
    precision_name,
    shipped_precision,
    speculation,
)
from ridgeline.simulate.points import MODELS, served_by
from ridgeline.spec.facts.library import find_gpu, find_model


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100_SXM", "h100"), ("8xB300", "b300"), ("cluster:h100-dgxc", "h100"), ("GB200 NVL72", "gb200"),
        ("gb300", "gb300"), ("MI355X", "mi355x"), ("mi300x-amds", "mi300x"), ("b200-nb_1", "b200"), ("tpu7", "tpu7"),
    ],
)  # fmt: skip
def test_gpus(text: str, name: str) -> None:
    assert gpu_name(text) == name


@pytest.mark.parametrize(
    ("text", "name", "engine"),
    [
        ("vLLM 0.26.0", "vllm", "vllm"), ("TensorRT-LLM", "trt", "trt"), ("trtllm", "trt", "trt"),
        ("AMD ATOM", "atom", "atom"), ("Dynamo vLLM", "dynamo-vllm", "vllm"), ("dynamo-trt", "dynamo-trt", "trt"),
        ("dynamo-trtllm", "dynamo-trt", "trt"), ("mori-sglang", "mori-sglang", "sglang"),
        ("SGLang", "sglang", "sglang"), ("lmdeploy", "lmdeploy", "lmdeploy"), ("llm-d", "llm-d", "llm-d"),
    ],
)  # fmt: skip
def test_engines(text: str, name: str, engine: str) -> None:
    assert engine_name(text) == name
    assert served_by(name) == engine


@pytest.mark.parametrize(
    ("text", "name"), [("NVFP4", "fp4"), ("mxfp8", "fp8"), ("fp16", "bf16"), ("w4a16", "int4"), ("fp3", "fp3")]
)
def test_precisions(text: str, name: str) -> None:
    assert precision_name(text) == name


@pytest.mark.parametrize(
    ("text", "drafts", "accepted"),
    [
        ("none", 0, None), ("off", 0, None), ("non-mtp", 0, None), ("mtp", 3, None), ("MTP-2", 2, None),
        ("mtp1", 1, None), ("eagle3", 3, None), ("eagle3 5", 5, None), ("dspark5 AL3.51", 5, 3.51),
        ("mtp AL=2.4", 3, 2.4), ("mtp 0", 0, None), ("ngram-4", 4, None),
    ],
)  # fmt: skip
def test_speculation(text: str, drafts: int, accepted: float | None) -> None:
    assert speculation(text) == (drafts, accepted)


@pytest.mark.parametrize(
    ("text", "unsaid"),
    [("mtp", True), ("eagle3", True), ("none", False), ("mtp3", False), ("MTP-2", False), ("dspark5 AL3.51", False),
     ("mtp AL 2.4", False)],
)  # fmt: skip
def test_drafts_whose_number_is_not_said(text: str, unsaid: bool) -> None:
    assert drafts_unsaid(text) is unsaid


def test_a_model_without_a_golden_curve_takes_its_relatives() -> None:
    assert speculation("mtp", "dsr1").accepted == 2.49
    assert speculation("mtp2", "dsr1").accepted is None
    assert speculation("mtp", "dsv4").accepted is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("dsr1", "dsr1"), ("deepseek-ai/DeepSeek-V4-Pro", "dsv4"), ("DeepSeek-V4-Flash", "dsv4flash"),
        ("deepseek-ai/DeepSeek-V4.1-Flash", "dsv41flash"), ("MiniMaxAI/MiniMax-M2.5", "minimaxm2.5"),
        ("zai-org/GLM-5-FP8", "glm5"), ("Qwen/Qwen3.5-397B-A17B", "qwen3.5"), ("openai/gpt-oss-120b", "gptoss120b"),
        ("Kimi-K3", "kimik3"), ("GLM-5.2", "glm5.2"), ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"), ("nobody-9b", "nobody-9b"),
    ],
)  # fmt: skip
def test_models(text: str, name: str) -> None:
    assert model_name(text) == name


def test_every_short_name_has_facts() -> None:
    assert all(find_model(name).layers for name in MODELS.values())


def test_what_a_model_is_shipped_in() -> None:
    assert [shipped_precision(name) for name in ("gptoss120b", "dsr1", "llama70b", "kimik2.5", "nobody")] == [
        "fp4", "fp8", "bf16", "int4", "fp8",
    ]  # fmt: skip
    assert date_in("run 9 2026-07-18 again 2026-07-19") == "2026-07-18"
    assert date_in("July") is None


def test_published_short_names_are_known() -> None:
    names = json.loads(golden("data/result_names.json").read_text())
    for short, facts in names["models"].items():
        assert model_name(short) == short
        if facts["config"]:
            config = facts["config"].removesuffix(".json").replace("__", "/")
            assert find_model(MODELS[short]) == find_model(config), short
    assert {gpu_name(name) for name in names["hardware"].values()} == {
        find_gpu(n).name.lower() for n in names["hardware"]
    }
    assert [engine_name(name) for name in ("TensorRT-LLM", "AMD ATOM")] == ["trt", "atom"]
