"""AIPerf's `server_metrics_export.json`: what the servers' pages showed over the measured phase.

In: a replay's samples and the wall time of its origin. Out: the document as plain data. Counters are increases
(restarts included) with their rates, histograms are differences of cumulative buckets, gauges are distributions over
the scrapes; a failed scrape is a gap. Two addresses that show one process are listed once. A name that ends in `_total`
is a counter's, whatever its page says; of others the page's own type counts, where a replay has kept it, and its help
text is the description. A slice of a histogram in which nothing was counted has no average and is left out. Source:
agentx-replay specification, section 7, and recorded exports.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from ridgeline.core.record import Replay, ServerSample
from ridgeline.results.export.aiperf_run import of_run
from ridgeline.results.metrics.scrapes import Line, Scrapes, Window, increase, quantile
from ridgeline.results.metrics.statistics import percentile
from ridgeline.results.stored import StoredReplay

SCHEMA_VERSION = "1.1"
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_BUCKET = "bucket:"  # before a bucket's bound
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_UNITS = ("seconds", "milliseconds", "bytes", "tokens", "requests", "blocks", "percent", "ratio")


def server_metrics(replay: Replay | StoredReplay, wall_origin_ns: int, *, slice_s: float = 1.0) -> dict[str, Any]:
    """The document. Times are epoch nanoseconds: `wall_origin_ns` is that of the replay's origin."""
    scrapes = Scrapes(tuple(sorted(replay.samples, key=lambda sample: sample.at_ns)))
    phases = replay.phases
    ranges = {
        "warmup": (phases.start_ns, phases.profiling_start_ns),
        "profiling": (phases.profiling_start_ns, phases.drained_ns or phases.profiling_end_ns),
    }
    windows = {
        name: (float(start), float(end))
        for name, (start, end) in ranges.items()
        if start is not None and end is not None
    }
    document = _Document(scrapes, wall_origin_ns, slice_s, replay.settings.get("metrics_pages"))
    return {
        "schema_version": SCHEMA_VERSION,
        **of_run({**replay.settings, "prompt_mode": replay.prompt_mode}),
        "summary": document.summary(windows),
        "metrics_phase": "profiling",
        "metrics": document.metrics(windows["profiling"]) if "profiling" in windows else {},
        "warmup_metrics": document.metrics(windows["warmup"], sliced=False) if _long(windows.get("warmup")) else {},
    }


def _long(window: Window | None) -> bool:
    return window is not None and window[1] > window[0]


