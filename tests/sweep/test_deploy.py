"""Which engine a cell runs on, and what its points will be called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.cli.preflight import Subjects
from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.point import Source
from ridgeline.core.topology import Topology
from ridgeline.core.where import Where
from ridgeline.engine.emulated_argv import options_of_words
from ridgeline.engine.memory import memory_of
from ridgeline.plan.checks.memory import KV_SLACK
from ridgeline.plan.checks.subject import Knowledge
from ridgeline.recipes.registry import RECIPES, Recipe
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.spec.settings import Settings, load_settings
from ridgeline.sweep.deploy import Deploy, Modelling, expected_of_model
from ridgeline.sweep.pinned import pinned
from ridgeline.sweep.scripts import Script

BENCHMARK = Benchmark("k", "img", "Qwen/Qwen3-8B", "qwen3", "fp8", "emulated", "cluster:h200-nv")
CELL = Cell(BENCHMARK, Scenario("agentic-coding", duration_s=3600), Arm(Topology(1)), 4, Where("a.yaml", 7, 9))


def test_the_framework_emulated_gives_emulated_points() -> None:
    deployment, source = Deploy("real", RecipeSettings())(CELL)
    assert (deployment.kind, source) == ("emulated", Source.EMULATED)


def test_emulation_is_never_a_silent_stand_in() -> None:
    other = replace(CELL, benchmark=replace(BENCHMARK, framework="trt"))
    deployment, source = Deploy("real", RecipeSettings())(other)
    assert (deployment.kind, source) == ("trt", Source.MEASURED)
    _, source = Deploy("emulated", RecipeSettings())(other)
    assert source is Source.EMULATED
    nobodys = replace(CELL, benchmark=replace(BENCHMARK, framework="abacus"))
    with pytest.raises(EnvironmentFailed, match="framework `abacus`"):
        Deploy("real", RecipeSettings())(nobodys)


def test_unknown_model_and_gpu_are_told_together_with_their_place() -> None:
    stranger = replace(CELL, benchmark=replace(BENCHMARK, model="acme/Nothing-7B", runner="cluster:abacus"))
    with pytest.raises(InputError) as caught:
        Deploy("real", RecipeSettings())(stranger)
    text = str(caught.value)
    assert "acme/Nothing-7B" in text
    assert "abacus" in text
    assert text.count("a.yaml:7:9") == 2


REAL = replace(CELL, benchmark=replace(BENCHMARK, framework="vllm", image="vllm/vllm-openai:v0.26.0"))


def words(deployment: Deployment) -> list[str]:
    return [item.text for item in deployment.service("engine").argv]


def user(tmp_path: Path) -> Settings:
    path = tmp_path / "ridgeline.yaml"
    fleet = "{ gpu: h200, gpus-per-node: 8, free-memory-gib: 100, observed: 2026-11-30 }"
    path.write_text(f"fleets:\n  cluster:h200-nv: {fleet}\narms:\n- {{ cells: '*', share: pinned-caps }}\n")
    return load_settings(path)


def test_a_sweep_starts_what_the_users_fleet_can_give(tmp_path: Path) -> None:
    """Of 139.8 GiB a hundred are free: what is started asks for no more, as the preflight has it."""
    settings = user(tmp_path)
    deployment, _ = Deploy("real", RecipeSettings(), user=settings)(REAL)
    share = float(words(deployment)[words(deployment).index("--gpu-memory-utilization") + 1])
    assert share * 139.8 < 100
    checked = Subjects(settings, Knowledge()).of(REAL).deployment
    assert checked is not None and words(checked) == words(deployment)


def test_an_emulated_sweep_runs_the_engine_of_the_recipe(tmp_path: Path) -> None:
    settings = user(tmp_path)
    deploy = Deploy("emulated", RecipeSettings(), user=settings)
    deployment, source = deploy(REAL)
    assert source is Source.EMULATED
    assert deployment.recipe == "emulated, for vllm (framework vllm)"
    (engine,) = deploy.modelling(REAL).engines
    assert options_of_words(words(deployment)) == engine.options
    promised = {wanted.name: wanted.value for wanted in expected_of_model(REAL, deployment)}
    tokens = memory_of(engine.options).capacity.tokens
    assert promised["kv_tokens"] == int(tokens * (1 - KV_SLACK))
    assert promised["prefix_caching"] == "True"


def test_pinned_caps_are_those_of_the_engine_model_and_of_the_check(tmp_path: Path) -> None:
    settings = user(tmp_path)
    few, many = pinned([REAL, replace(REAL, concurrency=48)], settings)
    deploy = Deploy("emulated", RecipeSettings(), user=settings)
    assert {deploy.modelling(cell).decoding.max_num_seqs for cell in (few, many)} == {96}
    checked = Subjects(settings, Knowledge()).of(few).deployment
    assert checked is not None and words(checked)[words(checked).index("--max-num-seqs") + 1] == "96"


def test_a_script_of_the_users_stands_for_the_recipe_that_it_replaces(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve x\n")
    recipes = (Recipe("serve.sh", Script("shell", str(script)), None, cells="*"), *RECIPES)
    found = Modelling(recipes=recipes)(REAL)
    assert found.recipe == "vllm (framework vllm), in place of `serve.sh`, whose flags are not known"
    assert found.engines == Modelling()(REAL).engines
