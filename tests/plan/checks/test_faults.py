"""Twenty deployments that would fail or silently degrade, each caught by the rule that is there for it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.plan.checks.making import (
    DSV4,
    MTP3,
    ROCM,
    dump_of,
    findings,
    items,
    known,
    make,
    report,
    service,
    table,
    verdict,
)

from ridgeline.core.cell import Component, Scenario
from ridgeline.core.deployment import Item
from ridgeline.core.finding import Verdict
from ridgeline.core.topology import Topology
from ridgeline.plan.checks.subject import Subject
from ridgeline.spec.facts.builds import load_dumps

DP8, DP4 = Topology(8, ep=8, dp_attn=True), Topology(4, ep=4, dp_attn=True)
ROUTER = [
    "vllm-router", "--policy", "consistent_hash", "--intra-node-data-parallel-size", "8", "--disable-retries",
    "--disable-circuit-breaker",
]  # fmt: skip


def router(**changed: str | None) -> list[str]:
    """The usual router with some flags changed or left out."""
    found = list(ROUTER)
    for name, value in changed.items():
        flag = "--" + name.replace("_", "-")
        if flag in found:
            at = found.index(flag)
            del found[at : at + (1 if flag.startswith("--disable") else 2)]
        if value is not None:
            found += [flag, value]
    return found


OFFLOAD = {"kv_offloading": "dram", "kv_offload_backend": Component("vllm-native")}
BUDGET = {**OFFLOAD, "cpu_dram_gb": 2000}
HYBRID_OFF = {"disable-hybrid-kv-cache-manager": True}

# name -> (rule, verdict, deployment)
FAULTS: dict[str, tuple[str, Verdict, dict[str, Any]]] = {
    "more memory than is free": ("M1", Verdict.FAIL, {"flags": {"gpu-memory-utilization": 0.95}}),
    "weights larger than the GPU": ("M2", Verdict.FAIL, {"topology": Topology(2), "concurrency": 4}),
    "a million tokens do not fit": ("M3", Verdict.FAIL, {"topology": DP4}),
    "length fitted to memory": (
        "M4", Verdict.FAIL, {"topology": DP4, "flags": {"max-model-len": "auto"}}
    ),
    "windows kept like full history": ("M5", Verdict.FAIL, {"flags": HYBRID_OFF}),
    "lanes that overflow the pool": ("M6", Verdict.WARN, {"topology": Topology(8), "concurrency": 64}),
    "padded expert shards": ("M7", Verdict.WARN, {"topology": Topology(8)}),
    "offload multiplied by ranks": (
        "M8", Verdict.FAIL,
        {"flags": {"kv-offloading-backend": "native", "kv-offloading-size": 1000}, "arm": BUDGET},
    ),
    "a list that ends too early": (
        "G1", Verdict.FAIL, {"flags": {"compilation-config": {"cudagraph_capture_sizes": list(range(1, 17))}}}
    ),
    "list and maximum disagree": (
        "G2", Verdict.FAIL,
        {"flags": {"compilation-config": {"cudagraph_capture_sizes": [4, 8, 12]}, "max-cudagraph-capture-size": 128}},
    ),
    "decode-only graphs under data parallelism": (
        "G3", Verdict.WARN, {"flags": {"compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"}}}
    ),
    "layerwise transfer": (
        "G4", Verdict.WARN,
        {"flags": {"kv-transfer-config": {"kv_connector": "X", "kv_connector_extra_config": {"use_layerwise": True}}}},
    ),
    "a compile mode that is overridden": ("G6", Verdict.WARN, {"flags": {"compilation-config": {"mode": 3}}}),
    "a typed acceptance length": (
        "S1", Verdict.FAIL, {"flags": {"speculative-config": {**MTP3, "synthetic_acceptance_length": 3.2}}}
    ),
    "an accuracy run on prescribed text": ("S2", Verdict.FAIL, {"env": {"EVAL_ONLY": "true"}}),
    "drafts changed apart from their length": (
        "S3", Verdict.FAIL, {"flags": {"speculative-config": {**MTP3, "num_speculative_tokens": 2}}}
    ),
    "drafts that fill the step": ("S4", Verdict.FAIL, {"concurrency": 192, "flags": {"max-num-batched-tokens": 1024}}),
    "a flag the image does not have": ("P1", Verdict.FAIL, {"flags": {"max-num-bached-tokens": 8192}}),
    "a backend that refuses the quantisation": ("P3", Verdict.FAIL, {"flags": {"moe-backend": "cutlass"}}),
    "another layout than the search space": ("P4", Verdict.FAIL, {"flags": {"enable-expert-parallel": False}}),
    "an unknown variable": ("P6", Verdict.WARN, {"env": {"VLLM_RPC_TIMEOUT": "1"}}),
    "no tuning table for the ranks": (
        "T1", Verdict.FAIL,
        {"topology": DP4, "flags": {"moe-backend": "flydsl"}, "tables": (table(),), "tables_given": True},
    ),
    "fp8 dispatch without rows": ("T2", Verdict.FAIL, {"flags": {"moe-backend": "mega_moe"}, "tables": (table(),)}),
    "rows far from the load": (
        "T3", Verdict.WARN, {"flags": {"moe-backend": "flydsl"}, "tables": (table(sizes=(8, 8192)),)}
    ),
    "lossy combine": ("T4", Verdict.WARN, {"flags": {"moe-backend": "mega_moe"}, "tables": (table(dtype="fp8_ocp"),)}),
    "sessions spread over ranks": ("R1", Verdict.WARN, {"router": router(policy="round_robin")}),
    "half the ranks idle": ("R2", Verdict.FAIL, {"router": router(intra_node_data_parallel_size="4")}),
    "a router without patience": ("R3", Verdict.FAIL, {"router": router(request_timeout_secs="600")}),
    "retries that hide errors": ("R4", Verdict.WARN, {"router": router(disable_retries=None)}),
    "two services on one port": ("R5", Verdict.FAIL, {"flags": {"port": 8888}, "router": [*ROUTER, "--port", "8888"]}),
    "an offload without its server": (
        "O1", Verdict.FAIL,
        {"flags": {"kv-transfer-config": {"kv_connector": "LMCacheMPConnector"}}, "arm": {"kv_offloading": "dram"}},
    ),
    "an offload that turns itself off": (
        "O2", Verdict.FAIL,
        {"flags": {"kv-offloading-size": 100, "no-enable-prefix-caching": True}, "arm": BUDGET},
    ),
    "blocks that are forced": ("M3", Verdict.FAIL, {"flags": {"num-gpu-blocks-override": 1000}}),
    "a retention that is no multiple": ("M5", Verdict.FAIL, {"env": {"VLLM_PREFIX_CACHE_RETENTION_INTERVAL": "1000"}}),
    "an image that moves": ("C3", Verdict.WARN, {"image": "vllm/vllm-openai-rocm:latest"}),
}  # fmt: skip


def broken(name: str) -> Subject:
    """The deployment with every start and dump on record that a sound one would have."""
    rule, _, how = FAULTS[name]
    subject = make(**{"topology": DP8, **how})
    sound = make(**{"topology": DP8, **{k: v for k, v in how.items() if k not in ("flags", "env")}})
    taken = 10.76
    ready = known(sound, taken)
    dump = ready.known.dumps[0]
    if rule not in ("P1", "P6"):  # the dump knows all the words but the one at fault
        words = {f.written: None for f in subject.launches[0].flags.values()} | {
            f"--{f.name}": None for f in subject.launches[0].flags.values()
        }
        dump = replace(dump, options={**(dump.options or {}), **words}, env=frozenset(subject.launches[0].env))
    return replace(subject, known=replace(subject.known, observations=ready.known.observations, dumps=(dump,)))


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_caught_by_its_rule(name: str) -> None:
    rule, worst, _ = FAULTS[name]
    subject = broken(name)
    assert verdict(subject, rule) is worst, [j.finding for j in report(subject).judged if j.finding.rule == rule]
    found = [j.finding for j in report(subject).judged if j.finding.rule == rule and j.finding.verdict is worst]
    assert all(item.where for item in found), "a finding says where"


def test_there_are_at_least_twenty() -> None:
    assert len(FAULTS) >= 20
    assert len({rule for rule, _, _ in FAULTS.values()}) >= 20


def test_what_the_build_does_not_take_or_print() -> None:
    """A value outside the choices, a metric that is absent, a connector that is not there: by the build's own dump."""
    flags = {"kv-cache-dtype": "fp4", "attention-backend": "MADE_UP"}
    subject = make(DP8, flags=flags)
    options = {**(dump_of(subject).options or {}), "--kv-cache-dtype": ("auto", "fp8")}
    dump = dump_of(subject, options=options, attention_backends=("ROCM_AITER_MLA",), metrics=frozenset({"vllm:other"}))
    told = replace(subject, known=replace(subject.known, dumps=(dump,)))
    assert {item.message.partition(" cannot")[0] for item in findings(told, "P2")} == {
        "--kv-cache-dtype",
        "--attention-backend",
    }
    assert verdict(told, "P2") is verdict(told, "P5") is Verdict.FAIL
    config = {"kv-transfer-config": {"kv_connector": "LMCacheConnectorV9"}}
    odd = make(DP8, flags=config, arm={"kv_offloading": "dram"})
    assert verdict(odd, "O3") is Verdict.UNKNOWN
    known_ = replace(odd.known, dumps=(dump_of(odd, connectors=frozenset({"LMCacheMPConnector"})),))
    assert verdict(replace(odd, known=known_), "O3") is Verdict.FAIL


