"""What each cell runs on, and what kind of source its points will be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.finding import Expectation
from ridgeline.core.point import Source
from ridgeline.core.record import Replay
from ridgeline.engine.emulated_argv import options_of_words
from ridgeline.engine.launched import ENGINE_ROLES
from ridgeline.recipes.assumed import assumed
from ridgeline.recipes.emulated import Assumed, deployed
from ridgeline.recipes.registry import RECIPES, Recipe, choose, deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.library import find_gpu, find_model, load_model
from ridgeline.spec.facts.model import ModelArch
from ridgeline.spec.settings import Settings, load_settings
from ridgeline.sweep.pinned import as_capped, named
from ridgeline.sweep.proof import of_emulated
from ridgeline.sweep.scripts import Script

Engine = Literal["real", "emulated"]
EMULATED = "emulated"
EMULATORS_OWN = "ridgeline:emulator_"  # beginning of metrics that no other engine has


def facts_of(cell: Cell, user: Settings | None = None) -> Facts:
    """Facts about a cell's model, GPU and fleet, those of the user's settings first. Raises InputError with every one
    that is unknown, at the cell's place."""
    benchmark, user = cell.benchmark, user or load_settings()
    fleet, path = user.fleet(benchmark.runner), user.model(benchmark.model, benchmark.model_prefix)
    problems: list[Problem] = []
    found: list[ModelArch | Gpu] = []
    finders: tuple[Callable[[], ModelArch | Gpu], ...] = (
        lambda: load_model(path) if path else find_model(benchmark.model),
        lambda: find_gpu(fleet.gpu if fleet else benchmark.runner),
    )
    for find in finders:
        try:
            found.append(find())
        except InputError as error:
            problems += [Problem(p.message, p.where or cell.where, p.key, p.hint) for p in error.problems]
    if problems:
        raise InputError(problems)
    arch, gpu = found
    assert isinstance(arch, ModelArch) and isinstance(gpu, Gpu)
    return Facts(arch, gpu, fleet, str(path) if path else None)


@dataclass(frozen=True, slots=True)
class Modelling:
    """Which engines a cell would start, as the engine model has them: by its recipe, the user's before the shipped
    ones. Of a script or command of the user's nothing can be read: the recipe that it stands for is asked then."""

    settings: RecipeSettings = field(default_factory=RecipeSettings)
    recipes: tuple[Recipe, ...] = RECIPES
    user: Settings | None = None
    parameters: Path | None = None  # cost parameters of the user's, a file or a folder of GPU-ENGINE.json

    def __call__(self, cell: Cell) -> Assumed:
        """Raises EnvironmentFailed for what is not modelled, InputError for unknown facts and for values that no
        engine takes."""
        readable = tuple(recipe for recipe in self.recipes if not isinstance(recipe.write, Script))
        found = assumed(as_capped(cell), facts_of(cell, self.user), self.settings, readable)
        script = script_for(cell, self.recipes)
        if script is None:
            return found
        return replace(found, recipe=f"{found.recipe}, in place of `{script.name}`, whose flags are not known")


def script_for(cell: Cell, recipes: Sequence[Recipe]) -> Recipe | None:
    """The script or command of the user's that starts a cell; None where a recipe does, or nothing."""
    fitting = [recipe for recipe in recipes if recipe.fits(cell)]
    chosen = choose(cell, fitting) if fitting else None
    return chosen if chosen is not None and isinstance(chosen.write, Script) else None


SHIPPED = Modelling()


@dataclass(frozen=True, slots=True)
class Deploy:
    """Calls the recipe of each cell. `engine` "emulated" runs every cell on the engine model, whatever its framework:
    asked for in so many words, never a stand-in for an engine that is missing. A script or command of the user's is
    started all the same, and must start an emulated engine then (see `same_source`)."""

    engine: Engine
    settings: RecipeSettings
    recipes: tuple[Recipe, ...] = RECIPES  # with the user's overrides before them, see sweep/overrides.py
    user: Settings | None = None  # whose fleets and models are asked first

    def __call__(self, cell: Cell) -> tuple[Deployment, Source]:
        """The deployment and the source of its points.

        Raises EnvironmentFailed for an engine that nothing here launches, InputError for unknown facts.
        """
        script = script_for(cell, self.recipes)
        if script is not None:
            assert isinstance(script.write, Script)
            deployment = replace(script.write(cell, None, self.settings), recipe=f"{script.name} ({script.reason})")
        elif self.engine == EMULATED:
            deployment = named(cell, self._modelled(cell))
        else:
            choose(cell, self.recipes)  # a framework nobody launches is the first thing to say
            facts = facts_of(cell, self.user)
            deployment = named(cell, deployment_of(as_capped(cell), facts, self.settings, self.recipes))
        emulates = deployment.kind == EMULATED or deployment.dialect == EMULATED or self.engine == EMULATED
        return deployment, Source.EMULATED if emulates else Source.MEASURED

    def _modelled(self, cell: Cell) -> Deployment:
        """The embedded engine in place of what the cell's recipe would start."""
        found = self.modelling(cell)
        deployment = deployed(cell, found, facts_of(cell, self.user), self.settings)
        own = cell.benchmark.framework == EMULATED
        return replace(deployment, recipe=found.recipe if own else f"emulated, for {found.recipe}")

    @property
    def modelling(self) -> Modelling:
        """The engines of cells as the engine model has them, for the same settings and recipes."""
        return Modelling(self.settings, self.recipes, self.user)


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


def expected_of_model(_: Cell, deployment: Deployment) -> tuple[Expectation, ...]:
    """What an engine on the engine model must show, since the model knows its memory and graphs exactly; nothing for
    other engines, whose promises the preflight makes."""
    if deployment.kind != EMULATED:
        return ()
    told = [options_of_words([item.text for item in s.argv]) for s in deployment.services if s.role in ENGINE_ROLES]
    promised = [of_emulated(options) for options in dict.fromkeys(told)]
    if len(promised) == 1:
        return promised[0]
    least = min(next(float(w.value) for w in wanted if w.name == "kv_tokens") for wanted in promised)
    held = [Expectation("kv_tokens", ">=", least, "tokens", "E9")]  # of every worker, so of the smallest pool
    return (*held, *(w for w in promised[0] if w.name != "kv_tokens" and all(w in wanted for wanted in promised)))
