"""A point: a cell's aggregated result, where it came from, and whether it may be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ridgeline.core.units import Better


class Source(StrEnum):
    """Where a point came from. Part of its identity; sources never mix unasked, and only measured ones publish."""

    MEASURED = "measured"
    EMULATED = "emulated"
    PREDICTED = "predicted"


class Validity(StrEnum):
    VALID = "valid"
    DEGRADED = "degraded"  # an expectation was contradicted; published with its reason, never on a frontier
    UNPROVEN = "unproven"  # evidence is missing
    INVALID = "invalid"  # never plotted as a number


@dataclass(frozen=True, slots=True)
class Measure:
    """A value with its unit, or the reason why there is none. `n`: samples behind it."""

    value: float | None
    unit: str
    n: int | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.value is None and not self.reason:
            raise ValueError("a missing value needs a reason")


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning stored with a point and shown as a badge: a code, a sentence with the numbers, what to do."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One aggregated cell. `measures` maps `metric.statistic` (or `metric` for scalars) to its measure."""

    id: str  # run key + attempt: equality of points is equality of ids
    run_key: str
    cell_fingerprint: str
    name: str
    line: str  # benchmark, scenario and arm: points of a line differ in concurrency only
    series: str  # hardware/engine/precision/spec/source: what gets one colour
    source: Source
    concurrency: int
    gpus: int
    facts: Mapping[str, Any]  # model, framework, precision, hardware, topology, image, scenario, ...
    measures: Mapping[str, Measure]
    validity: Validity = Validity.VALID
    reasons: tuple[str, ...] = ()  # codes with a sentence, why it is not valid
    cautions: tuple[Caution, ...] = ()
    measured_at: str | None = None  # aware ISO time the measured window began
    attempt: int = 1
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def value(self, measure: str) -> float | None:
        """The value of `metric.statistic`, None when missing or unknown."""
        found = self.measures.get(measure)
        return found.value if found else None


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a chart: which measure, its unit, and the direction that is better (None: no frontier)."""

    measure: str
    unit: str = ""
    better: Better | None = None
