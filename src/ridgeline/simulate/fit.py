"""Fits the cost model to measured points: few parameters, priors, least squares on the logarithm of times.

Five parameters for a (GPU, engine build), a sixth where rows with drafts do not say how many, two for each checkpoint
on it (device time, kernels), none for an arm. A checkpoint is a model in one precision: other weights, other kernels.
Every parameter has a prior, tight where it was measured on the GPU itself, wide where it is an assumption; a group with
fewer points than parameters is refused. Beyond half a standard deviation residuals count linearly, beyond one so do
distances from a prior (Huber): rows of one arm are of several software ages, and a checkpoint that is served twice as
slowly as its arithmetic asks for says little about the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.formats import Formats
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.engine.weights import weights
from ridgeline.simulate.contextcost import price_of
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters, parameters_for
from ridgeline.simulate.points import MODELS, Measured, served_by
from ridgeline.simulate.steady import Load, Steady, disaggregated, steady
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.library import find_gpu

Vector = NDArray[np.float64]

# What a fit may move, and how far it may go before the prior pulls it back (standard deviation of the logarithm).
SHARED = {
    "device": 0.5,
    "graph_kernel_s": 0.15,
    "collective_s": 0.3,
    "narrow_cache": 0.35,
    "expert_top": 0.1,
    "unsaid_drafts": 0.2,
}
OF_MODEL = (0.1, 0.1)  # device time, kernels
# Measured step by step on this very GPU and engine, hence not fitted again.
MEASURED = {("h200", "vllm"): frozenset({"device", "graph_kernel_s"})}
# Fixed-sequence recipes cache 8-bit rows, but here: of long requests half as many decode at once as would fit so.
_CACHES = {("h100", "vllm"): "auto"}
# What is taken as a full cache: TensorRT-LLM takes this share of what weights leave, the others of all memory.
_TRT_SHARE = 0.9
SIGMA = 0.15  # of log(predicted / measured) that is expected of a good fit
_HUBER = 0.5  # standard deviations beyond which a residual counts linearly
_FAR = 1.0  # the same for a parameter's distance from its prior
_STEP = 0.02
_BEND = 8  # how sharply a share of peak bends towards 1
_GOOD_ENOUGH = 0.003  # relative gain of a round below which fitting stops
_MOST_CONTEXT = 512  # tokens beyond isl + osl that servers are started with


class Refused(NamedTuple):
    """A point that the model does not cover, and why."""

    point: Measured
    reason: str


class Engine(NamedTuple):
    """What a point's engine is: priced by default parameters, and the cache of one rank."""

    price: StepCost
    kv_tokens: float | None
    prefill: StepCost | None


