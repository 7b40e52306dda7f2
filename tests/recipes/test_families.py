"""What each family decides, and what it refuses by name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.recipes.cells import DEP8, FIXED, POOLS, ROUTER, TP8, cell, deploy, facts, option, words

from ridgeline.core.cell import Arm, Cell, Component
from ridgeline.core.topology import Pool, Topology
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.registry import RECIPES, UNKNOWN, Recipe, choose


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "dsv4-mi355x-vllm"),
        ({"runner": "cluster:b300-nv"}, "dsv4-b300-vllm"),
        ({"runner": "b200-dgxc"}, "dsv4-b200-vllm"),
        ({"runner": "gb200"}, "vllm"),
        ({"precision": "fp8"}, "vllm"),
        ({"model_prefix": "qwen3"}, "vllm"),
        ({"framework": "sglang"}, "dsv4-sglang"),
        ({"framework": "sglang", "model_prefix": "glm5.2"}, "sglang"),
        ({"arm": POOLS}, "vllm"),
    ],
)
def test_the_most_specific_recipe_is_chosen(changes: dict[str, object], name: str) -> None:
    assert choose(cell(**changes)).name == name  # type: ignore[arg-type]


def test_the_reason_is_shown() -> None:
    found = deploy(cell()).recipe
    assert found == "dsv4-mi355x-vllm (framework vllm, model prefix dsv4, precision fp4, GPU mi355x)"


def test_an_override_comes_before_what_is_more_specific() -> None:
    own = Recipe("own.py:mine", RECIPES[1].write, framework=None, cells="*/TP8-mtp/*")
    assert choose(cell(), (own, *RECIPES)) is own
    assert own.reason == "override for cells `*/TP8-mtp/*`"
    assert choose(cell(arm=Arm(Topology(4))), (own, *RECIPES)).name == "dsv4-mi355x-vllm"


@pytest.mark.parametrize("framework", sorted(UNKNOWN))
def test_frameworks_without_known_flags_are_refused_with_the_reason(framework: str) -> None:
    with pytest.raises(CannotRender, match=f"framework `{framework}`") as refused:
        choose(cell(framework=framework))
    assert UNKNOWN[framework] in refused.value.what


@pytest.mark.parametrize(
    ("of", "what"),
    [
        (cell(arm=Arm(TP8, router=Component("other", "1"))), "router `other 1`"),
        (cell(arm=Arm(TP8, kv_offloading="dram", kv_offload_backend=Component("odd"), cpu_dram_gb=9)), "`odd`"),
        (cell(arm=Arm(TP8, kv_offloading="dram")), "without a host-memory budget"),
        (cell(arm=replace(POOLS, router=None)), "3 workers without a router"),
        (cell(arm=replace(POOLS, kv_p2p_transfer="pigeon")), "KV transfer `pigeon`"),
        (cell(framework="trt", arm=POOLS), "TensorRT-LLM"),
        (cell(framework="atom", arm=POOLS), "ATOM"),
        (
            cell(framework="sglang", arm=Arm(TP8, kv_offloading="dram", kv_offload_backend=Component("mooncake"))),
            "`mooncake` with SGLang",
        ),
        (
            cell(arm=Arm(TP8, spec_decoding="mtp"), model="Qwen/Qwen3-8B", model_prefix="qwen3", precision="bf16"),
            "without a named draft model",
        ),
        (cell(framework="dynamo-vllm"), "Dynamo on one node"),
    ],
)
def test_what_a_recipe_cannot_write_is_named(of: Cell, what: str) -> None:
    with pytest.raises(CannotRender) as refused:
        deploy(of)
    assert what in refused.value.what
    assert of.name in refused.value.message


def test_the_expert_kernel_follows_build_and_layout() -> None:
    """ROCm's fused kernel: data-parallel ranks with spread experts, in builds that have it."""
    ranks = Arm(DEP8, router=ROUTER)
    for image, arm, backend in (
        ("vllm/vllm-openai-rocm:v0.26.0", ranks, "aiter"),
        ("vllm/vllm-openai-rocm:v0.32.0", ranks, "aiter_mega_moe"),
        ("vllm/vllm-openai-rocm:v0.32.0", Arm(TP8), "aiter"),
        ("vllm/vllm-openai-rocm:v0.32.0", Arm(Topology(8, dp_attn=True), router=ROUTER), "aiter"),
    ):
        argv = words(deploy(cell(arm=arm, image=image)))
        assert option(argv, "--moe-backend") == backend
        assert ("--all2all-backend" in argv) == (backend == "aiter_mega_moe"), "the kernel runs on that exchange only"


def test_ranks_and_experts_in_vllms_words() -> None:
    argv = words(deploy(cell(arm=Arm(DEP8, router=ROUTER))))
    assert option(argv, "--tensor-parallel-size") == "1"
    assert option(argv, "--data-parallel-size") == "8"
    assert "--enable-expert-parallel" in argv
    assert "--enable-expert-parallel" not in words(deploy(cell()))


