"""Reports of load generators: loads that somebody's client measured become points of one run.

In: `Load`s, each what a report says of one load under our names, and what the user told beside it. Out: an
`ImportedRun`. One rule for cells, repeats (equal loads in one run), error gate, withheld percentiles and throughput per
GPU, whatever the tool. A report names neither GPUs nor topology: what is not told is missing, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.core.cell import Arm, Cell
from ridgeline.core.point import Caution, Measure, Source
from ridgeline.results.importers import foreign
from ridgeline.results.importers.api import ImportedPoint, ImportedRun
from ridgeline.results.importers.measures import throughput, withheld

MOST_ERRORS = 0.10


@dataclass(frozen=True, kw_only=True)
class Load:
    """One measured load. `good`, `bad`: requests (None: not told); `rates`: tokens per second by part; `isl` and `osl`
    default to the usual length of the `measures`; None and `agentic`: a replay without fixed lengths."""

    model: str
    concurrency: int
    good: int | None
    bad: int = 0
    measures: Mapping[str, Measure] = field(default_factory=dict)
    rates: Mapping[str, Any] = field(default_factory=dict)
    request_rate: Any = None
    duration: Any = None
    measured_at: str | None = None
    framework: str = ""
    isl: int | None = None
    osl: int | None = None
    agentic: bool = False
    source: Source = Source.MEASURED
    facts: Mapping[str, Any] = field(default_factory=dict)
    found: Mapping[str, Any] = field(default_factory=dict)
    cautions: tuple[Caution, ...] = ()
    reasons: tuple[str, ...] = ()


def run_of(
    origin: str,
    told: Mapping[str, str],
    loads: Sequence[Load],
    *,
    key: str,
    name: str,
    header: Mapping[str, Any] | None = None,
) -> ImportedRun:
    """The run of these loads. `key` names it unless the user told another."""
    key = told.get("run") or key
    points, seen = [], Repeats()
    for load in loads:
        cell = cell_of(told, load)
        points.append(_point(origin, key, told, load, cell, seen.next(cell)))
    starts = [item.point.measured_at for item in points if item.point.measured_at]
    return ImportedRun(
        origin=origin,
        key=key,
        name=told.get("name") or name,
        started_at=min(starts, default=None),
        header=header or {},
        points=tuple(points),
    )


class Repeats:
    """Counts equal cells: the second measurement of a cell in one run is its second repeat."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int, int], int] = {}

    def next(self, cell: Cell, attempt: int = 1) -> int:
        place = (cell.line, cell.concurrency, attempt)
        self._seen[place] = self._seen.get(place, 0) + 1
        return self._seen[place]


def cell_of(told: Mapping[str, str], load: Load) -> Cell:
    """The cell of a load; what the user told comes before what the report says."""
    model = told.get("model") or load.model
    lengths = {"isl": load.isl, "osl": load.osl}
    for short, metric in (("isl", "input_tokens"), ("osl", "output_tokens")):
        usual = next((m for s in ("p50", "mean") if (m := load.measures.get(f"{metric}.{s}")) and m.value), None)
        if lengths[short] is None and not load.agentic:
            lengths[short] = round(usual.value) if usual and usual.value else 0
        if short in told:
            lengths[short] = foreign.whole(told[short])
    return foreign.make_cell(
        prefix=told.get("model_prefix") or model.rpartition("/")[2].lower(),
        model=model,
        scenario=foreign.scenario(lengths["isl"], lengths["osl"]),
        concurrency=foreign.whole(told.get("concurrency")) or load.concurrency,
        arm=Arm(topology=foreign.topology(told.get("tp") or told.get("gpus") or 1, told.get("ep") or 1)),
        precision=told.get("precision", ""),
        framework=told.get("framework") or load.framework,
        hardware=told.get("hardware", ""),
        image=told.get("image", ""),
    )


def _point(origin: str, run: str, told: Mapping[str, str], load: Load, cell: Cell, repeat: int) -> ImportedPoint:
    gpus, n = foreign.whole(told.get("gpus")), load.good
    measures = withheld(load.measures) | throughput(load.rates, gpus, n)
    measures["request_rate"] = foreign.measure(load.request_rate, "req/s", n)
    measures["duration"] = foreign.measure(load.duration, "s", n)
    reasons = load.reasons
    all_of_them = (n or 0) + load.bad
    if all_of_them:
        measures["error_rate"] = Measure(load.bad / all_of_them, "ratio", all_of_them)
    if all_of_them and load.bad / all_of_them > MOST_ERRORS:
        reasons += (f"error-rate: {load.bad} of {all_of_them} requests failed; at most 10 % may",)
    if n is not None and not all_of_them:
        reasons += ("no-requests: the report holds no requests",)
    cautions = load.cautions
    if n is not None and 0 < n < 5 * cell.concurrency:
        message = f"{n} good requests at concurrency {cell.concurrency}; 5 a lane would be {5 * cell.concurrency}"
        hint = "measure longer: percentiles without enough samples are withheld"
        cautions += (Caution("few-samples", message, hint),)
    point = foreign.make_point(
        cell,
        origin=origin,
        run=run,
        repeat=repeat,
        measures=measures,
        gpus=gpus,
        measured_at=load.measured_at or foreign.instant(told.get("measured_at")),
        facts={name: value for name, value in load.facts.items() if value is not None},
        cautions=cautions,
        reasons=reasons,
        source=Source(told.get("source", load.source)),
    )
    image = {"image": told["image"]} if told.get("image") else {}
    return ImportedPoint(point=point, repeat=repeat, documents={"cell": cell}, asked=image, found=load.found)
