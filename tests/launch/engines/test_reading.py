"""Logs become evidence: real vLLM logs of a start on a CPU and of one on an H200, and lines of our own for the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.finding import Evidence
from ridgeline.launch.engines import ENGINES, engine_kind, read_log, router

REAL = Path(__file__).with_name("vllm-0.32.0-cpu-dp2.log")
GPU = Path(__file__).with_name("vllm-0.24.0-h200.log")


def read(text: str, tmp_path: Path, kind: str = "vllm") -> list[Evidence]:
    log = tmp_path / "engine.log"
    log.write_text(text)
    engine = engine_kind(kind)
    return read_log(log, engine.shapes, engine.parser)


def values(found: list[Evidence], claim: str) -> list[float | str]:
    return [piece.value for piece in found if piece.name == claim]


def test_a_real_log_of_vllm_is_understood() -> None:
    engine = engine_kind("vllm")
    found = read_log(REAL, engine.shapes, engine.parser)
    assert values(found, "engine_version") == ["0.32.0"]
    assert values(found, "kv_tokens") == [65536.0]
    assert values(found, "kv_concurrency") == [8.0]
    assert values(found, "max_model_len") == [8192.0]
    assert values(found, "prefix_caching") == ["True"]
    assert values(found, "cudagraph_mode") == ["NONE"]
    assert values(found, "capture_sizes") == ["[]"]
    assert values(found, "model_runner") == ["V1"]
    assert "Enforce eager set" in str(values(found, "graphs_skipped")[0])


def test_a_real_log_of_a_gpu_is_understood() -> None:
    engine = engine_kind("vllm")
    found = read_log(GPU, engine.shapes, engine.parser)
    assert values(found, "engine_version") == ["0.24.0"]
    assert values(found, "model_runner") == ["V2"] and values(found, "attention_backend") == ["FLASH_ATTN"]
    assert values(found, "weights_gib") == [61.03] and values(found, "kv_gib") == [62.96]
    assert values(found, "kv_tokens") == [257856.0] and values(found, "max_model_len") == [40960.0]
    assert values(found, "full_graphs") == [19.0] and values(found, "piecewise_graphs") == [35.0]
    assert values(found, "cudagraph_mode") == ["FULL_AND_PIECEWISE"] and values(found, "graph_gib") == [0.67]
    assert values(found, "graphs_skipped") == [] and values(found, "compile_mode") == ["VLLM_COMPILE"]


def test_shapes_marked_as_seen_are_in_the_real_logs() -> None:
    engine = engine_kind("vllm")
    seen = {shape.claim for shape in engine.shapes if shape.seen}
    found = {piece.name for log in (REAL, GPU) for piece in read_log(log, engine.shapes, engine.parser)}
    assert seen == found, "a shape is marked as seen exactly when a real log has it"


def test_evidence_says_where_it_was_read() -> None:
    engine = engine_kind("vllm")
    data = REAL.read_bytes()
    lines = data.split(b"\n")
    for piece in read_log(REAL, engine.shapes, engine.parser):
        assert piece.where is not None
        assert piece.offset is not None
        assert piece.parser == "vllm/2"
        line = lines[piece.where.line - 1]
        assert data[piece.offset : piece.offset + len(line)] == line


VLLM = {
    "Model loading took 97.3021 GiB memory and 61.234567 seconds": ("weights_gib", 97.3021),
    "Available KV cache memory: 12.09 GiB": ("kv_gib", 12.09),
    "GPU KV cache size: 1,984,512 tokens": ("kv_tokens", 1984512.0),
    "Maximum concurrency for 1,048,576 tokens per request: 1.89x": ("kv_concurrency", 1.89),
    "Auto-fit max_model_len: reduced from 1048576 to 409600 to fit in": ("auto_fit_reduced", 409600.0),
    "Capturing CUDA graphs (decode, FULL): 100%|█████| 35/35 [00:12<00:00,  2.9it/s]": ("full_graphs", 35.0),
    "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██| 51/51 [00:03<00:00]": ("piecewise_graphs", 51.0),
    "CUDA graphs (FULL):  84%|████▍ | 16/19 [00:00]\rCapturing CUDA graphs (FULL): 100%|█████| 19/19 [00:01]": (
        "full_graphs",
        19.0,
    ),
    "Capturing CUDA graphs (PIECEWISE): 100%|██████| 35/35 [00:02<00:00, 14.8it/s]": ("piecewise_graphs", 35.0),
    "Graph capturing finished in 21 secs, took 1.24 GiB": ("graph_gib", 1.24),
    "Using FLASHMLA attention backend out of potential backends: ['FLASHMLA', 'TRITON_MLA'].": (
        "attention_backend",
        "FLASHMLA",
    ),
    "Using 'FLASHINFER_TRTLLM_MXFP4_MXFP8' Mxfp4 MoE backend.": ("moe_backend", "FLASHINFER_TRTLLM_MXFP4_MXFP8"),
    "Using DEEPGEMM Fp8 MoE backend out of potential backends: ['DEEPGEMM']": ("moe_backend", "DEEPGEMM"),
    "Using DeepSeek's fp8_ds_mla KV cache format.": ("kv_layout", "fp8_ds_mla"),
    "Loaded FlyDSL launch-geometry tuning from /t/f.json (dispatch=0 rules, combine=6 rules)": (
        "tuning_dispatch_rules",
        0.0,
    ),
    "CUDA graph pool memory: 1.31 GiB (actual), 1.4 GiB (estimated), difference: 0.09 GiB (6.9%).": (
        "graph_pool_gib",
        1.31,
    ),
    "Using DeepEPHTPrepareAndFinalize": ("moe_prepare", "DeepEPHTPrepareAndFinalize"),
    "Using TritonExperts MoE backend": ("moe_experts", "TritonExperts"),
    "Running: 4 reqs, Waiting: 9 reqs, Deferred: 3 reqs, GPU KV cache usage: 99.0%": ("deferred_logged", 3.0),
    "GPU KV cache usage: 9.0%, Prefix cache hit rate: 8.4%, External prefix cache hit rate: 31.0%": (
        "external_hit_percent",
        31.0,
    ),
    "Drafted: 9 tokens, Per-position acceptance rate: 0.801, 0.512, 0.220, Avg Draft acceptance rate: 51.1%": (
        "acceptance_rates_logged",
        "0.801, 0.512, 0.220",
    ),
    "Avg Draft acceptance rate: 51.1%": ("draft_acceptance_percent", 51.1),
    "Asynchronous scheduling is enabled.": ("async_scheduling", "enabled"),
    "Using V2 Model Runner": ("model_runner", "V2"),
    "Engine 003: Avg prompt throughput: 1.0 tokens/s, Running: 3 reqs, Preemptions: 7, GPU KV cache usage: 1.0%": (
        "preemptions_logged",
        7.0,
    ),
    "Running: 4 reqs, GPU KV cache usage: 12.0%, Prefix cache hit rate: 83.4%": ("prefix_hit_percent", 83.4),
    "SpecDecoding metrics: Mean acceptance length: 2.81, Accepted throughput: 1.00 tokens/s": (
        "acceptance_length_logged",
        2.81,
    ),
}


@pytest.mark.parametrize("line", VLLM)
def test_lines_that_need_a_gpu(line: str, tmp_path: Path) -> None:
    claim, value = VLLM[line]
    assert values(read(f"INFO 08-01 [x.py:1] {line}\n", tmp_path), claim) == [value]


SUMMARY = {
    # 0.26
    "Free memory on device cuda:0 (254.1/287.98 GiB) on startup. Desired GPU memory utilization is (0.86, 247.66 GiB). "
    "Actual usage is 126.3 GiB for weight, 4.91 GiB for peak activation, 5.85 GiB for non-torch memory, and 1.31 GiB "
    "for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=117206876160` (109.16 GiB) to "
    "fit into requested memory, or `--kv-cache-memory=124088573952` (115.57 GiB) to fully utilize gpu memory. Current "
    "kv cache memory in use is 109.29 GiB.": {
        "free_at_start_gib": 254.1, "weights_used_gib": 126.3, "activation_gib": 4.91, "non_torch_gib": 5.85,
        "graph_memory_gib": 1.31, "kv_bytes_suggested": 117206876160.0,
    },
    # 0.32
    "Free memory on device (138.2/139.81 GiB) on startup. Desired GPU memory utilization is (0.9, 125.83 GiB). Actual "
    "usage is 71.3 GiB for consumed memory (weights + non-torch), 2.2 GiB for peak activation, and 0.8 GiB for "
    "CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=55000000000` (51.22 GiB)": {
        "free_at_start_gib": 138.2, "consumed_gib": 71.3, "activation_gib": 2.2, "graph_memory_gib": 0.8,
        "kv_bytes_suggested": 55000000000.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("line", SUMMARY)
def test_the_memory_summary_tells_all_its_numbers(line: str, tmp_path: Path) -> None:
    found = {piece.name: piece.value for piece in read(f"INFO [gpu_worker.py:9] {line}\n", tmp_path)}
    assert found == SUMMARY[line]


def test_an_experts_class_is_no_second_backend(tmp_path: Path) -> None:
    lines = (
        "Using TRITON Unquantized MoE backend out of potential backends: ['TRITON']\nUsing TritonExperts MoE backend\n"
    )
    assert values(read(lines, tmp_path), "moe_backend") == ["TRITON"]


SENTENCES = {
    "Skipping CUDA graph capture. To turn on CUDA graph capture, ensure": "graphs_skipped",
    "Hybrid KV cache manager is disabled for this hybrid model, so it takes more": "hybrid_manager_disabled",
    "Using default MoE config. Performance might be sub-optimal! Config file not found at x.json": "moe_tuning_missing",
    "Tuning file f.json has no rule matching shape (8, 7168); using static geometry defaults.": "tuning_fallback",
    "Overriding cudagraph_mode from FULL to PIECEWISE": "cudagraph_mode_downgraded",
    "Truncating max_cudagraph_capture_size to max_num_tokens": "graph_sizes_cut",
}


@pytest.mark.parametrize("line", SENTENCES)
def test_sentences_whose_presence_is_the_proof(line: str, tmp_path: Path) -> None:
    (value,) = values(read(f"WARNING {line}\n", tmp_path), SENTENCES[line])
    assert str(value) == line


def test_a_progress_bar_counts_when_it_is_full(tmp_path: Path) -> None:
    bar = "Capturing CUDA graphs (decode, FULL): {:3d}%|#| {}/35"
    assert values(read(bar.format(57, 20) + "\n", tmp_path), "full_graphs") == []
    drawn = "\r".join((bar.format(0, 0), bar.format(57, 20), bar.format(100, 35)))
    assert values(read(drawn + "\n", tmp_path), "full_graphs") == [35.0]


def test_ranks_that_differ_are_all_kept_and_equal_ones_once(tmp_path: Path) -> None:
    lines = [f"GPU KV cache size: {n} tokens\n" for n in ("100", "100", "90")]
    assert values(read("".join(lines), tmp_path), "kv_tokens") == [100.0, 90.0]


def test_every_row_of_the_graph_table_counts(tmp_path: Path) -> None:
    row = "| 24              | 32            | 8            | FULL         | 13    |\n"
    assert values(read(row + row, tmp_path), "graph_steps") == ["24 FULL 13", "24 FULL 13"]


SGLANG = {
    "max_total_num_tokens=1012345, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=64, "
    "context_len=262144, available_gpu_mem=9.31 GB": {
        "kv_tokens": 1012345.0,
        "max_total_num_tokens": 1012345.0,
        "max_running": 64.0,
        "max_model_len": 262144.0,
        "max_prefill_tokens": 16384.0,
        "available_gpu_gib": 9.31,
    },
    "Capture cuda graph begin. This can take up to several minutes. avail mem=14.20 GB": {"graph_avail_gib": 14.2},
    "Load weight end. type=X, dtype=torch.bfloat16, avail mem=88.10 GB, mem usage=51.20 GB.": {
        "weights_gib": 51.2,
        "load_avail_gib": 88.1,
    },
    "KV Cache is allocated. #tokens: 1012345, K size: 20.11 GB, V size: 20.11 GB": {
        "kv_gib": 20.11,
        "kv_allocated_tokens": 1012345.0,
    },
    "Capture cuda graph bs [1, 2, 4, 8, 64]": {"capture_sizes": "[1, 2, 4, 8, 64]", "cuda_graph_max_bs": 64.0},
    "Decode batch. #running-req: 8, accept len: 2.71, cuda graph: True, gen throughput": {
        "decode_graph": "True",
        "acceptance_length_logged": 2.71,
    },
    "Not enough memory. Please try to increase --mem-fraction-static.": {
        "out_of_memory": "Not enough memory. Please try to increase --mem-fraction-static."
    },
}


@pytest.mark.parametrize("line", SGLANG)
def test_lines_of_sglang(line: str, tmp_path: Path) -> None:
    found = read(f"[2026-01-01 00:00:00 DP0 TP0] {line}\n", tmp_path, "sglang")
    assert {piece.name: piece.value for piece in found if piece.name in SGLANG[line]} == SGLANG[line]


def test_the_router_tells_by_what_it_spreads(tmp_path: Path) -> None:
    log = tmp_path / "router.log"
    log.write_text(
        "INFO x: CONSISTENT_HASH_DEBUG: Extracted hash key: header:x-session-id:abc\n"
        "INFO x: CONSISTENT_HASH_DEBUG: Extracted hash key: header:x-session-id:def\n"
    )
    assert [piece.value for piece in read_log(log, router.SHAPES, router.PARSER)] == ["header:x-session-id"]


def test_a_log_that_is_not_there_proves_nothing(tmp_path: Path) -> None:
    assert read_log(tmp_path / "no.log", engine_kind("vllm").shapes, "vllm/2") == []


@given(st.binary(max_size=400))
@settings(max_examples=60)
def test_no_log_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    log = tmp_path_factory.mktemp("logs") / "x.log"
    log.write_bytes(data + b"\nGPU KV cache size: 5 tokens\n")
    found = read_log(log, engine_kind("vllm").shapes, "vllm/2")
    assert found[-1].value == 5.0
    assert found[-1].where is not None
    assert found[-1].where.line == data.count(b"\n") + 2


def test_kinds_are_told_apart_by_what_is_done_with_them() -> None:
    assert set(ENGINES) == {"vllm", "sglang", "emulated", "command", "shell"}
    assert engine_kind("command").claims == frozenset()
    with pytest.raises(EnvironmentFailed, match="`trt` is known and not launched yet"):
        engine_kind("trt")
    with pytest.raises(EnvironmentFailed, match="`quantum` is not known"):
        engine_kind("quantum")
