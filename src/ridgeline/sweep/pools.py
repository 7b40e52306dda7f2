"""Where cells with pools lie, by their steady state: virtual time walks one engine, not several that hand KV over.

In: a cell, settings, sessions. Out: a predicted point with the two values that a frontier needs. Good for choosing what
to measure next, which corrects it; it is shown and stored nowhere. Source of the formulas: simulate/steady.py.
"""

from __future__ import annotations

from collections import Counter

from ridgeline.core.cell import Cell
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.point import Measure, Point, Source
from ridgeline.recipes.emulated import Assumed
from ridgeline.recipes.placement import occupied
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.engine import engine_of
from ridgeline.simulate.steady import Load, Steady, disaggregated, steady
from ridgeline.sweep.deploy import SHIPPED, Modelling
from ridgeline.sweep.workload import Workload


def estimated(cell: Cell, workload: Workload, modelling: Modelling = SHIPPED) -> Point:
    """The point of a cell with pools. Raises EnvironmentFailed or InputError for what the model does not cover."""
    assumed = modelling(cell)
    found = _steady(cell, assumed, load_of(cell, workload))
    measures = {
        "interactivity.p50": Measure(1 / found.tpot_s, "tok/s/user"),
        "throughput_per_gpu.total": Measure(found.tput_per_gpu, "tok/s/GPU"),
    }
    return Point(
        id=cell.fingerprint, run_key=cell.fingerprint, cell_fingerprint=cell.fingerprint, name=cell.name,
        line=cell.line, series="steady state", source=Source.PREDICTED, concurrency=cell.concurrency,
        gpus=sum(occupied(cell).values()), facts={}, measures=measures,
        provenance={"recipe": assumed.recipe, "assumes": list(assumed.notes)},
    )  # fmt: skip


def load_of(cell: Cell, workload: Workload) -> Load:
    """A cell's load by its means: lengths of the mean request, of whose prompt a cache without end holds the rest."""
    scenario = cell.scenario
    if scenario.kind != "agentic-coding":
        return Load(scenario.isl or 1, scenario.osl or 1, cell.concurrency)
    turns = [
        (turn.input_tokens, turn.max_tokens, turn.hit_blocks * session.block_size)
        for session in workload.corpus().sessions
        for conversation in session.conversations
        for turn in conversation.turns
    ]
    asked, given, known = (sum(column) / len(turns) for column in zip(*turns, strict=True))
    return Load(round(asked), max(1, round(given)), cell.concurrency, max(1, round(asked - known)))


def _steady(cell: Cell, found: Assumed, load: Load) -> Steady:
    engines = {
        role: engine_of(options, lazy=True) for role, options in {e.role: e.options for e in found.engines}.items()
    }
    prices = {role: engine.price for role, engine in engines.items() if isinstance(engine.price, StepCost)}
    if not engines or len(prices) < len(engines):
        raise EnvironmentFailed(f"the engine model has no prices for the pools of {cell.name}")
    workers = Counter(engine.role for engine in found.engines)
    role = "decode" if "decode" in engines else next(iter(engines))
    limits = engines[role].limits
    kv_tokens = float(limits.blocks * limits.block_size)
    if {"prefill", "decode"} <= engines.keys():
        return disaggregated(
            prices["decode"], prices["prefill"], load, workers["decode"], workers["prefill"], kv_tokens
        )
    each = load._replace(conc=max(1, round(load.conc / workers[role])))  # whole requests on equal workers
    return steady(prices[role], each, kv_tokens)