def test_variables_that_only_nightlies_read() -> None:
    """Names like those that public recipes export for nightlies: the release's own list does not have them."""
    names = (
        "VLLM_DSV4_MEGA_FP8_COMBINE", "VLLM_RPC_TIMEOUT", "VLLM_ENABLE_K3_LATENT_MOE_TAIL_FUSION",
        "VLLM_USE_DIRECT_DCP_A2A", "VLLM_ROCM_AITER_MLA_ASM_PADDING", "VLLM_ROCM_USE_AITER_MOE_SITUV2_A8W4",
    )  # fmt: skip
    env = {**dict.fromkeys(names, "1"), "VLLM_ROCM_USE_AITER": "1", "VLLM_SERVER_DEV_MODE": "1"}
    found = findings(make(DP8, env=env, dumps=load_dumps()), "P6")
    assert {item.verdict for item in found} == {Verdict.WARN}
    assert [name for name in sorted(names) if not any(f"know {name}:" in item.message for item in found)] == []
    assert len(found) == len(names)


def test_a_router_that_is_named_but_not_started() -> None:
    subject = make(arm={"router": Component("vllm-router", "0.1.14")})
    assert verdict(subject, "R1") is Verdict.FAIL
    assert verdict(make(arm={"router": Component("vllm-router")}, router=ROUTER), "R6") is Verdict.UNKNOWN


