"""Options become words of `ridgeline emulate` and come back as they were, whatever they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.engine.emulated_argv import FLAGS, Flag, options_of_words, words_of
from ridgeline.engine.formats import Formats
from ridgeline.engine.graphs import MODES
from ridgeline.engine.options import ROUTERS, EngineOptions, options_from

TOPOLOGIES = (Topology(1), Topology(2, pp=2), Topology(8, ep=8, dp_attn=True), Topology(4, ep=4), Topology(8, dcp=2))
COUNT = st.integers(1, 1 << 20)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "gpu_memory_utilization": st.floats(0.05, 1.0),
    "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
    "kv_rows": st.sampled_from(["packed", "plain", "bf16"]),
    "watermark": st.floats(0, 0.5),
    "cudagraph_mode": st.sampled_from(list(MODES)),
    "cudagraph_capture_sizes": st.lists(COUNT, min_size=1, max_size=5).map(tuple),
    "checkpoints": st.sampled_from(["all", "prompt", "chunks"]),
    "host_lease_s": st.floats(0.1, 100),
    "router": st.sampled_from(ROUTERS),
    "num_speculative_tokens": st.integers(0, 8),
    "acceptance_length": st.just(1.0),
    "long_prefill_token_threshold": st.integers(0, 1 << 16),
    "checkpoint_interval": st.integers(0, 1 << 16),
    "host_kv_tokens": st.integers(0, 1 << 30),
}


def value_of(flag: Flag) -> st.SearchStrategy[Any]:
    return VALUES.get(flag.field, st.booleans() if flag.kind is None else COUNT)


@st.composite
def engines(draw: st.DrawFn) -> EngineOptions:
    model, gpu, precision = draw(
        st.sampled_from([("deepseek-v4-pro", "b200", "fp4"), ("deepseek-v4-pro", "h200", None)])
    )
    options = options_from(
        model,
        gpu,
        draw(st.sampled_from(TOPOLOGIES)),
        precision,
        engine=draw(st.sampled_from(["vllm", "sglang", "trt"])),
    )
    chosen = draw(st.lists(st.sampled_from(FLAGS), unique=True, max_size=12))
    options = replace(options, **{flag.field: draw(value_of(flag)) for flag in chosen})
    return replace(options, formats=draw(st.sampled_from([options.formats, Formats("bf16", "fp8")])))


@given(engines())
@settings(max_examples=150, deadline=None)
def test_options_come_back_from_their_words(options: EngineOptions) -> None:
    words = ["{python}", "-m", "ridgeline.cli.main", "emulate", "--port", "{port:http}", "--served-model-name", "m"]
    words += words_of(options, options.arch.name, options.gpu.name)
    assert options_of_words([*words, "--kv-role", "both", "--speed", "16"]) == options


def test_every_option_that_is_not_a_fact_has_a_flag() -> None:
    facts = {"arch", "gpu", "topology", "precision", "formats", "engine", "seed"}
    assert {flag.field for flag in FLAGS} == set(EngineOptions.__dataclass_fields__) - facts


def test_what_has_its_default_is_not_said() -> None:
    options = options_from("qwen3-8b", "h200", Topology(1), "fp8")
    assert words_of(options, "Qwen/Qwen3-8B", "cluster:h200-nv") == [
        "--model", "Qwen/Qwen3-8B", "--gpu", "cluster:h200-nv", "--precision", "fp8", "--tp", "1", "--ep", "1",
        "--max-num-seqs", "1024", "--max-num-batched-tokens", "8192",
    ]  # fmt: skip


def test_words_that_are_wrong_are_named() -> None:
    start = ["emulate", "--model", "qwen3-8b", "--gpu", "h200"]
    with pytest.raises(InputError, match="invalid int value: 'many'"):
        options_of_words([*start, "--max-num-seqs", "many"])
    with pytest.raises(InputError, match="two formats"):
        options_of_words([*start, "--formats", "fp8"])
    with pytest.raises(InputError, match="--model"):
        options_of_words(["emulate", "--gpu", "h200"])