def test_the_router_knows_the_ranks_and_the_session_header() -> None:
    deployment = deploy(cell(arm=Arm(DEP8, router=ROUTER)))
    assert option(words(deployment, "router"), "--intra-node-data-parallel-size") == "8"
    assert deployment.session_header == "X-Session-ID"
    assert deployment.entry == "router"
    ready = deployment.service("router").readiness
    assert ready is not None
    assert ready.lists is False, "0.1.14 answers 404 at /v1/models when it expands ranks"
    newer = deploy(cell(arm=Arm(DEP8, router=Component("vllm-router", "0.1.17")))).service("router").readiness
    assert newer is not None
    assert newer.lists is None


def test_memory_of_mi355x_is_what_its_fleet_was_seen_to_have_free() -> None:
    assert option(words(deploy(cell())), "--gpu-memory-utilization") == "0.86"


def test_sequences_per_rank() -> None:
    """MI355X: the concurrency on each rank. B200: an even share of twice that."""
    ranks = Arm(DEP8, router=ROUTER)
    assert option(words(deploy(cell(arm=ranks, concurrency=224))), "--max-num-seqs") == "224"
    assert option(words(deploy(cell(arm=ranks, concurrency=224, runner="b200"))), "--max-num-seqs") == "56"
    assert option(words(deploy(cell(concurrency=48))), "--max-num-seqs") == "96"


def test_sglang_divides_its_limits_by_the_ranks() -> None:
    argv = words(deploy(cell(arm=Arm(DEP8), concurrency=64, framework="sglang")))
    assert option(argv, "--max-running-requests") == "128"
    assert option(argv, "--chunked-prefill-size") == str(8 * 8192)
    assert option(argv, "--cuda-graph-max-bs") == "16"


def test_one_lane_on_eight_ranks_still_admits_one_sequence_each() -> None:
    argv = words(deploy(cell(arm=Arm(DEP8), concurrency=1, framework="sglang")))
    assert int(option(argv, "--max-running-requests")) // 8 >= 1


def test_fixed_lengths_need_only_their_own_context() -> None:
    of = cell(arm=Arm(TP8), scenario=FIXED)
    assert option(words(deploy(of)), "--max-model-len") == str(1024 + 1024 + 256)
    assert option(words(deploy(cell(arm=Arm(TP8)))), "--max-model-len") == str(facts(of).arch.max_len)


def test_offloaded_bytes_are_the_budget_shared_by_the_engines() -> None:
    """Each data-parallel rank is an engine that allocates what it is told; the budget is in decimal GB."""
    for topology, engines in ((TP8, 1), (DEP8, 8)):
        arm = Arm(topology, kv_offloading="dram", kv_offload_backend=Component("native"), cpu_dram_gb=2000)
        size = int(option(words(deploy(cell(arm=arm))), "--kv-offloading-size"))
        assert size * 2**30 * engines <= 2000 * 10**9 < (size + 1) * 2**30 * engines


def test_mooncakes_buffers_come_out_of_the_budget() -> None:
    arm = Arm(TP8, kv_offloading="dram", kv_offload_backend=Component("mooncake"), cpu_dram_gb=2000)
    engine = deploy(cell(arm=arm)).service("engine")
    (name, item), *_ = engine.files or ()
    file = json.loads(item.text)
    assert (name, engine.after) == ("mooncake.json", ("mooncake",))
    assert 8 * (file["global_segment_size"] + file["local_buffer_size"]) <= 2000 * 10**9


def test_hicache_never_asks_for_more_than_the_budget() -> None:
    arm = Arm(TP8, kv_offloading="dram", kv_offload_backend=Component("hicache"), cpu_dram_gb=2000)
    of = cell(arm=arm, framework="sglang", runner="b300")
    ratio = float(option(words(deploy(of)), "--hicache-ratio"))
    most = 0.88 * facts(of).gpu.memory_bytes  # a device pool cannot be larger than the static fraction
    assert ratio * most * 8 > 0
    assert ratio * (most - 100 * 2**30) * 8 <= 2000 * 10**9, "weights take more than 100 GiB of it"


def test_nodes_of_a_wide_engine_lend_their_ranks() -> None:
    wide = Arm(pools=(Pool("prefill", 1, Topology(1, ep=16, dp_attn=True)), Pool("decode", 0, Topology(1))))
    deployment = deploy(cell(arm=wide))
    lender, leader = deployment.services
    assert [lender.node, leader.node] == [1, 0]
    argv = [item.text for item in lender.argv]
    assert "--headless" in argv
    assert option(argv, "--data-parallel-start-rank") == "8"
    assert option(argv, "--data-parallel-address") == "{host:prefill0}"
    assert "--kv-transfer-config" not in argv, "nothing is handed over without a decode pool"
    assert deployment.entry == leader.name


def test_a_rank_wider_than_a_node_spans_it() -> None:
    wide = Arm(pools=(Pool("prefill", 1, Topology(16)), Pool("decode", 0, Topology(16))))
    argv = [item.text for item in deploy(cell(arm=wide)).services[0].argv]
    assert (option(argv, "--nnodes"), option(argv, "--node-rank")) == ("2", "1")
    assert option(argv, "--master-addr") == "{host:prefill0}"
