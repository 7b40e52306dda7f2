"""Records become a point.

In: a replay (or its records as an Arrow table or Parquet file) and the cell it belongs to. Out: a `Point` with every
registered measure, its validity with reasons, and its cautions. Pure apart from reading the file when one is given;
no loop over records runs in Python when the records come as columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.core.cell import Cell
from ridgeline.core.point import Measure, Point, Source
from ridgeline.core.record import Phases, Replay, ServerSample
from ridgeline.results import identity, records, validity
from ridgeline.results.metrics import METRICS, Scope, Slo
from ridgeline.results.metrics.columns import Columns
from ridgeline.results.metrics.scrapes import Scrapes

Recorded: TypeAlias = "Replay | pa.Table | Path"


def aggregate(
    replay: Recorded,
    *,
    cell: Cell,
    source: Source,
    run_key: str,
    gpus: int | None = None,
    facts: Mapping[str, Any] | None = None,
    attempt: int = 1,
    slo: Slo | None = None,
    samples: Sequence[ServerSample] | None = None,
    measured_at: str | None = None,
    provenance: Mapping[str, Any] | None = None,
    withhold: bool = True,
    scrapes: Scrapes | None = None,
) -> Point:
    """The point of one cell.

    `gpus`: all GPUs the cell occupies (default: the cell's own count). `facts`: added to those of the cell.
    `slo`: limits for goodput. `samples`: server samples, when `replay` is a table or file (a replay brings its own).
    `scrapes`: what servers showed, where it does not come as samples. `measured_at`: aware ISO time of the window's
    start. `withhold=False` keeps percentiles with too few samples.
    """
    scope, about = scope_of(replay, gpus=cell.gpus if gpus is None else gpus, cell=cell, slo=slo, samples=samples)
    scope = scope if scrapes is None else replace(scope, scrapes=scrapes)
    measures = measures_of(scope, withhold=withhold)
    judged = validity.judge(scope, cell, source, speed=about["speed"], aborted=about["aborted"])
    return Point(
        id=identity.point_id(run_key, attempt),
        run_key=run_key,
        cell_fingerprint=cell.fingerprint,
        name=cell.name,
        line=cell.line,
        series=identity.series(cell, source),
        source=source,
        concurrency=cell.concurrency,
        gpus=scope.gpus,
        facts={
            **identity.facts(cell),
            "speed": about["speed"],
            "prompt_mode": about["prompt_mode"],
            **({"slo": {name: getattr(slo, name) for name in ("ttft_s", "itl_s", "e2e_s")}} if slo else {}),
            **(facts or {}),
        },
        measures=measures,
        validity=judged.validity,
        reasons=judged.reasons,
        cautions=judged.cautions,
        measured_at=measured_at,
        attempt=attempt,
        provenance=dict(provenance or {}),
    )


def measures_of(scope: Scope, *, withhold: bool = True) -> dict[str, Measure]:
    """Every registered measure of a scope, in the order of the register."""
    found: dict[str, Measure] = {}
    for metric in METRICS.values():
        found |= metric.measure(scope, withhold=withhold)
    return found


def scope_of(
    replay: Recorded,
    *,
    gpus: int,
    cell: Cell,
    slo: Slo | None = None,
    samples: Sequence[ServerSample] | None = None,
) -> tuple[Scope, Mapping[str, Any]]:
    """What the metrics look at, and the replay's metadata (speed, prompt_mode, aborted, ...)."""
    if isinstance(replay, Replay):
        about: Mapping[str, Any] = records.replay_metadata(replay)
        phases, found = replay.phases, replay.samples
    else:
        schema = replay.schema if isinstance(replay, pa.Table) else pq.read_schema(replay)
        about = records.metadata_of(schema, str(replay) if isinstance(replay, Path) else "table")
        phases, found = Phases(**about["phases"]), tuple(samples or ())
    scope = Scope(
        columns=Columns.of(replay),
        phases=phases,
        gpus=gpus,
        concurrency=cell.concurrency,
        scrapes=Scrapes(tuple(sorted(found, key=lambda sample: sample.at_ns))),
        health=about["health"],
        slo=slo,
    )
    return scope, about