def engine_options(point: Measured, topology: Topology) -> EngineOptions:
    """Options of a fixed-sequence point: defaults of the engine, fp8 cache, a context that just fits.

    Raises InputError for models and layouts that are not known.
    """
    drafts, gpu = point.drafts, find_gpu(point.hardware)
    return options_from(
        MODELS.get(point.model, point.model),
        gpu,
        topology,
        point.precision,
        kv_cache_dtype=_CACHES.get((point.hardware, point.engine), "fp8"),
        num_speculative_tokens=drafts,
        acceptance_length=point.accepted if drafts else None,
        max_model_len=(point.isl or 0) + (point.osl or 0) + _MOST_CONTEXT,
        max_num_seqs=max(1, point.most // topology.dp_ranks) if point.most else None,
        max_num_batched_tokens=_sglang_chunk(gpu, topology) if "sglang" in point.engine else None,
        engine=served_by(point.engine),
    )


def _sglang_chunk(gpu: Gpu, topology: Topology) -> int:
    """Tokens of a prefill step on one rank that SGLang chooses for itself: 8,192 of all ranks together on GPUs of up to
    160 GB, twice that on larger ones."""
    return (8192 if gpu.memory_bytes <= 160e9 else 16384) // topology.dp_ranks


@lru_cache(maxsize=4096)
def _engine(
    model: str, hardware: str, precision: str, engine: str, drafts: int, accepted: float | None, length: int,
    topology: Topology, prefill: Topology | None, most: int | None,
) -> Engine:  # fmt: skip
    point = Measured(
        row=0, hardware=hardware, engine=engine, model=model, precision=precision, spec="", topology=topology, conc=1,
        isl=length, osl=0, drafts=drafts, accepted=accepted, most=most,
    )  # fmt: skip
    options = engine_options(point, topology)
    own, shipped = weights_of(options), replace(options, formats=Formats(options.arch.experts_format, "fp8"))
    if own > options.gpu.memory_bytes and weights_of(shipped) < own:
        options = shipped  # what is called fp8 there has the checkpoint's own 4-bit experts: it could not start else
    _must_hold(options, topology, point)
    base = parameters_for("default", "default")
    try:
        memory = memory_of(_filled(options, weights_of(options)))
        room: float | None = memory.pool.blocks * memory.pool.block_size
    except InputError:
        room = None  # it did start, so it was given other limits than the defaults
    other = None
    if prefill is not None:
        own_options = replace(engine_options(point, prefill), formats=options.formats)
        _must_hold(own_options, prefill, point)
        other = price_of(own_options, base)
    return Engine(price_of(options, base), room, other)


def _must_hold(options: EngineOptions, topology: Topology, point: Measured) -> None:
    """Raises InputError when the weights alone are more than the GPUs of a layout have."""
    own, memory = weights_of(options), options.gpu.memory_bytes
    if own > memory:
        sizes = f"{own / GIB:.0f} GiB of weights on each GPU do not fit its {memory / GIB:.0f} GiB"
        message = f"{topology.label} of {point.model} {point.precision}: {sizes}"
        raise InputError([Problem(message, hint="is the layout right?")])


def _filled(options: EngineOptions, own: float) -> EngineOptions:
    """With the share of memory that the engine takes when it is told none."""
    if options.engine != "trt":
        return options
    total = options.gpu.memory_bytes
    return replace(options, gpu_memory_utilization=min(1.0, (_TRT_SHARE * (total - own) + own) / total))


def weights_of(options: EngineOptions) -> float:
    """Bytes of weights on one GPU."""
    return weights(options.arch, options.topology, options.formats, mtp=options.spec_decode).total


def engine_of_point(point: Measured) -> Engine:
    """The engine of a point, shared by points that differ in load alone. Raises InputError."""
    if point.topology is None:
        raise InputError([Problem("its layout is not said")])
    length = (point.isl or 0) + (point.osl or 0)
    prefill = point.prefill.topology if point.prefill else None
    return _engine(
        point.model, point.hardware, point.precision, point.engine, point.drafts, point.accepted, length,
        point.topology, prefill, point.most,
    )  # fmt: skip


def predict(point: Measured, parameters: CostParameters, prices: dict[int, StepCost]) -> Steady:
    """A fixed-sequence point in steady state. `prices` remembers engines under these parameters."""
    engine = engine_of_point(point)

    def priced(base: StepCost) -> StepCost:
        found = prices.get(id(base))
        if found is None:
            found = prices[id(base)] = base.priced_by(parameters)
        return found

    accepted = 1 + (engine.price.options.accepted_per_step - 1) * parameters.unsaid_drafts if point.unsaid else None
    load = Load(point.isl or 1, point.osl or 1, point.conc, accepted=accepted)
    if engine.prefill is not None and point.prefill is not None:
        return disaggregated(
            priced(engine.price), priced(engine.prefill), load, point.workers, point.prefill.workers, engine.kv_tokens
        )
    return steady(priced(engine.price), load, engine.kv_tokens)


def covered(points: Sequence[Measured]) -> tuple[list[Measured], list[Refused]]:
    """Fixed-sequence points that the model has an answer for, and the others with the reason."""
    good, refused = [], []
    for point in points:
        try:
            engine_of_point(point)
            good.append(point)
        except InputError as error:
            refused.append(Refused(point, error.problems[0].message if error.problems else str(error)))
    return good, refused


class Fit(NamedTuple):
    """A fitted group. `theta`: logarithms of factors on the prior, in the order of `names`."""

    parameters: CostParameters
    prior: CostParameters
    names: tuple[str, ...]
    theta: Vector
    residuals: Vector  # log(predicted / measured) throughput, a value a point
    jacobian: Vector
    points: tuple[Measured, ...]


def prior_of(gpu: str, engine: str) -> CostParameters:
    """What is known without points of this group: shipped measurements of the GPU, else the defaults."""
    if (gpu.lower(), engine) not in MEASURED:
        return parameters_for("default", "default", measured_only=True)
    return parameters_for(gpu, engine, measured_only=True)


def checkpoint(point: Measured) -> str:
    """The name that the two factors of a point's model go by."""
    return f"{engine_of_point(point).price.options.arch.name} {point.precision}"


def names_of(points: Sequence[Measured]) -> tuple[str, ...]:
    """Parameters that the points of a group speak about."""
    models = sorted({checkpoint(point) for point in points})
    moe = any(engine_of_point(point).price.options.arch.moe for point in points)
    drafts = any(point.unsaid for point in points)
    known = MEASURED.get((points[0].hardware, points[0].engine), frozenset())
    shared = [
        name
        for name in SHARED
        if name not in known and (moe or not name.startswith("expert")) and (drafts or name != "unsaid_drafts")
    ]
    return (*shared, *(f"{model}/{part}" for model in models for part in ("time", "kernels")))


def with_theta(prior: CostParameters, names: Sequence[str], theta: Vector) -> CostParameters:
    """The prior's parameters moved by factors exp(theta); shares approach 1 smoothly and never pass it."""
    shared: dict[str, float] = {}
    models: dict[str, list[float]] = {}
    for name, value in zip(names, theta, strict=True):
        factor = math.exp(float(value))
        if name in SHARED:
            moved = getattr(prior, name) * factor
            free = name in ("device", "unsaid_drafts") or name.endswith("_s")
            shared[name] = moved if free else moved / (1 + moved**_BEND) ** (1 / _BEND)
        else:
            model, part = name.rsplit("/", 1)
            models.setdefault(model, [1.0, 1.0])[part == "kernels"] = factor
    own = {name: (pair[0], pair[1]) for name, pair in models.items()}
    return replace(prior, **shared, models=own)  # type: ignore[arg-type]


def deviations(names: Sequence[str]) -> Vector:
    """Standard deviations of the priors."""
    wide = {"time": OF_MODEL[0], "kernels": OF_MODEL[1]}
    return np.array([SHARED[name] if name in SHARED else wide[name.rsplit("/", 1)[1]] for name in names])


def log_errors(points: Sequence[Measured], parameters: CostParameters) -> Vector:
    """log(predicted / measured), two rows a point: throughput turned to time, and time per token (0 when missing)."""
    prices: dict[int, StepCost] = {}
    found = np.zeros((len(points), 2))
    for index, point in enumerate(points):
        seen = predict(point, parameters, prices)
        if point.tput:
            found[index, 0] = math.log(point.tput / seen.tput_per_gpu)
        if point.tpot_s:
            found[index, 1] = math.log(seen.tpot_s / point.tpot_s)
    return found


def step_from(jacobian: Vector, errors: Vector, theta: Vector, deviation: Vector, damping: float) -> Vector:
    """One damped Gauss-Newton step with priors and Huber weights: how theta should move."""
    flat, rows = errors.reshape(-1), jacobian.reshape(-1, jacobian.shape[-1])
    size = np.abs(flat) / SIGMA
    weight = np.where(size > _HUBER, _HUBER / np.maximum(size, 1e-9), 1.0) / SIGMA**2
    far = np.abs(theta) / deviation
    pull = np.where(far > _FAR, _FAR / np.maximum(far, 1e-9), 1.0) / deviation**2
    left = (rows.T * weight) @ rows + np.diag(pull)
    left += damping * np.diag(np.diag(left))
    right = -(rows.T * weight) @ flat - theta * pull
    return np.asarray(np.linalg.solve(left, right), dtype=np.float64)


def descend(
    points: Sequence[Measured], model: Callable[[Vector], CostParameters], jacobian: Vector, theta: Vector,
    deviation: Vector,
) -> tuple[Vector, float, float]:  # fmt: skip
    """The best of a few damped steps along one derivative: new theta, loss before and after."""
    errors = log_errors(points, model(theta))
    before = best = _loss(errors, theta, deviation)
    found = theta
    for damping in (0.0, 0.1, 1.0, 10.0):
        tried = theta + step_from(jacobian, errors, theta, deviation, damping)
        worth = _loss(log_errors(points, model(tried)), tried, deviation)
        if worth < best:
            best, found = worth, tried
        elif best < before:
            break
    return found, before, best


def derivative(
    points: Sequence[Measured], model: Callable[[Vector], CostParameters], theta: Vector, names: Sequence[str]
) -> Vector:
    """Of log errors by theta, (points, 2, parameters), by differences. A checkpoint's factors move its points."""
    base = log_errors(points, model(theta))
    found = np.zeros((*base.shape, len(theta)))
    of = np.array([checkpoint(point) for point in points])
    for index, name in enumerate(names):
        moved = theta.copy()
        moved[index] += _STEP
        own = np.arange(len(points)) if name in SHARED else np.flatnonzero(of == name.rsplit("/", 1)[0])
        found[own, :, index] = (log_errors([points[int(i)] for i in own], model(moved)) - base[own]) / _STEP
    return found


def fit(points: Sequence[Measured], gpu: str, engine: str, rounds: int = 10) -> Fit:
    """Fit one (GPU, engine build). Raises InputError when there are fewer points than parameters."""
    points = [point for point in points if not point.doubtful]
    names = names_of(points) if points else tuple(SHARED)
    if len(points) < len(names):
        hint = "give more points, or let other engines' parameters stand in"
        raise InputError(
            [Problem(f"{len(points)} points cannot support {len(names)} parameters of {gpu} and {engine}", hint=hint)]
        )
    prior = prior_of(gpu, engine)
    deviation = deviations(names)
    theta = np.zeros(len(names))

    def model(vector: Vector) -> CostParameters:
        return with_theta(prior, names, vector)

    for _ in range(rounds):
        jacobian = derivative(points, model, theta, names)
        theta, before, after = descend(points, model, jacobian, theta, deviation)
        if after > before * (1 - _GOOD_ENOUGH):
            break
    errors = log_errors(points, model(theta))
    return Fit(model(theta), prior, names, theta, errors, derivative(points, model, theta, names), tuple(points))


def _loss(errors: Vector, theta: Vector, deviation: Vector) -> float:
    rows = _huber(np.abs(errors.reshape(-1)) / SIGMA, _HUBER)
    return float(rows.sum() + _huber(np.abs(theta) / deviation, _FAR).sum())


def _huber(size: Vector, bend: float) -> Vector:
    """Squares up to `bend`, straight on from there."""
    return np.where(size > bend, 2 * bend * size - bend**2, size**2)


def without(found: Fit, left_out: Sequence[bool]) -> CostParameters:
    """The parameters that a fit without some of its points gives: from the full fit downhill along its derivative, as
    the kept points alone say."""
    keep = ~np.array(left_out)
    points = [point for point, kept in zip(found.points, keep, strict=True) if kept]
    deviation = deviations(found.names)

    def model(vector: Vector) -> CostParameters:
        return with_theta(found.prior, found.names, vector)

    theta = found.theta.copy()
    speaks = np.abs(found.jacobian[keep]).reshape(-1, len(theta)).max(axis=0) > 0
    theta[~speaks] = 0.0  # nothing that is kept knows of these
    for _ in range(2):
        theta, before, after = descend(points, model, found.jacobian[keep], theta, deviation)
        if after > before * (1 - _GOOD_ENOUGH):
            break
    return model(theta)


def shown(found: Fit) -> Mapping[str, float]:
    """Factors on the prior by name."""
    return {name: math.exp(float(value)) for name, value in zip(found.names, found.theta, strict=True)}
