"""Recipes of the user's own, named in the settings: `package.module:function`, `file.py:function`, a launch script or a
command (scripts.py).

A recipe is called like the shipped ones, with (cell, facts, settings), and returns a `core.deployment.Deployment`. Its
code is the user's and runs in this process. A file's path is read from the folder of the settings file.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import InputError, Problem
from ridgeline.recipes.registry import RECIPES, Recipe
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.settings import RecipeOverride, Settings
from ridgeline.sweep.scripts import Script


def recipes_with(settings: Settings) -> tuple[Recipe, ...]:
    """The shipped recipes, with the overrides before them in the order of the file. Raises InputError with every
    override that cannot be loaded."""
    problems: list[Problem] = []
    found: list[Recipe] = []
    folder = Path(settings.file).parent if settings.file else Path()
    for override in settings.recipes:
        try:
            write = _load(override, folder) if override.kind == "recipe" else _script(override, folder)
        except InputError as error:
            problems += error.problems
            continue
        found.append(Recipe(override.recipe, write, framework=None, cells=override.cells, where=override.where))
    if problems:
        raise InputError(problems)
    return (*found, *RECIPES)


def _script(override: RecipeOverride, folder: Path) -> Script:
    """A launch script, by its path from the settings' folder, or a command."""
    text = str(folder / override.recipe) if override.kind == "shell" else override.recipe
    return Script(override.kind, text, where=override.where)


def _load(override: RecipeOverride, folder: Path) -> Callable[[Cell, Facts, RecipeSettings], Deployment]:
    place, _, name = override.recipe.rpartition(":")

    def wrong(message: str) -> InputError:
        hint = "`package.module:function` or `file.py:function`"
        return InputError([Problem(message, override.where, "recipe", hint)])

    if not place or not name:
        raise wrong(f"`{override.recipe}` names no function")
    try:
        module = _file(folder / place) if place.endswith(".py") else importlib.import_module(place)
    except FileNotFoundError as error:
        raise wrong(f"there is no file `{folder / place}`") from error
    except Exception as error:  # whatever the user's code does while it is loaded is theirs to hear of
        raise wrong(f"`{place}` cannot be loaded: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        known = ", ".join(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise wrong(f"`{place}` has no function `{name}`" + (f"; it has {known}" if known else ""))

    def write(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
        deployment = function(cell, facts, settings)
        if not isinstance(deployment, Deployment):
            raise wrong(f"`{override.recipe}` returned {type(deployment).__name__}, not a Deployment")
        return deployment

    return write


def _file(path: Path) -> ModuleType:
    """A module from a file, under a name of its own so that two files of one name do not meet."""
    name = f"ridgeline_recipe_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