class _Document:
    """The parts of the document; times of lines are the replay's own nanoseconds."""

    def __init__(self, scrapes: Scrapes, origin_ns: int, slice_s: float, about: Any) -> None:
        self.scrapes, self.origin, self.slice_ns = scrapes, origin_ns, slice_s * 1e9
        self.about: Mapping[str, Sequence[str]] = about if isinstance(about, Mapping) else {}  # type and help

    def summary(self, windows: Mapping[str, Window]) -> dict[str, Any]:
        endpoints: dict[str, list[ServerSample]] = {}
        for sample in self.scrapes.samples:
            endpoints.setdefault(sample.endpoint, []).append(sample)
        told = {url: about for url, rows in endpoints.items() if (about := self._endpoint(rows))}
        start, end = windows.get("profiling", (None, None))
        return {
            "endpoints_configured": list(endpoints),
            "endpoints_successful": list(told),
            "start_time": self._local(start),
            "end_time": self._local(end),
            "endpoint_info": told,
            "phase_time_ranges": {
                name: {"start_ns": self._wall(low), "end_ns": self._wall(high)} for name, (low, high) in windows.items()
            },
        }

    def _endpoint(self, rows: list[ServerSample]) -> dict[str, Any]:
        """Empty for one that never answered."""
        good = [sample for sample in rows if sample.values is not None]
        if not good:
            return {}
        updates = [good[0].at_ns]
        updates += [after.at_ns for before, after in pairwise(good) if after.values != before.values]
        took = [sample.took_ns for sample in good if sample.took_ns is not None]
        found = {
            "total_fetches": len(rows),
            "first_fetch_ns": self._wall(good[0].at_ns),
            "last_fetch_ns": self._wall(good[-1].at_ns),
            **({"avg_fetch_latency_ms": float(np.mean(took)) / 1e6} if took else {}),
            "unique_updates": len(updates),
            "first_update_ns": self._wall(updates[0]),
            "last_update_ns": self._wall(updates[-1]),
            "duration_seconds": (updates[-1] - updates[0]) / 1e9,
            "avg_update_interval_ms": (updates[-1] - updates[0]) / 1e6 / max(1, len(updates) - 1),
        }
        if len(updates) > 1:
            found["median_update_interval_ms"] = float(np.median(np.diff(updates))) / 1e6
        return found

    def metrics(self, window: Window, *, sliced: bool = True) -> dict[str, Any]:
        names = sorted(name for name in self.scrapes.names if not name.endswith("_created"))
        bases = {name.removesuffix("_bucket") for name in names if name.endswith("_bucket")}
        found: dict[str, Any] = {}
        for base in sorted(bases):
            if series := self._histograms(base, window, sliced):
                found[base] = self._entry("histogram", base, series)
        parts = {f"{base}{suffix}" for base in bases for suffix in ("_bucket", "_sum", "_count")}
        for name in names:
            if name in parts:
                continue
            told = self.about.get(name, ("",))[0]
            kind = "counter" if name.endswith("_total") or told == "counter" else "gauge"
            make = self._counter if kind == "counter" else self._gauge
            series = [one for line in self.scrapes.own(name) if (one := make(line, window, sliced)) is not None]
            if series:
                found[name.removesuffix("_total")] = self._entry(kind, name, series)
        return found

    def _entry(self, kind: str, name: str, series: list[dict[str, Any]]) -> dict[str, Any]:
        base = name.removesuffix("_total")
        words = base.replace(":", "_").split("_")
        unit = next((unit for unit in _UNITS if unit in words), "")
        _, said = self.about.get(base) or self.about.get(name) or ("", "")
        return {"type": kind, "description": said, "unit": unit, "series": series}

    def _gauge(self, line: Line, window: Window, sliced: bool) -> dict[str, Any] | None:
        inside = (line.at_ns >= window[0]) & (line.at_ns <= window[1]) & np.isfinite(line.values)
        at, values = line.at_ns[inside], line.values[inside]
        if not len(values):
            return None
        ordered = np.sort(values)
        stats = {
            "avg": float(ordered.mean()),
            "min": float(ordered[0]),
            "max": float(ordered[-1]),
            "std": float(ordered.std()),
            **{f"p{p}": percentile(ordered, p) for p in PERCENTILES},
        }
        slices = []
        for low, high in self._slices(window) if sliced else ():
            part = values[(at >= low) & (at < high)]
            if len(part):
                values_in = {"avg": float(part.mean()), "min": float(part.min()), "max": float(part.max())}
                slices.append(self._slice(low, high, window) | values_in)
        return self._series(line, stats, slices)

    def _counter(self, line: Line, window: Window, sliced: bool) -> dict[str, Any] | None:
        total = increase(line, window)
        if total is None:
            return None
        seconds = (window[1] - window[0]) / 1e9
        stats: dict[str, Any] = {"total": total, "rate": total / seconds if seconds > 0 else None}
        slices = []
        for low, high in self._slices(window) if sliced else ():
            grown = _step(line, (low, high))
            if grown is not None:
                slices.append(self._slice(low, high, window) | {"total": grown, "rate": grown / ((high - low) / 1e9)})
        if slices:
            rates = np.array([one["rate"] for one in slices])
            stats |= {"rate_avg": float(rates.mean()), "rate_min": float(rates.min())}
            stats |= {"rate_max": float(rates.max()), "rate_std": float(rates.std())}
        return self._series(line, stats, slices)

    def _histograms(self, base: str, window: Window, sliced: bool) -> list[dict[str, Any]]:
        groups: dict[tuple[str, str], dict[str, Line]] = {}
        for suffix in ("bucket", "sum", "count"):
            for line in self.scrapes.own(f"{base}_{suffix}"):
                pairs = dict(_LABEL.findall(line.labels))
                bound = pairs.pop("le", "")
                plain = ",".join(f'{key}="{value}"' for key, value in pairs.items())
                key = f"{_BUCKET}{bound}" if suffix == "bucket" else suffix
                groups.setdefault((line.endpoint, plain), {})[key] = line
        found = []
        for (endpoint, labels), lines in groups.items():
            stats = _histogram(lines, window)
            if stats is None or "count" not in lines:
                continue
            slices = []
            for low, high in self._slices(window) if sliced else ():
                grown = {name: _step(line, (low, high)) for name, line in lines.items()}
                count, total = grown.get("count"), grown.get("sum")
                if count and total is not None:
                    about = {"count": round(count), "sum": total, "avg": total / count, "buckets": _buckets(grown)}
                    slices.append(self._slice(low, high, window) | about)
            buckets = stats.pop("buckets")
            whole = lines["count"]._replace(endpoint=endpoint, labels=labels)
            found.append(self._series(whole, stats, slices) | {"buckets": buckets})
        return found

    def _series(self, line: Line, stats: Mapping[str, Any], slices: list[dict[str, Any]]) -> dict[str, Any]:
        labels = {key: value.replace('\\"', '"').replace("\\\\", "\\") for key, value in _LABEL.findall(line.labels)}
        found: dict[str, Any] = {"endpoint_url": line.endpoint}
        found |= {"labels": labels} if labels else {}
        return found | {"stats": dict(stats)} | ({"timeslices": slices} if slices else {})

    def _slices(self, window: Window) -> list[Window]:
        count = max(1, math.ceil((window[1] - window[0]) / self.slice_ns))
        edges = [min(window[0] + k * self.slice_ns, window[1]) for k in range(count + 1)]
        return [(low, high) for low, high in pairwise(edges) if high > low]

    def _slice(self, low: float, high: float, window: Window) -> dict[str, Any]:
        found: dict[str, Any] = {"start_ns": self._wall(low), "end_ns": self._wall(high)}
        return found | ({"is_complete": False} if high >= window[1] and high - low < self.slice_ns else {})

    def _wall(self, at_ns: float) -> int:
        return self.origin + round(at_ns)

    def _local(self, at_ns: float | None) -> str | None:
        """Naive local ISO time, as AIPerf writes it."""
        if at_ns is None:
            return None
        return datetime.fromtimestamp(self._wall(at_ns) / 1e9).isoformat()  # noqa: DTZ006


