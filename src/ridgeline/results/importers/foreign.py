"""Points from other people's numbers: a cell from flat fields, measures from their names, one identity rule.

In: fields that every format has under some name. Out: a `Cell` and a `Point` whose run key follows from origin, run,
line and concurrency, never from numbers, row ids or the order of rows. Shared by all importers of foreign formats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario, digest
from ridgeline.core.point import Caution, Measure, Point, Source, Validity
from ridgeline.core.topology import Pool, Topology
from ridgeline.results import identity


def number(value: Any) -> float | None:
    """A finite number, or None. Text and booleans are no numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond all floats
        return None


def whole(value: Any, default: int = 0) -> int:
    """A whole number that a database can hold, also written as text; `default` otherwise."""
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return found if abs(found) < 1 << 31 else default


def truth(value: Any) -> bool:
    """True for true, 1 and the texts `true`, `1`, `yes`, `on` in any case."""
    return str(value).strip().lower() in ("true", "1", "yes", "on")


def instant(value: Any) -> str | None:
    """Aware ISO time in UTC, or a plain date as it is; None for anything else. Epoch numbers are seconds."""
    seconds = number(value)
    if seconds is not None:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    if len(value) == 10:
        return value
    return (found if found.tzinfo else found.astimezone()).astimezone(UTC).isoformat(timespec="seconds")


def scenario(isl: Any, osl: Any, duration_s: int | None = None) -> Scenario:
    """Fixed lengths where both are given, a trace replay where neither is."""
    if isl is None and osl is None:
        return Scenario("agentic-coding", duration_s=duration_s)
    return Scenario("fixed-seq-len", whole(isl), whole(osl))


def benchmark_key(prefix: str, precision: str, hardware: str, framework: str) -> str:
    """The way InferenceX names its config entries."""
    return "-".join(part for part in (prefix, precision, hardware, framework) if part) or "unnamed"


def make_cell(
    *,
    prefix: str,
    scenario: Scenario,
    concurrency: int,
    arm: Arm,
    model: str = "",
    precision: str = "",
    framework: str = "",
    hardware: str = "",
    image: str = "",
    disagg: bool = False,
    multinode: bool = False,
) -> Cell:
    """A cell of what a foreign row tells; `prefix` stands for the model where its full name is unknown."""
    hardware = hardware.removeprefix("cluster:")
    key = benchmark_key(prefix, precision, hardware, framework)
    benchmark = Benchmark(
        key=key,
        image=image,
        model=model or prefix,
        model_prefix=prefix,
        precision=precision,
        framework=framework,
        runner=hardware,
        multinode=multinode,
        disagg=disagg,
    )
    return Cell(benchmark, scenario, arm, concurrency, variant=_variant(arm))


def _variant(arm: Arm) -> str:
    """What the label of an arm leaves out and a line must not mix."""
    if arm.kv_offloading not in ("", "none", "off") and arm.kv_offload_backend is None:
        return f"offload-{arm.kv_offloading}"
    return ""


def component(data: Any) -> Component | None:
    """A component of `{name, version?}` or a name."""
    if isinstance(data, Mapping) and data.get("name"):
        return Component(str(data["name"]), str(data["version"]) if data.get("version") else None)
    return Component(data) if isinstance(data, str) and data else None


def topology(tp: Any, ep: Any = 1, dp: Any = False, pp: Any = 1, dcp: Any = 1, pcp: Any = 1) -> Topology:
    """A layout from flat fields; sizes below 1 count as 1."""
    tp, pp, dcp, pcp, ep = (max(1, whole(size, 1)) for size in (tp, pp, dcp, pcp, ep))
    return Topology(tp=tp, pp=pp, dcp=dcp, pcp=pcp, ep=ep, dp_attn=truth(dp))


def pool(role: str, workers: Any, layout: Topology, hardware: Any = None) -> Pool:
    return Pool(role, max(1, whole(workers, 1)), layout, str(hardware) if hardware else None)


def make_point(
    cell: Cell,
    *,
    origin: str,
    run: str,
    measures: Mapping[str, Measure],
    gpus: int,
    repeat: int = 1,
    attempt: int = 1,
    measured_at: str | None = None,
    facts: Mapping[str, Any] | None = None,
    cautions: tuple[Caution, ...] = (),
    reasons: tuple[str, ...] = (),
    provenance: Mapping[str, Any] | None = None,
    source: Source = Source.MEASURED,
) -> Point:
    """A point, measured unless told otherwise. Image and numbers take no part in its key: a row that is served again,
    with an image it did not name before, is the same point."""
    key = digest({"origin": origin, "run": run, "line": cell.line, "conc": cell.concurrency, "repeat": repeat})
    told = {name: value for name, value in identity.facts(cell).items() if value != ""}
    return Point(
        id=identity.point_id(key, attempt),
        run_key=key,
        cell_fingerprint=cell.fingerprint,
        name=cell.name,
        line=cell.line,
        series=identity.series(cell, source),
        source=source,
        concurrency=cell.concurrency,
        gpus=gpus,
        facts={**told, "origin": origin, **(facts or {})},
        measures=dict(measures),
        validity=Validity.INVALID if reasons else Validity.VALID,
        reasons=reasons,
        cautions=cautions,
        measured_at=measured_at,
        attempt=attempt,
        provenance=dict(provenance or {}),
    )


def measure(value: Any, unit: str, n: int | None = None, reason: str = "not reported") -> Measure:
    """A measure of a foreign number: missing ones carry `reason`."""
    found = number(value)
    return Measure(found, unit, n, None if found is not None else reason)
