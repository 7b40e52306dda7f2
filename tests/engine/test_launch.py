import json
from typing import Any

import pytest

from ridgeline.core.deployment import Item, Service
from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.builds import async_by_default, build_of, expert_pad
from ridgeline.engine.formats import Formats
from ridgeline.engine.hosting import offloaded_bytes
from ridgeline.engine.launch import Launch
from ridgeline.engine.vllm_flags import human_int, vllm_launch


def launch(*words: str, env: dict[str, str] | None = None, build: str = "vllm 0.26.0", **more: Any) -> Launch:
    pairs = tuple((name, Item(value)) for name, value in (env or {}).items())
    service = Service("engine", tuple(Item(word) for word in ("vllm", "serve", "org/m", *words)), pairs)
    return vllm_launch(service, build_of(build), **more)


def test_defaults_are_the_engines() -> None:
    found = launch()
    assert (found.model, found.topology, found.utilization) == ("org/m", Topology(1), 0.9)
    assert (found.max_num_seqs, found.budget, found.block_size) == (1024, 8192, 16)
    assert (found.mode, found.sizes, found.top, found.batches) == ("FULL_AND_PIECEWISE", None, None, 2)
    small = launch(large_gpu=False)
    assert (small.max_num_seqs, small.budget) == (256, 2048)


def test_layouts() -> None:
    assert launch("-tp", "8", "--enable-expert-parallel").topology == Topology(8, ep=8)
    dp = launch("--data-parallel-size", "8", "--enable-expert-parallel").topology
    assert dp == Topology(8, ep=8, dp_attn=True)
    assert launch("-pp", "2", "--no-async-scheduling").batches == 2
    assert launch("--no-async-scheduling").batches == 1
    wide = launch("-tp", "2", "-dp", "4", "--enable-expert-parallel")
    assert (wide.topology, wide.ranks, wide.attention) == (Topology(8, ep=8, dp_attn=True), 4, Topology(2))
    assert wide.label == "DP4TP2EP8"
    assert launch("-dp", "8").attention == Topology(8, dp_attn=True)


def test_capture_settings_from_flags_and_from_json() -> None:
    config = {"cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [4, 8], "mode": 3}
    found = launch("--compilation-config", json.dumps(config))
    assert (found.mode, found.sizes, found.compile_mode) == ("FULL_DECODE_ONLY", (4, 8), "3")
    assert launch("--cudagraph-capture-sizes", "4", "8").sizes == (4, 8)
    assert launch("-cc.cudagraph_mode=PIECEWISE").mode == "PIECEWISE"
    assert launch("--enforce-eager").mode == "NONE"
    assert launch("--max-cudagraph-capture-size", "64").top == 64


def test_drafts() -> None:
    spec = {
        "method": "mtp", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.49,
    }  # fmt: skip
    found = launch("--speculative-config", json.dumps(spec))
    assert found.speculation is not None and found.mtp
    assert (found.query, found.speculation.length, found.speculation.rejection) == (4, 2.49, "synthetic")
    assert not launch("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}').async_scheduling


def test_what_is_wrong_is_kept_with_its_flag() -> None:
    found = launch("--max-num-seqs", "many", "--speculative-config", "{", "--compilation-config", "[1]")
    assert {problem.key for problem in found.problems} == {
        "--max-num-seqs", "--speculative-config", "--compilation-config",
    }  # fmt: skip
    assert found.max_num_seqs == 1024


def test_sizes_as_people_write_them() -> None:
    assert (human_int("8192"), human_int("8k"), human_int("8K"), human_int("1.5k")) == (8192, 8000, 8192, 1500)
    with pytest.raises(ValueError):
        human_int("eight")


def test_how_latents_are_stored_follows_the_backend() -> None:
    assert launch("--kv-cache-dtype", "fp8").kv_rows == "packed"
    assert launch("--kv-cache-dtype", "fp8", "--attention-backend", "FLASHINFER_MLA").kv_rows == "plain"
    assert launch().kv_rows == "bf16"


def test_host_memory_of_all_ranks() -> None:
    assert offloaded_bytes(launch()) is None
    native = launch("-dp", "8", "--kv-offloading-backend", "native", "--kv-offloading-size", "10")
    assert offloaded_bytes(native) == 80 * GIB
    extra: dict[str, Any] = {"kv_connector": "SimpleCPUOffloadConnector"}
    extra["kv_connector_extra_config"] = {"cpu_bytes_to_use_per_rank": 5}
    assert offloaded_bytes(launch("-tp", "4", "--kv-transfer-config", json.dumps(extra))) == 20


def test_model_runners() -> None:
    assert launch(family="llama").v2_runner
    assert not launch(family="llama", build="vllm 0.22.0").v2_runner
    assert not launch(family="llama", env={"VLLM_USE_V2_MODEL_RUNNER": "0"}).v2_runner
    assert launch(env={"VLLM_USE_V2_MODEL_RUNNER": "1"}).v2_runner


@pytest.mark.parametrize(
    ("image", "kind", "version", "assumed"),
    [
        ("vllm/vllm-openai-rocm:v0.26.0", "vllm", (0, 26, 0), False),
        ("vllm/vllm-openai:nightly-09663abde", "vllm", (0, 32, 0), True),
        ("registry:5000/vllm/vllm-openai:v0.24", "vllm", (0, 24, 0), False),
        ("lmsysorg/sglang:v0.5.3-rocm700", "sglang", (0, 5, 3), False),
        ("vllm/vllm-openai", "vllm", (0, 32, 0), True),
    ],
)
def test_builds(image: str, kind: str, version: tuple[int, int, int], assumed: bool) -> None:
    assert build_of(image)[:3] == (kind, version, assumed)


def test_rules_by_build() -> None:
    narrow = Formats("mxfp4", "fp8")
    assert expert_pad(build_of("vllm 0.26.0"), narrow, "amd") == 256
    assert expert_pad(build_of("vllm 0.27.0"), narrow, "amd") == 128
    assert expert_pad(build_of("vllm:nightly"), narrow, "amd") == 256
    assert expert_pad(build_of("vllm 0.26.0"), Formats("fp8", "fp8"), "amd") == 1
    assert async_by_default(build_of("vllm 0.26.0")) and not async_by_default(build_of("vllm 0.11.0"))