def _step(line: Line, window: Window) -> float | None:
    """Growth that the scrapes inside a slice brought to light: neighbouring slices share none of it. None without a
    scrape inside, or without one before it to compare with."""
    first = int(np.searchsorted(line.at_ns, window[0], side="right"))
    last = int(np.searchsorted(line.at_ns, window[1], side="right"))
    if last <= first or first == 0:
        return None
    steps = np.diff(line.values[first - 1 : last])
    return float(steps[steps > 0].sum() + line.values[first:last][steps < 0].sum())


def _histogram(lines: Mapping[str, Line], window: Window) -> dict[str, Any] | None:
    """Statistics of one histogram over a window; None when it was not scraped twice around it."""
    count = increase(lines["count"], window) if "count" in lines else None
    if count is None:
        return None
    seconds = (window[1] - window[0]) / 1e9
    total = increase(lines["sum"], window) if "sum" in lines else None
    found: dict[str, Any] = {"count": round(count), "count_rate": count / seconds if seconds > 0 else None}
    if total is not None:
        found |= {"sum": total, "sum_rate": total / seconds if seconds > 0 else None}
        found |= {"avg": total / count} if count else {}
    grown = {key: increase(line, window) for key, line in lines.items() if key.startswith(_BUCKET)}
    known = sorted((float(key.removeprefix(_BUCKET)), value) for key, value in grown.items() if value is not None)
    estimates = {f"p{p}_estimate": quantile(known, p / 100).value for p in PERCENTILES}
    found |= {name: value for name, value in estimates.items() if value is not None}
    return found | {"buckets": _buckets(grown)}


def _buckets(grown: Mapping[str, float | None]) -> dict[str, int]:
    """Counts by upper bound, in order."""
    known = {
        float(key.removeprefix(_BUCKET)): round(value)
        for key, value in grown.items()
        if value is not None and key.startswith(_BUCKET)
    }
    return {("+Inf" if math.isinf(bound) else f"{bound:g}"): known[bound] for bound in sorted(known)}