def test_a_store_that_is_not_waited_for() -> None:
    flags = {"kv-transfer-config": {"kv_connector": "LMCacheMPConnector"}}
    store = service("lmcache", ["lmcache", "server"], role="cache")
    late = make(flags=flags, arm={"kv_offloading": "dram"}, services=(store,))
    ready = make(flags=flags, arm={"kv_offloading": "dram"}, services=(store,), after=("lmcache",))
    assert (verdict(late, "O1"), verdict(ready, "O1")) == (Verdict.WARN, Verdict.PASS)


SGLANG = {
    "framework": "sglang", "image": "lmsysorg/sglang:v0.5.3", "model": "deepseek-ai/DeepSeek-R1", "precision": "fp8",
    "runner": "b200", "free": 177.0,
}  # fmt: skip


def sglang(**flags: str) -> Subject:
    usual = {
        "tp": "8", "dp": "8", "enable-dp-attention": "", "ep-size": "8", "mem-fraction-static": "0.85",
        "max-running-requests": "256", "cuda-graph-max-bs": "32", "chunked-prefill-size": "65536",
    }  # fmt: skip
    words = ["python", "-m", "sglang.launch_server", "--model-path", DSV4]
    for name, value in {**usual, **flags}.items():
        words += [f"--{name}"] + ([value] if value else [])
    return make(DP8, argv=words, concurrency=64, **SGLANG)


