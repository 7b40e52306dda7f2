"""What every single-node recipe does alike: stores first, then the engine, then the router, as one deployment."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Service
from ridgeline.recipes.offload import Offload
from ridgeline.recipes.placement import ranks_of
from ridgeline.recipes.router import before_engine, session_header
from ridgeline.recipes.settings import RecipeSettings

START_TIMEOUT_S = 7200.0  # a checkpoint of 800 GiB over a shared file system, then compilation and capture


def timeout(settings: RecipeSettings) -> float:
    """Seconds an engine may take to be ready: the user's figure where it is longer than ours."""
    return max(settings.start_timeout_s, START_TIMEOUT_S)


def single_node(
    cell: Cell, engine: Service, settings: RecipeSettings, *, kind: str, stores: Offload | None = None
) -> Deployment:
    """Services in the order they start; they stop in reverse. The router, where there is one, takes the requests."""
    assert cell.arm.topology is not None, "a single-node cell has one topology"
    stores = stores or Offload()
    engine = replace(engine, after=stores.after, files=stores.files or engine.files)
    model = cell.benchmark.model
    router = before_engine(cell, ranks_of(cell.arm.topology).dp, model=model, timeout_s=timeout(settings))
    return Deployment(
        services=(*stores.services, engine, *((router,) if router else ())),
        entry="router" if router else "engine",
        served_model=model,
        kind=kind,
        metrics=("engine",),
        endpoint=settings.endpoint,
        session_header=session_header(cell),
    )
