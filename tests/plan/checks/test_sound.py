"""Twenty sound deployments: nothing above WARN with what was observed, UNKNOWN when that is taken away."""

from dataclasses import replace
from typing import Any

import pytest
from tests.plan.checks.making import known, make, report, service, table, verdict

from ridgeline.core.cell import Component, Scenario
from ridgeline.core.finding import Verdict
from ridgeline.core.topology import Topology
from ridgeline.plan.checks.subject import Knowledge, Subject

DP8, TP8EP8 = Topology(8, ep=8, dp_attn=True), Topology(8, ep=8)
ROUTER = [
    "vllm-router", "--policy", "consistent_hash", "--intra-node-data-parallel-size", "8", "--disable-retries",
    "--disable-circuit-breaker",
]  # fmt: skip
NVIDIA = {"image": "vllm/vllm-openai:v0.24.0", "free": 139.29, "runner": "h200"}
LLAMA = {**NVIDIA, "model": "meta-llama/Llama-3.1-8B", "precision": "bf16", "topology": Topology(1)}
FIXED = Scenario("fixed-seq-len", isl=1024, osl=1024)
SHORT = tuple(range(2000, 40_000, 1000))
NATIVE = {"kv_offloading": "dram", "kv_offload_backend": Component("vllm-native"), "cpu_dram_gb": 2000}

SOUND: dict[str, dict[str, Any]] = {
    "tensor and expert parallelism": {"topology": TP8EP8, "concurrency": 8},
    "tensor parallelism alone": {"topology": Topology(8), "concurrency": 8},
    "four GPUs": {"topology": Topology(4), "concurrency": 2, "flags": {"max-num-batched-tokens": 4096}},
    "ranks behind a router": {"topology": DP8, "router": ROUTER},
    "many lanes on ranks": {"topology": DP8, "concurrency": 96, "router": ROUTER},
    "a capped scheduler": {"topology": DP8, "concurrency": 224, "router": ROUTER, "flags": {"max-num-seqs": 128}},
    "a ladder that reaches": {
        "topology": DP8, "concurrency": 224, "router": ROUTER,
        "flags": {"compilation-config": {"max_cudagraph_capture_size": 1792}},
    },
    "gated prefills": {
        "topology": DP8, "router": ROUTER,
        "flags": {"compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"}, "prefill-schedule-interval": 8},
    },
    "fewer tokens in flight": {"topology": TP8EP8, "flags": {"no-async-scheduling": True}, "concurrency": 8},
    "a fixed length": {"topology": TP8EP8, "scenario": FIXED, "concurrency": 64, "flags": {"max-model-len": 4096}},
    "real acceptance": {
        "topology": TP8EP8, "concurrency": 8,
        "flags": {"speculative-config": {"method": "mtp", "num_speculative_tokens": 2}},
    },
    "no drafts": {
        "topology": TP8EP8, "concurrency": 8, "arm": {"spec_decoding": "none"}, "flags": {"speculative-config": None},
    },
    "a tuned backend": {
        "topology": DP8, "router": ROUTER, "image": "vllm/vllm-openai-rocm:v0.27.1", "tables": (table(),),
        "flags": {"moe-backend": "flydsl"},
    },
    "a cache of a fixed size": {
        "topology": TP8EP8, "concurrency": 8, "flags": {"kv-cache-memory-bytes": 90 << 30},
    },
    "a small dense model": {**LLAMA, "concurrency": 8, "contexts": SHORT},
    "a dense model in fixed lengths": {**LLAMA, "scenario": FIXED, "concurrency": 256, "flags": {"max-num-seqs": 256}},
    "a dense model without graphs": {**LLAMA, "concurrency": 4, "contexts": SHORT, "flags": {"enforce-eager": True}},
    "experts on one GPU": {
        **NVIDIA, "model": "Qwen/Qwen3-30B-A3B", "precision": "bf16", "topology": Topology(1), "concurrency": 8,
        "contexts": SHORT,
    },
    "windows beside full history": {
        **NVIDIA, "model": "openai/gpt-oss-120b", "precision": "fp4", "topology": Topology(1), "concurrency": 8,
        "contexts": SHORT,
    },
    "latents over eight GPUs": {
        **NVIDIA, "model": "deepseek-ai/DeepSeek-R1", "precision": "fp8", "topology": Topology(8, ep=8),
        "concurrency": 8, "contexts": SHORT,
    },
    "states beside attention": {
        **NVIDIA, "model": "Qwen/Qwen3.5-397B-A17B", "precision": "fp8", "topology": Topology(8, ep=8),
        "concurrency": 8, "contexts": SHORT,
    },
    "offload to the host": {
        **LLAMA, "concurrency": 8, "contexts": SHORT, "arm": NATIVE,
        "flags": {"kv-offloading-backend": "native", "kv-offloading-size": 500},
    },
    "a store that is waited for": {
        **LLAMA, "concurrency": 8, "contexts": SHORT, "arm": {"kv_offloading": "dram"}, "after": ("lmcache",),
        "services": (service("lmcache", ["lmcache", "server"], role="cache"),),
        "flags": {"kv-transfer-config": {"kv_connector": "LMCacheMPConnector"}},
    },
}  # fmt: skip


def sound(name: str) -> Subject:
    """The deployment with a start and a dump of its build on record."""
    return known(make(**SOUND[name]), 2.0 if "free" in SOUND[name] else 10.76)


@pytest.mark.parametrize("name", SOUND)
def test_nothing_above_a_warning(name: str) -> None:
    bad = [j.finding for j in report(sound(name)).judged if j.finding.verdict.rank > Verdict.WARN.rank]
    assert not bad, bad


@pytest.mark.parametrize("name", SOUND)
def test_unknown_without_what_was_observed(name: str) -> None:
    subject = sound(name)
    bare = replace(subject, known=Knowledge(curves=subject.known.curves, tables=subject.known.tables))
    assert report(bare).verdict is Verdict.UNKNOWN
    fixed = subject.launches[0].kv_bytes is not None
    assert verdict(bare, "M3") is (Verdict.PASS if fixed else Verdict.UNKNOWN)


def test_what_is_promised_can_be_proved() -> None:
    """Every expectation that a check leaves has a name that the proof after a run knows."""
    from ridgeline.sweep.proof.verdict import CODES

    left = {e.name for name in SOUND for e in report(sound(name)).expectations}
    logged = {"full_graph_sizes", "tuning_dispatch_rules", "tuning_combine_rules"}
    strange = {name for name in left - logged - CODES.keys() if not name.startswith("acceptance_rate_position_")}
    assert not strange and {"external_hit", "kv_tokens", "acceptance_length", "moe_backend"} <= left


def test_there_are_at_least_twenty() -> None:
    assert len(SOUND) >= 20
