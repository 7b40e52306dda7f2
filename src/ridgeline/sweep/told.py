"""What points that were measured before say of cells to choose among: how wrong predictions of their engine are.

In: files of points as `ridgeline calibrate` reads them, and the cells. Out: for every series of cells, the errors of
the points of the same engine (GPU, framework, model, precision), under any lengths.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.errors import RidgelineError
from ridgeline.engine.options import EngineOptions
from ridgeline.plan.belief import Known, Place
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.fit import covered, engine_of_point, predict
from ridgeline.simulate.points import Measured, read_points
from ridgeline.sweep.deploy import Modelling

Series = tuple[object, ...]


def told_by(paths: Sequence[Path], series: Mapping[Series, Cell], modelling: Modelling) -> dict[Series, list[Known]]:
    """`series`: one cell of each that a budget is spent on. Raises InputError for a file that cannot be read."""
    if not paths:
        return {}
    by_engine: dict[Series, list[Measured]] = defaultdict(list)
    good, _ = covered([point for path in paths for point in read_points(path) if point.isl and not point.doubtful])
    for point in good:
        by_engine[_key(engine_of_point(point).price.options, point.precision)].append(point)
    found = {}
    for name, cell in series.items():
        try:
            own = by_engine.get(_key(modelling(cell).decoding, cell.benchmark.precision), [])
        except RidgelineError:
            continue  # it has no prediction either, which is said where it is missed
        found[name] = list(_errors(own, (cell.scenario.isl, cell.scenario.osl)))
    return found


def _errors(points: Iterable[Measured], own: tuple[int | None, int | None]) -> Iterable[Known]:
    prices: dict[int, StepCost] = {}
    for point in points:
        options = engine_of_point(point).price.options
        said = predict(point, parameters_for(options.gpu.name, options.engine), prices)
        if not point.tput or not point.tpot_s or point.topology is None:
            continue
        layout = point.label + (f"-{point.spec}" if point.spec != "none" else "")
        lengths = "" if (point.isl, point.osl) == own else f"{point.isl}/{point.osl}"
        place = Place(layout, point.conc, point.topology.dp_attn, lengths)
        yield Known(place, math.log(said.tpot_s / point.tpot_s), math.log(point.tput / said.tput_per_gpu))


def _key(options: EngineOptions, precision: str) -> Series:
    return (options.gpu.name.lower(), options.engine, options.arch.name, precision)