def test_experts_that_do_not_divide_need_redundant_ones() -> None:
    """256 experts over 24 ranks: 8 more make 264 = 24 x 11."""

    def wide(**flags: str) -> Subject:
        subject = sglang(tp="24", dp="24", **{"ep-size": "24", **flags})
        cell = replace(subject.cell, arm=replace(subject.cell.arm, topology=Topology(24, ep=24, dp_attn=True)))
        return replace(subject, cell=cell)

    assert verdict(wide(), "P4") is Verdict.FAIL
    assert "8 redundant experts" in (findings(wide(), "P4")[0].hint or "")
    assert verdict(wide(**{"ep-num-redundant-experts": "8"}), "P4") is Verdict.PASS
    assert verdict(wide(**{"ep-num-redundant-experts": "4"}), "P4") is Verdict.FAIL


def test_sglang_limits_are_for_all_ranks() -> None:
    launch = sglang().launches[0]
    assert (launch.max_num_seqs, launch.budget, launch.topology) == (32, 8192, DP8)
    assert verdict(sglang(), "G1") is Verdict.PASS
    assert verdict(sglang(**{"cuda-graph-max-bs": "8"}), "G1") is Verdict.FAIL
    assert verdict(sglang(), "M3") is Verdict.PASS
    assert verdict(sglang(**{"mem-fraction-static": "0.5"}), "M3") is Verdict.FAIL


def test_retention_needs_windows() -> None:
    env = {"VLLM_PREFIX_CACHE_RETENTION_INTERVAL": "32768"}
    assert verdict(make(env=env), "M5") is Verdict.PASS
    dense = make(
        Topology(1), model="meta-llama/Llama-3.1-8B", runner="h200", image="vllm/vllm-openai:v0.24.0",
        precision="bf16", env=env,
    )  # fmt: skip
    assert verdict(dense, "M5") is Verdict.FAIL


def test_sglangs_host_cache_is_sized_a_rank() -> None:
    on = {"enable-hierarchical-cache": "", "hicache-size": "400"}
    subject = sglang(**on)
    cell = replace(subject.cell, arm=replace(subject.cell.arm, kv_offloading="dram", cpu_dram_gb=2000))
    assert verdict(replace(subject, cell=cell), "M8") is Verdict.FAIL  # 8 x 400 GB
    assert verdict(replace(subject, arch=make().arch), "O2") is Verdict.FAIL


def test_engines_without_rules_are_unknown() -> None:
    subject = make(framework="tilert", image="tilert/tilert:1.0")
    assert verdict(subject, "P0") is Verdict.UNKNOWN
    words = ["python", "-m", "atom", "--model", DSV4, "--tensor-parallel-size", "8"]
    atom = make(Topology(8), framework="atom", image="rocm/atom:v0.1.4", argv=words)
    assert verdict(atom, "G1") is Verdict.UNKNOWN


def test_a_fixed_length_cell_needs_only_its_lengths() -> None:
    scenario = Scenario("fixed-seq-len", isl=1024, osl=1024)
    subject = make(Topology(4, ep=4, dp_attn=True), scenario=scenario, concurrency=8)
    assert (subject.workload.longest, subject.workload.assumed, subject.workload.requests_per_lane) == (2048, False, 1)
    assert ROCM in subject.cell.benchmark.image
    assert items(["a"])[0] == Item("a")


def test_a_backend_needs_modules_that_not_every_image_has() -> None:
    """The name may be accepted and tuned for: without the kernel library the first layer is not built."""
    fused = {"moe-backend": "aiter_mega_moe", "all2all-backend": "mori_high_throughput"}
    subject = make(DP8, flags=fused, image="vllm/vllm-openai-rocm:v0.32.0")
    assert verdict(subject, "P7") is Verdict.UNKNOWN
    for there, expected in (({"flydsl": False}, Verdict.FAIL), ({}, Verdict.PASS)):
        modules = {"aiter": True, "mori": True, "flydsl": True, **there}
        known_ = replace(subject.known, dumps=(dump_of(subject, importable=modules),))
        found = findings(replace(subject, known=known_), "P7")
        assert {item.verdict for item in found} == {expected}, found
    assert "aiter_mega_moe` needs the module `flydsl`" in _fail(subject, {"aiter": True, "mori": True, "flydsl": False})
    older = dump_of(subject, importable={"aiter": True})  # one that was not asked about the others
    other = dump_of(subject, image="another/image:v0.32.0")  # and one of another image of the same release
    for dump in (older, other):
        assert verdict(replace(subject, known=replace(subject.known, dumps=(dump,))), "P7") is Verdict.UNKNOWN
    assert not findings(make(DP8), "P7")  # nothing is asked for
    nixl = make(DP8, flags={"kv-transfer-config": {"kv_connector": "NixlConnector"}})
    assert verdict(nixl, "P7") is Verdict.UNKNOWN


