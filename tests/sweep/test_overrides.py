"""Recipes of the user's own, named in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recipes.cells import cell

from ridgeline.core.errors import InputError
from ridgeline.core.point import Source
from ridgeline.recipes.registry import RECIPES, choose
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.spec.settings import load_settings
from ridgeline.sweep.deploy import Deploy
from ridgeline.sweep.overrides import recipes_with

OWN = """
from ridgeline.core.deployment import Deployment, Item, Service

def mine(cell, facts, settings):
    engine = Service("engine", (Item("serve"), Item(cell.benchmark.model)))
    return Deployment((engine,), entry="engine", served_model=cell.benchmark.model, kind="vllm")

def wrong(cell, facts, settings):
    return None
"""


def settings(tmp_path: Path, *recipes: str) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    lines = [f'- {{cells: "*/c32", recipe: "{recipe}"}}' for recipe in recipes]
    path = tmp_path / "ridgeline.yaml"
    path.write_text("recipes:\n" + "\n".join(lines) + "\n")
    return path


def test_a_file_beside_the_settings_writes_the_cells_it_names(tmp_path: Path) -> None:
    found = recipes_with(load_settings(settings(tmp_path, "own.py:mine")))
    deployment, source = Deploy("real", RecipeSettings(), found)(cell())
    assert [item.text for item in deployment.services[0].argv] == ["serve", "deepseek-ai/DeepSeek-V4-Pro"]
    assert deployment.recipe.startswith("own.py:mine (override for cells `*/c32` at ")
    assert source is Source.MEASURED
    assert choose(cell(concurrency=16), found).name == "dsv4-mi355x-vllm"


def test_a_module_function_is_an_override_too(tmp_path: Path) -> None:
    found = recipes_with(load_settings(settings(tmp_path, "ridgeline.recipes.generic_vllm:generic_vllm")))
    deployment, _ = Deploy("real", RecipeSettings(), found)(cell())
    assert "--moe-backend" not in [item.text for item in deployment.services[0].argv]


def test_without_overrides_the_shipped_recipes_are_left(tmp_path: Path) -> None:
    assert recipes_with(load_settings(None)) == RECIPES


def test_every_override_that_cannot_be_loaded_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    path = settings(tmp_path, "own.py:none", "gone.py:mine", "own.py", "broken.py:mine", "no.such.module:f")
    with pytest.raises(InputError) as refused:
        recipes_with(load_settings(path))
    said = [(problem.where.line if problem.where else 0, problem.message) for problem in refused.value.problems]
    assert [line for line, _ in said] == [2, 3, 4, 5, 6]
    texts = [text for _, text in said]
    assert "has no function `none`; it has Deployment" in texts[0]
    assert "there is no file" in texts[1]
    assert "names no function" in texts[2]
    assert "ZeroDivisionError" in texts[3]
    assert "cannot be loaded: ModuleNotFoundError" in texts[4]


def test_an_override_must_return_a_deployment(tmp_path: Path) -> None:
    found = recipes_with(load_settings(settings(tmp_path, "own.py:wrong")))
    with pytest.raises(InputError, match="returned NoneType, not a Deployment"):
        Deploy("real", RecipeSettings(), found)(cell())
