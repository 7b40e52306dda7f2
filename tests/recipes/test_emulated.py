"""A cell becomes a deployment of the embedded engine, or is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.topology import Pool, Topology
from ridgeline.engine.options import EngineOptions
from ridgeline.recipes.emulated import defaults, emulated
from ridgeline.recipes.placement import occupied, ranks_in
from ridgeline.recipes.registry import Recipe, choose, deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.library import find_gpu, find_model

CELL = Cell(
    Benchmark("k", "img", "Qwen/Qwen3-8B", "qwen3", "fp8", "emulated", "cluster:h200-nv"),
    Scenario("agentic-coding", duration_s=3600),
    Arm(Topology(2, ep=1)),
    16,
)

FACTS = Facts(find_model("Qwen/Qwen3-8B"), find_gpu("h200"))


def options_of(cell: Cell) -> EngineOptions:
    return defaults(cell, FACTS, RecipeSettings()).decoding


def test_the_deployment_says_everything_the_engine_needs() -> None:
    deployment = deployment_of(CELL, FACTS, RecipeSettings(speed=20))
    words = [item.text for item in deployment.service("engine").argv]
    assert words[:4] == ["{python}", "-m", "ridgeline.cli.main", "emulate"]
    options = dict(zip(words[4::2], words[5::2], strict=False))
    assert options["--model"] == "Qwen/Qwen3-8B"
    assert options["--tp"] == "2"
    assert options["--speed"] == "20"
    assert options["--max-num-seqs"] == str(options_of(CELL).max_num_seqs)
    assert deployment.recipe == "emulated (framework emulated)"


def test_speculation_and_sglang_order_are_passed_on() -> None:
    cell = replace(CELL, arm=Arm(Topology(2), spec_decoding="mtp"))
    cell = replace(cell, benchmark=replace(cell.benchmark, framework="sglang"))
    options = options_of(cell)
    assert (options.num_speculative_tokens, options.prefill_first, options.engine) == (3, True, "sglang")
    words = [item.text for item in emulated(cell, FACTS, RecipeSettings()).service("engine").argv]
    assert words[words.index("--num-speculative-tokens") + 1] == "3"
    assert words[words.index("--engine") + 1] == "sglang"
    assert "--prefill-first" in words


def test_stages_of_a_pipeline_are_passed_on() -> None:
    deployment = deployment_of(replace(CELL, arm=Arm(Topology(2, pp=4))), FACTS, RecipeSettings())
    words = [item.text for item in deployment.service("engine").argv]
    assert words[words.index("--pp") + 1] == "4"
    assert "--pp" not in [item.text for item in deployment_of(CELL, FACTS, RecipeSettings()).service("engine").argv]


def test_shared_contexts_are_passed_on() -> None:
    deployment = deployment_of(replace(CELL, arm=Arm(Topology(4, dcp=2, pcp=2))), FACTS, RecipeSettings())
    words = [item.text for item in deployment.service("engine").argv]
    assert [words[words.index(flag) + 1] for flag in ("--tp", "--dcp", "--pcp")] == ["4", "2", "2"]


def test_concurrencies_of_an_arm_share_a_deployment() -> None:
    other = replace(CELL, concurrency=64)
    assert deployment_of(CELL, FACTS, RecipeSettings()).digest == deployment_of(other, FACTS, RecipeSettings()).digest
    wider = replace(CELL, arm=Arm(Topology(4)))
    assert deployment_of(CELL, FACTS, RecipeSettings()).digest != deployment_of(wider, FACTS, RecipeSettings()).digest


@pytest.mark.parametrize(
    ("arm", "name"),
    [
        (
            Arm(Topology(2), kv_offloading="dram", kv_offload_backend=Component("lmcache")),
            "KV offloading without a host-memory budget",
        ),
        (Arm(pools=(Pool("decode", 1, Topology(2, ep=8, dp_attn=True)),)), "4 data-parallel ranks of 2 GPUs each"),
    ],
)
def test_what_the_model_does_not_cover_is_refused_by_name(arm: Arm, name: str) -> None:
    with pytest.raises(EnvironmentFailed, match=name):
        deployment_of(replace(CELL, arm=arm), FACTS, RecipeSettings())


def test_a_framework_nobody_launches_is_refused_by_name() -> None:
    with pytest.raises(EnvironmentFailed, match="framework `tilert`"):
        choose(replace(CELL, benchmark=replace(CELL.benchmark, framework="tilert")))


def test_the_most_specific_recipe_wins_and_says_why() -> None:
    def write(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
        return Deployment(services=(), entry="", served_model="", kind="x")

    recipes = (
        Recipe("generic", write, "emulated"),
        Recipe("qwen3", write, "emulated", model_prefix="qwen3"),
        Recipe("qwen3-h200", write, "emulated", model_prefix="qwen3", gpu="h200"),
        Recipe("other", write, "emulated", model_prefix="dsv4", gpu="h200", precision="fp8"),
    )
    assert choose(CELL, recipes).name == "qwen3-h200"
    found = deployment_of(CELL, FACTS, RecipeSettings(), recipes).recipe
    assert found == "qwen3-h200 (framework emulated, model prefix qwen3, GPU h200)"


POOLS = replace(
    CELL, arm=Arm(pools=(Pool("prefill", 2, Topology(2)), Pool("decode", 1, Topology(8, ep=1, dp_attn=True))))
)


def test_pools_become_workers_that_hand_kv_over_behind_a_router() -> None:
    deployment = deployment_of(POOLS, FACTS, RecipeSettings())
    assert [(s.name, s.role, s.node, s.gpus and len(s.gpus)) for s in deployment.services] == [
        ("prefill0", "prefill", 0, 2), ("prefill1", "prefill", 0, 2), ("decode0", "decode", 1, 8),
        ("router", "router", 0, None),
    ]  # fmt: skip
    words = {s.name: [item.text for item in s.argv] for s in deployment.services}
    assert words["prefill1"][words["prefill1"].index("--kv-role") + 1] == "producer"
    assert words["decode0"][words["decode0"].index("--kv-role") + 1] == "consumer"
    assert words["decode0"][words["decode0"].index("--host") + 1] == "{host:decode0}"
    assert "--dp-attn" in words["decode0"]
    router = words["router"]
    assert [router[i + 1] for i, word in enumerate(router) if word == "--prefill"] == [
        "http://{host:prefill0}:{port:prefill0.http}", "http://{host:prefill1}:{port:prefill1.http}",
    ]  # fmt: skip
    assert deployment.entry == "router"
    assert set(deployment.metrics) == {"prefill0", "prefill1", "decode0", "router"}
    assert deployment.service("router").after == ("prefill0", "prefill1", "decode0")


def test_a_pool_without_decode_workers_serves_whole_requests() -> None:
    aggregated = replace(POOLS, arm=Arm(pools=(Pool("prefill", 2, Topology(2)), Pool("decode", 0, Topology(2)))))
    deployment = emulated(aggregated, FACTS, RecipeSettings())
    router = [item.text for item in deployment.service("router").argv]
    assert router.count("--worker") == 2
    assert "--prefill" not in router
    engine = [item.text for item in deployment.service("prefill0").argv]
    assert engine[engine.index("--kv-role") + 1] == "both"


def test_gpus_and_ranks_are_those_of_the_workers() -> None:
    assert occupied(POOLS) == {"prefill": 4, "decode": 8}
    assert ranks_in(POOLS) == 2 + 8
    assert (occupied(CELL), ranks_in(CELL)) == ({"engine": 2}, 1)
    wide = replace(CELL, arm=Arm(pools=(Pool("prefill", 3, Topology(1, ep=8, dp_attn=True)),)))
    assert occupied(wide) == {"prefill": 24}, "tp 1 with ep 8 is an engine of eight GPUs"


def test_an_accuracy_run_pins_no_acceptance() -> None:
    cell = replace(CELL, arm=Arm(Topology(2), spec_decoding="mtp"))
    cell = replace(cell, benchmark=replace(cell.benchmark, framework="vllm"))
    timed, scored = (
        [item.text for item in emulated(cell, FACTS, RecipeSettings(accuracy=accuracy)).service("engine").argv]
        for accuracy in (False, True)
    )
    assert "--acceptance-length" in timed
    assert "--acceptance-length" not in scored
