"""What each cell runs on, and what kind of source its points will be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.finding import Expectation
from ridgeline.core.point import Source
from ridgeline.recipes.emulated import emulated, options_of
from ridgeline.recipes.registry import RECIPES, Recipe, choose, deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.library import find_gpu, find_model
from ridgeline.sweep.proof import of_emulated

Engine = Literal["real", "emulated"]
EMULATED = "emulated"


def facts_of(cell: Cell) -> Facts:
    """Facts about a cell's model and GPU. Raises InputError with every one that is unknown, at the cell's place."""
    problems: list[Problem] = []
    found = []
    for find, name in ((find_model, cell.benchmark.model), (find_gpu, cell.benchmark.runner)):
        try:
            found.append(find(name))
        except InputError as error:
            problems += [Problem(p.message, p.where or cell.where, p.key, p.hint) for p in error.problems]
    if problems:
        raise InputError(problems)
    return Facts(*found)  # type: ignore[arg-type]  # one of each, in this order


@dataclass(frozen=True, slots=True)
class Deploy:
    """Calls the recipe of each cell. `engine` "emulated" runs every cell on the engine model, whatever its framework:
    asked for in so many words, never a stand-in for an engine that is missing."""

    engine: Engine
    settings: RecipeSettings
    recipes: tuple[Recipe, ...] = RECIPES  # with the user's overrides before them, see sweep/overrides.py

    def __call__(self, cell: Cell) -> tuple[Deployment, Source]:
        """The deployment and the source of its points.

        Raises EnvironmentFailed for an engine that nothing here launches, InputError for unknown facts.
        """
        forced = (Recipe("emulated", emulated, cell.benchmark.framework),)
        recipes = forced if self.engine == "emulated" else self.recipes
        choose(cell, recipes)  # a framework nobody launches is the first thing to say
        deployment = deployment_of(cell, facts_of(cell), self.settings, recipes)
        return deployment, Source.EMULATED if deployment.kind == "emulated" else Source.MEASURED


def expected_of_model(cell: Cell, deployment: Deployment) -> tuple[Expectation, ...]:
    """What an engine on the engine model must show, since the model knows its memory and graphs exactly; nothing for
    other engines, whose promises the preflight makes."""
    if deployment.kind != EMULATED:
        return ()
    return of_emulated(options_of(cell, facts_of(cell)))
