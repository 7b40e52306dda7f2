"""Finds the recipe of a cell: by framework, model prefix, precision and GPU, most specific first, generic last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.recipes.emulated import emulated
from ridgeline.recipes.settings import Facts, RecipeSettings

Write = Callable[[Cell, Facts, RecipeSettings], Deployment]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function from a cell to a deployment, and the cells it is for. None fits anything; `gpu` is the beginning of
    the hardware's name (`mi355x` fits `cluster:mi355x-amds`)."""

    name: str
    write: Write
    framework: str
    model_prefix: str | None = None
    precision: str | None = None
    gpu: str | None = None

    def fits(self, cell: Cell) -> bool:
        benchmark = cell.benchmark
        hardware = benchmark.runner.removeprefix("cluster:")
        return (
            self.framework == benchmark.framework
            and self.model_prefix in (None, benchmark.model_prefix)
            and self.precision in (None, benchmark.precision)
            and (self.gpu is None or hardware.startswith(self.gpu))
        )

    @property
    def keys(self) -> int:
        """How specific it is."""
        return sum(key is not None for key in (self.model_prefix, self.precision, self.gpu))


RECIPES: tuple[Recipe, ...] = (Recipe("emulated", emulated, framework="emulated"),)


def choose(cell: Cell, recipes: Sequence[Recipe] = RECIPES) -> Recipe:
    """The most specific recipe that fits. Raises EnvironmentFailed, naming the framework, when none does."""
    fitting = [recipe for recipe in recipes if recipe.fits(cell)]
    if not fitting:
        known = ", ".join(sorted({recipe.framework for recipe in recipes}))
        raise EnvironmentFailed(
            f"no recipe launches framework `{cell.benchmark.framework}` (cell {cell.name}); known: {known}",
            hint="`--engine emulated` runs the cell on the engine model, and its points say so",
        )
    return max(fitting, key=lambda recipe: recipe.keys)


def deployment_of(
    cell: Cell, facts: Facts, settings: RecipeSettings, recipes: Sequence[Recipe] = RECIPES
) -> Deployment:
    """The deployment of a cell, with the recipe that wrote it and why it was chosen."""
    recipe = choose(cell, recipes)
    benchmark = cell.benchmark
    named = [
        f"{key} {value}"
        for key, value, wanted in (
            ("model prefix", benchmark.model_prefix, recipe.model_prefix),
            ("precision", benchmark.precision, recipe.precision),
            ("GPU", benchmark.runner, recipe.gpu),
        )
        if wanted is not None
    ]
    reason = ", ".join([f"framework {recipe.framework}", *named])
    return replace(recipe.write(cell, facts, settings), recipe=f"{recipe.name} ({reason})")
