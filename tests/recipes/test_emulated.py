"""A cell becomes a deployment of the embedded engine, or is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.topology import Pool, Topology
from ridgeline.recipes.emulated import emulated, options_of
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


def test_the_deployment_says_everything_the_engine_needs() -> None:
    deployment = deployment_of(CELL, FACTS, RecipeSettings(speed=20))
    words = [item.text for item in deployment.service("engine").argv]
    assert words[:4] == ["{python}", "-m", "ridgeline.cli.main", "emulate"]
    options = dict(zip(words[4::2], words[5::2], strict=False))
    assert options["--model"] == "Qwen/Qwen3-8B"
    assert options["--tp"] == "2"
    assert options["--speed"] == "20"
    assert options["--max-num-seqs"] == str(options_of(CELL, FACTS).max_num_seqs)
    assert deployment.recipe == "emulated (framework emulated)"


def test_speculation_and_sglang_order_are_passed_on() -> None:
    cell = replace(CELL, arm=Arm(Topology(2), spec_decoding="mtp"))
    cell = replace(cell, benchmark=replace(cell.benchmark, framework="sglang"))
    options = options_of(cell, FACTS)
    assert (options.num_speculative_tokens, options.prefill_first, options.engine) == (3, True, "sglang")
    words = [item.text for item in emulated(cell, FACTS, RecipeSettings()).service("engine").argv]
    assert words[words.index("--num-speculative-tokens") + 1] == "3"
    assert words[words.index("--engine") + 1] == "sglang"
    assert "--prefill-first" in words


def test_concurrencies_of_an_arm_share_a_deployment() -> None:
    other = replace(CELL, concurrency=64)
    assert deployment_of(CELL, FACTS, RecipeSettings()).digest == deployment_of(other, FACTS, RecipeSettings()).digest
    wider = replace(CELL, arm=Arm(Topology(4)))
    assert deployment_of(CELL, FACTS, RecipeSettings()).digest != deployment_of(wider, FACTS, RecipeSettings()).digest


@pytest.mark.parametrize(
    ("arm", "name"),
    [
        (Arm(Topology(2), kv_offloading="dram", kv_offload_backend=Component("lmcache")), "KV offloading `dram`"),
        (Arm(pools=(Pool("prefill", 1, Topology(2)), Pool("decode", 1, Topology(2)))), "disaggregated pools"),
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
