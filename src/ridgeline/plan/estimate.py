"""What a plan will cost in GPU-hours, before anything was learned.

In: planned cells and assumptions. Out: `ArmPlan`s (cells of one benchmark, scenario and arm) with their hours by phase.
An arm's GPUs are rented from allocation to the last evaluation, and its engine starts once. All figures are defaults
to be replaced by observations; they are printed with every estimate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from ridgeline.plan.outline import Planned

_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Seconds and speeds that stand in for what nobody measured yet."""

    allocation_s: float = 180  # from asking a scheduler for nodes to having them
    image_s: float = 240  # pulling an image of some 20 GB onto a node that does not have it
    load_s: float = 600  # weights from shared storage, compilation, graph capture
    load_multi_node_s: float = 900  # the same over several nodes, with the hand-shake between them
    requests_per_lane: int = 10  # fixed sequences: the peers send ten requests for each concurrent user
    warmup_requests_per_lane: int = 2
    agentic_warmup_s: float = 300
    prefill_tokens_per_second: float = 4000  # of one user
    decode_tokens_per_second: float = 40  # of one user
    eval_s: float = 1200  # GSM8K over the serving engine
    agentic_eval_multi_node_s: float = 5400  # SWE-bench at one concurrency


DEFAULTS = Assumptions()


@dataclass(frozen=True, slots=True)
class Hours:
    """GPU-hours by phase."""

    allocation: float = 0.0
    image: float = 0.0
    load: float = 0.0
    warmup: float = 0.0
    window: float = 0.0
    evals: float = 0.0

    @property
    def total(self) -> float:
        return self.allocation + self.image + self.load + self.warmup + self.window + self.evals

    def __add__(self, other: Hours) -> Hours:
        return Hours(*(getattr(self, phase) + getattr(other, phase) for phase in PHASES))


PHASES = tuple(item.name for item in fields(Hours))


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """Cells that share an engine, in order of the plan. `wall_hours` is the time the GPUs are held."""

    cells: tuple[Planned, ...]
    hours: Hours
    wall_hours: float

    @property
    def gpus(self) -> int:
        return self.cells[0].cell.gpus

    @property
    def evals(self) -> int:
        return sum(item.evaluated for item in self.cells)


def arm_plans(planned: Iterable[Planned], assumptions: Assumptions = DEFAULTS) -> tuple[ArmPlan, ...]:
    """Cells grouped by benchmark, scenario and arm, groups in order of their first cell."""
    groups: dict[str, list[Planned]] = {}
    for item in planned:
        groups.setdefault(item.cell.line, []).append(item)
    return tuple(_arm_plan(tuple(group), assumptions) for group in groups.values())


def total(arms: Iterable[ArmPlan]) -> Hours:
    """GPU-hours of all arms, phase by phase."""
    return sum((arm.hours for arm in arms), Hours())


def _arm_plan(cells: tuple[Planned, ...], given: Assumptions) -> ArmPlan:
    cell = cells[0].cell
    multi_node = bool(cell.arm.pools)
    seconds = Hours(
        allocation=given.allocation_s,
        image=given.image_s,
        load=given.load_multi_node_s if multi_node else given.load_s,
        warmup=sum(_warmup(item, given) for item in cells if item.measured),
        window=sum(_window(item, given) for item in cells if item.measured),
        evals=sum(_eval(item, given) for item in cells if item.evaluated),
    )
    gpu_hours = Hours(*(getattr(seconds, phase) * cell.gpus / _HOUR for phase in PHASES))
    return ArmPlan(cells, gpu_hours, seconds.total / _HOUR)


def _request_seconds(item: Planned, given: Assumptions) -> float:
    scenario = item.cell.scenario
    prefill = (scenario.isl or 0) / given.prefill_tokens_per_second
    return prefill + (scenario.osl or 0) / given.decode_tokens_per_second


def _warmup(item: Planned, given: Assumptions) -> float:
    if item.cell.scenario.kind == "agentic-coding":
        return given.agentic_warmup_s
    return given.warmup_requests_per_lane * _request_seconds(item, given)


def _window(item: Planned, given: Assumptions) -> float:
    if item.cell.scenario.duration_s is not None:
        return item.cell.scenario.duration_s
    return given.requests_per_lane * _request_seconds(item, given)


def _eval(item: Planned, given: Assumptions) -> float:
    agentic = item.cell.scenario.kind == "agentic-coding"
    return given.agentic_eval_multi_node_s if agentic and item.cell.arm.pools else given.eval_s
