"""The engines of a cell as the engine model has them: read out of the recipe that would launch the cell.

    cell --recipe--> deployment --reader of the engine's command lines--> launches --> options, and what they rest on

So a prediction and an emulated sweep are of the engine that a real sweep would start: its share of memory, limits,
graphs, drafts, host tier and router. What a recipe has no flags for is put back in the cell's own words; where no
recipe writes the cell at all, or its engine's command line is not read, the engine's defaults are taken.
`Assumed.recipe` says so. Nothing is started here.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Service
from ridgeline.engine.builds import Build, build_of
from ridgeline.engine.emulated_argv import options_of_words
from ridgeline.engine.formats import formats_run
from ridgeline.engine.launched import ENGINE_ROLES, READERS, Around, Launched, kind_of, launch_of, options_of_launch
from ridgeline.engine.options import EngineOptions
from ridgeline.engine.routing import Spread, spread
from ridgeline.recipes.emulated import (
    DRAFTS,
    Assumed,
    Modelled,
    build_name,
    defaults,
    emulated,
    host_share,
    with_budget,
)
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.registry import RECIPES, Recipe, choose, deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.observations import Observation, load_observations

OPAQUE = ("shell", "command")  # kinds whose command lines are a user's own


def assumed(
    cell: Cell,
    facts: Facts,
    settings: RecipeSettings,
    recipes: Sequence[Recipe] = RECIPES,
    observations: Sequence[Observation] | None = None,
) -> Assumed:
    """The engines of a cell. Raises EnvironmentFailed for what is not modelled, by name, and InputError for values that
    no engine would take."""
    try:
        if choose(cell, recipes).write is emulated:
            return replace(defaults(cell, facts, settings), recipe="emulated (framework emulated)")
        written, deployment = cell, deployment_of(cell, facts, settings, recipes)
        left_out = ""
    except CannotRender as error:
        left_out = error.what
        nearest = _nearest(cell, facts, settings, recipes)
        if nearest is None:
            found = defaults(cell, facts, settings)
            near = difflib.get_close_matches(
                cell.benchmark.framework, {recipe.framework for recipe in recipes if recipe.framework}, 1, 0.8
            )
            maybe = f" (did you mean `{near[0]}`?)" if near and near[0] != cell.benchmark.framework else ""
            return replace(found, recipe=f"no recipe writes {left_out}{maybe}: the engine's defaults")
        written, deployment = nearest
    engines = any(service.role in ENGINE_ROLES for service in deployment.services)
    if deployment.kind == "emulated" and engines:
        return _told(deployment)
    kind = kind_of(cell.benchmark.framework)
    build = build_of(cell.benchmark.image, kind if kind in READERS else kind_of(deployment.kind))
    if deployment.kind in OPAQUE or build.kind not in READERS or not engines:
        found = defaults(cell, facts, settings)
        return replace(found, recipe=f"{deployment.recipe}: its flags are not known, the engine's defaults")
    seen = load_observations() if observations is None else observations
    found = _launched(cell, facts, settings, deployment, build, seen)
    return _put_back(cell, written, facts, found, left_out) if left_out else found


def _nearest(
    cell: Cell, facts: Facts, settings: RecipeSettings, recipes: Sequence[Recipe]
) -> tuple[Cell, Deployment] | None:
    """The cell without what its recipe has no flags for, and how that is started; None where it is not enough."""
    stored = replace(cell.arm, kv_offloading="none", kv_offload_backend=None)
    for arm in (stored, replace(cell.arm, spec_decoding="none"), replace(stored, spec_decoding="none")):
        easier = replace(cell, arm=arm)
        try:
            return easier, deployment_of(easier, facts, settings, recipes)
        except CannotRender:
            continue
    return None


def _put_back(cell: Cell, written: Cell, facts: Facts, found: Assumed, left_out: str) -> Assumed:
    """What the recipe left out, as the cell's own words have it: drafts of the usual number from something that costs
    no memory, and a host tier of the whole budget, before prefill engines where there are such."""
    engines = []
    for engine in found.engines:
        options = engine.options
        if written.arm.spec_decoding != cell.arm.spec_decoding:
            options = replace(
                options,
                num_speculative_tokens=DRAFTS,
                draft_layer=False,
                cudagraph_capture_sizes=None,  # as recipes have it: every batch that is admitted
                max_cudagraph_capture_size=options.max_num_seqs * (1 + DRAFTS),
            )
        if written.arm.kv_offloading != cell.arm.kv_offloading and (engine.role == "prefill" or not found.split):
            options = with_budget(cell, facts, options)
        engines.append(replace(engine, options=options))
    recipe = f"{found.recipe}; {left_out}, for which it has no flags, in the cell's own words"
    return replace(found, engines=tuple(engines), recipe=recipe)


def _launched(
    cell: Cell,
    facts: Facts,
    settings: RecipeSettings,
    deployment: Deployment,
    build: Build,
    observations: Sequence[Observation],
) -> Assumed:
    router = next((service for service in deployment.services if service.role == "router"), None)
    around = Around(
        arch=facts.arch,
        gpu=facts.gpu,
        precision=cell.benchmark.precision,
        formats=formats_run(facts.arch, cell.benchmark.precision, facts.gpu),
        image=cell.benchmark.image,
        engine=build_name(cell.benchmark.framework),
        observations=observations,
        free_gib=facts.fleet.free_memory_gib if facts.fleet else None,
        services=deployment.services,
        share=host_share(cell, facts),
        seed=settings.seed,
    )
    policy, engines, notes = "session", list[Modelled](), dict[str, None]()
    made: dict[tuple[str, ...], tuple[Launched, Spread]] = {}  # equal workers are equal engines
    for service in _leading(deployment.services):
        items = (*service.argv, *(value for _, value in service.env))
        key = tuple(item.text.replace(service.name, "") for item in items)
        if key not in made:
            launch = launch_of(service, build, facts.gpu, facts.arch.family)
            way = spread(router, launch)
            made[key] = options_of_launch(launch, replace(around, router=way.ranks)), way
        (options, said), way = made[key]
        policy = way.engines
        notes |= dict.fromkeys([*said, *([way.note] if way.note else [])])
        engines.append(_placed(service, options))
    return Assumed(tuple(engines), policy, deployment.recipe, tuple(notes))


def _leading(services: Sequence[Service]) -> list[Service]:
    """One engine service a worker: of those that share one over nodes, the one that answers."""
    found: dict[object, Service] = {}
    for service in services:
        if service.role not in ENGINE_ROLES:
            continue
        key = service.name if service.pool is None else (service.pool, service.worker)
        if key not in found or (found[key].readiness is None and service.readiness is not None):
            found[key] = service
    return list(found.values())


def _told(deployment: Deployment) -> Assumed:
    """Engines of a recipe that starts the embedded engine itself: what it tells them."""
    engines = [
        _placed(service, options_of_words([item.text for item in service.argv]))
        for service in deployment.services
        if service.role in ENGINE_ROLES
    ]
    words = [item.text for service in deployment.services if service.role == "router" for item in service.argv]
    policy = words[words.index("--policy") + 1] if "--policy" in words else "session"
    return Assumed(tuple(engines), policy, deployment.recipe)


def _placed(service: Service, options: EngineOptions) -> Modelled:
    return Modelled(
        service.name, service.role, options, service.pool, service.worker, service.node, service.gpus
    )  # fmt: skip