def _fail(subject: Subject, importable: dict[str, bool]) -> str:
    dumps = (dump_of(subject, importable=importable),)
    return findings(replace(subject, known=replace(subject.known, dumps=dumps)), "P7")[0].message


def test_sglangs_router_needs_its_own_header() -> None:
    words = ["python3", "-m", "sglang_router.launch_router", "--policy", "consistent_hashing", "--dp-aware"]
    subject = make(DP8, router=words)
    assert verdict(subject, "R1") is Verdict.FAIL
    sends = replace(subject, deployment=replace(subject.deployment, session_header="X-SMG-Routing-Key"))
    assert verdict(sends, "R1") is verdict(sends, "R2") is Verdict.PASS


def test_a_workload_is_no_longer_than_a_request_may_be() -> None:
    """The published contexts are longer than this model's: what cannot be sent need not be held."""
    how = {
        "model": "meta-llama/Llama-3.1-8B", "runner": "h200", "image": "vllm/vllm-openai:v0.24.0", "precision": "bf16",
        "free": 139.29, "concurrency": 4,
    }  # fmt: skip
    (found,) = findings(known(make(Topology(1), **how), 2.0), "M6")
    assert found.verdict is Verdict.PASS
    assert "4 lanes a rank x p95 context 131,072 = 524,288" in found.arithmetic
    assert "no longer than a request may be" in found.arithmetic


def test_arithmetic_is_whole() -> None:
    assert findings(make(DP8), "S4")[0].arithmetic.endswith("to schedule")
    assert findings(sglang(), "M3")[0].arithmetic.endswith("B a token")


def trt(batch_sizes: list[int] | None, concurrency: int = 32) -> Subject:
    file = json.dumps({"enable_attention_dp": True, "cuda_graph_config": {"batch_sizes": batch_sizes}})
    words = ["trtllm-serve", "deepseek-ai/DeepSeek-R1", "--tp_size", "8", "--ep_size", "8", "--max_batch_size", "8"]
    subject = make(
        DP8, framework="trt", image="nvcr.io/nvidia/tensorrt-llm/release:1.3.0", model="deepseek-ai/DeepSeek-R1",
        precision="fp8", runner="b200", argv=[*words, "--extra_llm_api_options", "llm_api.yaml"],
        concurrency=concurrency,
    )  # fmt: skip
    engine = replace(subject.deployment.services[0], files=(("llm_api.yaml", Item(file)),))
    return subject.with_service(engine)


def test_tensorrt_graphs_are_in_its_options_file() -> None:
    assert verdict(trt([1, 2, 4, 8]), "G1") is Verdict.PASS
    assert verdict(trt([1, 2]), "G1") is verdict(trt([1, 2]), "G5") is Verdict.FAIL
    (chain,) = findings(trt([]), "G5")  # what an if-chain on the concurrency leaves for a value it does not know
    assert "is empty at concurrency 32" in chain.message
    assert verdict(trt([]), "G1") is Verdict.FAIL  # what an if-chain leaves that knows no such concurrency
    assert verdict(trt(None), "G1") is Verdict.UNKNOWN
    assert verdict(trt([1, 2, 4, 8]), "P4") is Verdict.PASS
    assert verdict(trt([1, 2, 4, 8]), "M3") is Verdict.UNKNOWN


def test_a_nightly_is_known_by_the_dump_of_its_image() -> None:
    nightly = make(image="vllm/vllm-openai-rocm:nightly-0123456789abcdef")
    dumps = (dump_of(nightly, image=""), dump_of(nightly))
    assert verdict(replace(nightly, known=replace(nightly.known, dumps=dumps[:1])), "P1") is Verdict.UNKNOWN
    assert verdict(replace(nightly, known=replace(nightly.known, dumps=dumps)), "P1") is Verdict.PASS
