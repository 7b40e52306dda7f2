"""What each cell runs on, and what kind of source its points will be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.finding import Expectation
from ridgeline.core.point import Source
from ridgeline.core.record import Replay
from ridgeline.recipes.emulated import emulated, options_of, pool_options
from ridgeline.recipes.registry import RECIPES, Recipe, choose, deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.library import find_gpu, find_model
from ridgeline.sweep.pinned import as_capped, named
from ridgeline.sweep.proof import of_emulated
from ridgeline.sweep.scripts import Script

Engine = Literal["real", "emulated"]
EMULATED = "emulated"
EMULATORS_OWN = "ridgeline:emulator_"  # beginning of metrics that no other engine has


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
    asked for in so many words, never a stand-in for an engine that is missing. A script or command of the user's is
    started all the same, and must start an emulated engine then (see `same_source`)."""

    engine: Engine
    settings: RecipeSettings
    recipes: tuple[Recipe, ...] = RECIPES  # with the user's overrides before them, see sweep/overrides.py

    def __call__(self, cell: Cell) -> tuple[Deployment, Source]:
        """The deployment and the source of its points.

        Raises EnvironmentFailed for an engine that nothing here launches, InputError for unknown facts.
        """
        recipes: Sequence[Recipe] = self.recipes
        if self.engine == EMULATED:
            scripts = (recipe for recipe in recipes if isinstance(recipe.write, Script))
            recipes = (*scripts, Recipe("emulated", emulated, cell.benchmark.framework))
        chosen = choose(cell, recipes)  # a framework nobody launches is the first thing to say
        if isinstance(chosen.write, Script):
            deployment = replace(chosen.write(cell, None, self.settings), recipe=f"{chosen.name} ({chosen.reason})")
        else:
            deployment = named(cell, deployment_of(as_capped(cell), facts_of(cell), self.settings, recipes))
        emulates = deployment.kind == EMULATED or deployment.dialect == EMULATED or self.engine == EMULATED
        return deployment, Source.EMULATED if emulates else Source.MEASURED


def same_source(source: Source, deployment: Deployment, replay: Replay) -> None:
    """What a user's script or command started must be what its points say. Raises EnvironmentFailed: an emulated engine
    tells by its metrics."""
    if deployment.kind not in ("shell", "command"):
        return
    values = [sample.values for sample in replay.samples if sample.values]
    emulates = any(name.startswith(EMULATORS_OWN) for page in values for name in page)
    if emulates and source is Source.MEASURED:
        message, hint = "what was started is the emulated engine", "say so: `--engine emulated`"
        raise EnvironmentFailed(message, hint=hint)
    if values and not emulates and source is Source.EMULATED:
        message = "what was started is no emulated engine, and its points would be called emulated"
        raise EnvironmentFailed(message, hint="name the engine as `framework`, and leave out `--engine emulated`")


def expected_of_model(cell: Cell, deployment: Deployment) -> tuple[Expectation, ...]:
    """What an engine on the engine model must show, since the model knows its memory and graphs exactly; nothing for
    other engines, whose promises the preflight makes."""
    if deployment.kind != EMULATED:
        return ()
    facts = facts_of(cell)
    if cell.arm.topology is not None:
        return of_emulated(options_of(cell, facts))
    pools = [of_emulated(options) for options in pool_options(cell, facts).values()]
    least = min(next(float(w.value) for w in wanted if w.name == "kv_tokens") for wanted in pools)
    held = [Expectation("kv_tokens", ">=", least, "tokens", "E9")]  # of every worker, so of the smallest pool
    return (*held, *(w for w in pools[0] if w.name != "kv_tokens" and all(w in wanted for wanted in pools)))
