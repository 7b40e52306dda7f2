"""AIPerf's server metrics exports: every scrape (`.jsonl`), or statistics of every series over the phase (`.json`).

In: the files. Out: samples of ours, or the statistics behind the face of `Scrapes`, so that the registered metrics read
both by the same formulas. AIPerf drops `_total` from counters' names; it is put back. What statistics cannot tell (sums
of series at one moment, growth between two moments) is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Measure
from ridgeline.core.record import Phases, Replay, ServerSample
from ridgeline.core.where import Where
from ridgeline.results.metrics.scrapes import Level, Line, Scrapes, Window

# Gauges of the engines; any other series without buckets is a counter where nothing tells its type.
_GAUGES = ("_perc", "_usage", "_running", "_waiting", "_reqs", "_rate", "_info", "_throughput", "_tokens_num", "_max")
_FAMILIES = ("cache", "engine")  # modules of the register that read scrapes


class RawSample(NamedTuple):
    """One scrape: epoch nanoseconds, endpoint, metric -> series."""

    at_ns: int
    endpoint: str
    metrics: Mapping[str, list[Mapping[str, Any]]]


def json_lines(path: Path, key: str) -> Iterator[dict[str, Any]]:
    """Objects of a JSON lines file that hold a mapping under `key`. Raises InputError with the lines that do not."""
    problems = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                problems.append(Problem(f"not a JSON object: {error}", Where(str(path), number)))
                continue
            if not isinstance(row, dict) or not isinstance(row.get(key), dict):
                problems.append(Problem(f"no `{key}`: not a row of {path.name}", Where(str(path), number)))
                continue
            yield row
    if problems:
        raise InputError(problems[:20])


def raw_samples(path: Path) -> tuple[RawSample, ...]:
    """Every scrape of `server_metrics_export.jsonl`."""
    rows = json_lines(path, "metrics")
    return tuple(RawSample(row["timestamp_ns"], str(row.get("endpoint_url")), row["metrics"]) for row in rows)


def samples(raw: Iterable[RawSample], types: Mapping[str, str], origin_ns: int) -> tuple[ServerSample, ...]:
    """Scrapes as samples of ours, at nanoseconds from `origin_ns`. `types`: metric -> counter, gauge or histogram."""
    found = []
    for item in raw:
        values: dict[str, float] = {}
        for name, series in item.metrics.items():
            for one in series:
                labels = one.get("labels") or {}
                if "buckets" in one:
                    for bound, count in one["buckets"].items():
                        values[_key(f"{name}_bucket", {**labels, "le": bound})] = count
                    values |= {_key(f"{name}_{part}", labels): one[part] for part in ("sum", "count") if part in one}
                elif one.get("value") is not None:
                    values[_key(_counter(name, types.get(name)), labels)] = one["value"]
        found.append(ServerSample(at_ns=item.at_ns - origin_ns, endpoint=item.endpoint, values=values))
    return tuple(found)


def _counter(name: str, kind: str | None) -> str:
    """A counter's name as its page has it."""
    counter = kind == "counter" if kind else not name.endswith(_GAUGES)
    return f"{name}_total" if counter and not name.endswith("_total") else name


def _key(name: str, labels: Mapping[str, str]) -> str:
    inside = _labels({"labels": labels})
    return f"{name}{{{inside}}}" if inside else name


def _labels(series: Mapping[str, Any]) -> str:
    """Labels as a page has them between braces."""
    return ",".join(f'{key}="{value}"' for key, value in (series.get("labels") or {}).items())


@dataclass(frozen=True)
class Pages(Scrapes):
    """`server_metrics_export.json` behind the face of `Scrapes`: one window, the phase that was exported."""

    metrics: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.metrics)

    def _series(self, name: str, kind: str, label: str | None = None) -> list[Mapping[str, Any]]:
        metrics = self.metrics
        entry = metrics.get(name.removesuffix("_total") if kind == "counter" else name) or metrics.get(name) or {}
        listed = entry.get("series") or [] if entry.get("type") == kind else []
        return [one for one in listed if label is None or label in _labels(one)]

    def increase(self, names: Iterable[str], window: Window, label: str | None = None) -> float | None:
        for name in names:
            totals = [one["stats"].get("total") for one in self._series(name, "counter", label)]
            known = [total for total in totals if total is not None]
            if known:
                return float(sum(known))
        return None

    def lines(self, name: str, label: str | None = None) -> list[Line]:
        """Series of a gauge, each as its mean at one moment: what names and weighs a series is in its labels."""
        return [
            Line(str(one.get("endpoint_url")), name, _labels(one), np.zeros(1), np.array([float(one["stats"]["avg"])]))
            for one in self._series(name, "gauge", label)
            if one["stats"].get("avg") is not None
        ]

    def level(
        self, names: Iterable[str], window: Window, weight: Callable[[Line], float | None] | None = None
    ) -> Level | None:
        for name in names:
            lines = self.lines(name)
            peaks = [one["stats"].get("max") for one in self._series(name, "gauge")]
            if lines and None not in peaks:
                means = [float(line.values[0]) for line in lines]
                weights = [known for line in lines if weight and (known := weight(line))]
                mean = np.average(means, weights=weights if len(weights) == len(lines) else None)
                # Peaks of several series need not come together: their sum is a bound, exact for one series.
                return Level(float(mean), max(peaks), sum(means), sum(peaks), len(lines))
        return None

    def histogram(self, names: Iterable[str], window: Window) -> list[tuple[float, float]]:
        for name in names:
            counts: dict[float, float] = {}
            for one in self._series(name, "histogram"):
                for bound, count in (one.get("buckets") or {}).items():
                    counts[float(bound)] = counts.get(float(bound), 0.0) + count
            if counts:
                return sorted(counts.items())
        return []


def pages_of(document: Mapping[str, Any]) -> Pages:
    """The statistics of a document."""
    return Pages((), document.get("metrics") or {})


def server_measures(document: Mapping[str, Any]) -> dict[str, Measure]:
    """Every registered metric that reads the servers' pages, where the pages tell it."""
    from ridgeline.results.metrics import METRICS, Scope
    from ridgeline.results.metrics.columns import Columns

    ranges = (document.get("summary") or {}).get("phase_time_ranges") or {}
    about = ranges.get("profiling") or {"start_ns": 0, "end_ns": 1}
    phases = Phases(profiling_start_ns=about["start_ns"], profiling_end_ns=about["end_ns"])
    columns = Columns.of(Replay(records=(), phases=phases))
    scope = Scope(columns, phases, gpus=1, concurrency=1, scrapes=pages_of(document))
    found: dict[str, Measure] = {}
    for metric in METRICS.values():
        if metric.family in _FAMILIES:
            found |= {name: m for name, m in metric.measure(scope).items() if m.value is not None}
    return found
