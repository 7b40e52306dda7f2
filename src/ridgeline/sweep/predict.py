"""Every cell of a search space as a predicted point, in virtual time: same pacing, same prompts, same aggregation.

For choosing among cells (`placed_all`) the steady state says enough of fixed lengths, in a hundredth of the time.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline import __version__
from ridgeline.core.cell import Cell, digest
from ridgeline.core.errors import EnvironmentFailed, RidgelineError
from ridgeline.core.point import Measure, Point, Source
from ridgeline.core.record import Replay
from ridgeline.engine.options import EngineOptions
from ridgeline.recipes.emulated import Assumed
from ridgeline.recipes.placement import occupied
from ridgeline.results.aggregate import aggregate
from ridgeline.results.identity import run_key
from ridgeline.simulate.bands import BAND, expected_spread
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.steady import Load, Steady, disaggregated, steady
from ridgeline.simulate.virtual import Pools, simulate
from ridgeline.sweep.deploy import SHIPPED, Modelling
from ridgeline.sweep.run import asked
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload

MEASURE = "tokens/s/GPU"  # of which a prediction says how far to trust it


class Prediction(NamedTuple):
    """A cell's predicted point with the virtual replay behind it, or why there is none. `engine`: the same for cells
    that the same engines would serve."""

    cell: Cell
    point: Point | None
    replay: Replay | None
    refusal: str = ""
    engine: str = ""


def predict(cell: Cell, settings: SweepSettings, workload: Workload, modelling: Modelling = SHIPPED) -> Prediction:
    """One cell, on the engines that its recipe would start. What the engine model does not cover is a refusal by name,
    not an exception."""
    cell = asked(cell, settings)
    try:
        found = modelling(cell)
        options, engine = modelled(found, modelling.parameters, text=settings.prompts != "token-ids")
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
        gpus=sum(occupied(cell).values()) if cell.arm.pools else None,
        provenance={
            "ridgeline": __version__,
            "band": band_of(engine, cell),
            "recipe": found.recipe,
            "assumes": list(found.notes),
            "trace": workload.source(cell),
            "trace_digest": workload.digest(cell),
            "settings": settings.identity(),
        },
    )
    return Prediction(cell, point, replay, engine=digest(repr(found.engines)))


def modelled(
    found: Assumed, parameters: Path | None = None, *, text: bool = False
) -> tuple[EngineOptions, Engine | Pools]:
    """The engine of a cell, or its pools: one engine a worker, a router before them, KV over their links. The options
    are those of an engine that decodes. `parameters`: the user's own, a file or a folder of them; `text`: prompts come
    as text, which the server tokenises. Raises InputError where memory does not suffice."""
    given = parameters

    def made(options: EngineOptions) -> Engine:
        parameters = parameters_for(options.gpu.name, options.engine, given)
        return engine_of(options, parameters.for_text() if text else parameters, lazy=True)

    if len(found.engines) == 1:
        return found.decoding, made(found.decoding)
    engines = [(engine.role, made(engine.options)) for engine in found.engines]
    prefill = tuple(engine for role, engine in engines if found.split and role == "prefill")
    decode = tuple(engine for role, engine in engines if not (found.split and role == "prefill"))
    return found.decoding, Pools(prefill, decode, found.policy)


def band_of(engine: Engine | Pools, cell: Cell) -> Mapping[str, Any]:
    """How far to trust a prediction: in four of five cases the measured tokens/s/GPU is expected within `factor` of it,
    as far as public points tell (simulate/bands.py): wider for sessions, for models and GPUs that no fit has seen, and
    behind prefill pools."""
    engines = (*engine.prefill, *engine.decode) if isinstance(engine, Pools) else (engine,)
    prices = [each.price for each in engines if isinstance(each.price, StepCost)]
    if not prices:
        return {"factor": None, "reason": "steps of this engine have no prices"}
    agentic = cell.scenario.kind == "agentic-coding"
    split = isinstance(engine, Pools) and bool(engine.prefill)
    spreads = [
        expected_spread(
            MEASURE, price.p.spread, agentic=agentic, pools=split, seen=price.p.knows(price.options.arch.name)
        )
        for price in prices
    ]
    return {"factor": round(math.exp(BAND * max(spreads)), 4), "share": 0.8, "measure": MEASURE}


def predict_all(
    cells: Sequence[Cell],
    settings: SweepSettings,
    workload: Workload,
    modelling: Modelling = SHIPPED,
    *,
    jobs: int | None = None,
    replays: bool = True,
) -> Iterator[Prediction]:
    """Every cell in order, each as it is done. `jobs`: processes (default: one a core), which share the sessions;
    `replays` False: without what lies behind the points, which is large."""
    job = _Job(cells, settings, workload, replays, modelling)
    processes = min(len(cells), jobs or len(os.sched_getaffinity(0)))
    if processes < 2:
        yield from (job.cell(index) for index in range(len(cells)))
        return
    workload.read(cells)  # once, before the processes part
    with _ending_on_sigterm():
        pool = get_context("fork").Pool(processes, _begin, (job,))
    with pool:
        yield from pool.imap(_run, range(len(cells)))


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Processes made here end on the signal by which their pool ends them, whatever it means to this one: a handler
    that raises may raise where nobody listens, and the pool would wait for that process for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


class _Job(NamedTuple):
    """What a process needs for any cell."""

    cells: Sequence[Cell]
    settings: SweepSettings
    workload: Workload
    replays: bool
    modelling: Modelling

    def cell(self, index: int) -> Prediction:
        found = predict(self.cells[index], self.settings, self.workload, self.modelling)
        return found if self.replays else found._replace(replay=None)


_job: list[_Job] = []  # of a process that works on cells


def _begin(job: _Job) -> None:
    gc.freeze()  # what was there before is shared: a collection would write to all of it
    _job.append(job)


def _run(index: int) -> Prediction:
    return _job[0].cell(index)


def placed_all(
    cells: Sequence[Cell], settings: SweepSettings, workload: Workload, modelling: Modelling = SHIPPED
) -> list[Prediction]:
    """Where cells lie, in order, for choosing among them: sessions in virtual time, fixed lengths by their steady state
    (simulate/steady.py), which measured points have validated and correct."""
    walked = [cell for cell in cells if cell.scenario.kind == "agentic-coding"]
    found = predict_all(walked, settings, workload, modelling, replays=False)
    return [
        next(found) if cell.scenario.kind == "agentic-coding" else _placed(asked(cell, settings), settings, modelling)
        for cell in cells
    ]


def _placed(cell: Cell, settings: SweepSettings, modelling: Modelling) -> Prediction:
    """One cell of fixed lengths: its place on the frontier and how long it takes."""
    try:
        found = modelling(cell)
        _, engine = modelled(found, modelling.parameters, text=settings.prompts != "token-ids")
        load = Load(cell.scenario.isl or 1, cell.scenario.osl or 1, cell.concurrency)
        lies = steady_of(engine, load)
    except RidgelineError as error:
        return Prediction(cell, None, None, error.message)
    gpus = sum(occupied(cell).values())
    waves = settings.requests_per_lane + settings.fixed_warmup_per_lane
    measures = {
        "interactivity.p50": Measure(1 / lies.tpot_s, "tok/s/user"),
        "throughput_per_gpu.total": Measure(lies.tput_per_gpu, "tok/s/GPU"),
        "duration": Measure(waves * load.conc * (load.isl + load.osl) / (lies.tput_per_gpu * gpus), "s"),
    }
    point = Point(
        id=cell.fingerprint, run_key=cell.fingerprint, cell_fingerprint=cell.fingerprint, name=cell.name,
        line=cell.line, series="steady state", source=Source.PREDICTED, concurrency=cell.concurrency,
        gpus=gpus, facts={}, measures=measures,
        provenance={"band": band_of(engine, cell), "recipe": found.recipe, "assumes": list(found.notes)},
    )  # fmt: skip
    return Prediction(cell, point, None, engine=digest(repr(found.engines)))


def steady_of(engine: Engine | Pools, load: Load) -> Steady:
    """Fixed lengths on one engine, on equal ones that share them, or on a prefill and a decode pool. Raises
    EnvironmentFailed for an engine without prices."""
    pools = engine if isinstance(engine, Pools) else Pools((), (engine,))
    prices = [pool[0].price for pool in (pools.decode, pools.prefill) if pool]
    decode, prefill = prices[0], prices[-1]
    if not isinstance(decode, StepCost) or not isinstance(prefill, StepCost):
        raise EnvironmentFailed("the engine model has no prices for it")
    limits = pools.decode[0].limits
    kv_tokens = float(limits.blocks * limits.block_size)
    if pools.prefill:
        return disaggregated(decode, prefill, load, len(pools.decode), len(pools.prefill), kv_tokens)
    workers = len(pools.decode)
    each = load._replace(conc=max(1, round(load.conc / workers)))  # whole requests on equal workers
    found = steady(decode, each, kv_tokens)
    return found._replace(tput_per_gpu=found.tput_per_gpu * load.conc / (each.conc * workers))
