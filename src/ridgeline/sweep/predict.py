"""Every cell of a search space as a predicted point, in virtual time: same pacing, same prompts, same aggregation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ridgeline import __version__
from ridgeline.core.cell import Cell
from ridgeline.core.errors import RidgelineError
from ridgeline.core.point import Point, Source
from ridgeline.core.record import Replay
from ridgeline.recipes.emulated import options_of
from ridgeline.results.aggregate import aggregate
from ridgeline.results.identity import run_key
from ridgeline.simulate.engine import engine_of
from ridgeline.simulate.virtual import simulate
from ridgeline.sweep.deploy import facts_of
from ridgeline.sweep.pools import estimated
from ridgeline.sweep.run import asked
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload


class Prediction(NamedTuple):
    """A cell's predicted point with the virtual replay behind it, or why there is none."""

    cell: Cell
    point: Point | None
    replay: Replay | None
    refusal: str = ""


def predict(cell: Cell, settings: SweepSettings, workload: Workload) -> Prediction:
    """One cell. What the engine model does not cover is a refusal by name, not an exception."""
    cell = asked(cell, settings)
    try:
        options = options_of(cell, facts_of(cell), seed=settings.seed)
        engine = engine_of(options, lazy=True)
    except RidgelineError as error:
        return Prediction(cell, None, None, error.message)
    key = run_key(
        cell,
        None,
        image=cell.benchmark.image,
        model_revision=None,
        trace_digest=workload.digest(cell),
        replay_settings=settings.identity(),
        source=Source.PREDICTED,
    )
    load = workload.load(cell, f"{key[:16]}.1", cell.benchmark.model)
    replay = simulate(load.pacer, load.prompts, options, seed=settings.seed, engine=engine)
    point = aggregate(
        replay,
        cell=cell,
        source=Source.PREDICTED,
        run_key=key,
        provenance={
            "ridgeline": __version__,
            "trace": workload.source(cell),
            "trace_digest": workload.digest(cell),
            "settings": settings.identity(),
        },
    )
    return Prediction(cell, point, replay)


def predict_all(
    cells: Sequence[Cell],
    settings: SweepSettings,
    workload: Workload,
    listen: Callable[[int, Prediction], None] = lambda index, prediction: None,
) -> list[Prediction]:
    """Every cell in order; `listen` hears of each, counted from 1, as it is done."""
    found = []
    for index, cell in enumerate(cells, 1):
        found.append(predict(cell, settings, workload))
        listen(index, found[-1])
    return found


def placed_all(cells: Sequence[Cell], settings: SweepSettings, workload: Workload) -> list[Prediction]:
    """As `predict_all`, for choosing among cells: those with pools are placed by their steady state (pools.py)."""
    return [_placed(found, settings, workload) for found in predict_all(cells, settings, workload)]


def _placed(found: Prediction, settings: SweepSettings, workload: Workload) -> Prediction:
    if found.point is not None or not found.cell.arm.pools:
        return found
    try:
        return Prediction(found.cell, estimated(found.cell, settings, workload), None)
    except RidgelineError as error:
        return found._replace(refusal=error.message)
