"""Which engine a cell runs on, and what its points will be called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.point import Source
from ridgeline.core.topology import Topology
from ridgeline.core.where import Where
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.sweep.deploy import Deploy

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
