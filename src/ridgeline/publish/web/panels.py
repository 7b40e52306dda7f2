"""What the engine said and what users felt, over the same clock as the timeline.

In: a records file and a samples file. Out: panels: each a title, a unit, and lines of (milliseconds, values). Values of
ranks are drawn beside their mean. A hit rate is a ratio of sums over a moving stretch of scrapes, never a mean of
ratios; mirrored endpoints count once (`results.metrics.scrapes`). A gap in scraping is a gap in the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ridgeline.publish.web.answers import encode
from ridgeline.results import records
from ridgeline.results.metrics import cache, engine
from ridgeline.results.metrics.scrapes import Line, Scrapes

BINS = 240  # of the measured window, for what is counted from requests
STEPS = 600  # values of a line at most
_GENERATED = ("vllm:generation_tokens_total", "sglang:generation_tokens_total")
_PROMPTED = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total")

Floats = NDArray[np.float64]
_WANTED = (
    *engine._KV, *engine._WAITING, *engine._RUNNING, *engine._PREEMPTED, *_GENERATED, *_PROMPTED,
    *(name for hits, queries, _ in cache._COUNTERS for name in (hits, queries)),
)  # fmt: skip


def panels_bytes(requests: Path, samples: Path | None) -> bytes:
    """All panels as JSON."""
    table = records.read_table(
        requests, ("phase", "sent_ns", "first_token_ns", "end_ns", "completion_tokens", "outcome")
    )
    about = records.metadata_of(table.schema, str(requests))
    phases = about["phases"]
    origin = phases["profiling_start_ns"] if phases["profiling_start_ns"] is not None else phases["start_ns"]
    end = phases["drained_ns"] or phases["profiling_end_ns"] or origin
    found = [*_server(samples, origin), *_felt(table, origin, end)]
    missing = [] if any(panel["from"] == "server" for panel in found) else ["No server metrics were scraped."]
    return encode({"panels": found, "missing": missing, "unit": "ms"})


def _server(file: Path | None, origin: int) -> list[dict[str, Any]]:
    if file is None:
        return []
    scrapes = _samples(file)
    found = []
    for key, title, unit, names, total in (
        ("kv", "KV use", "ratio", engine._KV, False),
        ("running", "Running", "requests", engine._RUNNING, True),
        ("waiting", "Waiting", "requests", engine._WAITING, True),
    ):
        lines = _first(scrapes, names)
        if lines:
            found.append(_panel(key, title, unit, _gauges(lines, origin, total)))
    hits = _hits(scrapes, origin)
    if hits:
        found.append(_panel("hit", "Prefix hit", "ratio", [hits]))
    rates = [
        {"name": name, "role": "main" if name == "generated" else "second", **rate}
        for name, names in (("generated", _GENERATED), ("prompt", _PROMPTED))
        if (rate := _rate(_first(scrapes, names), origin))
    ]
    if rates:
        found.append(_panel("tokens", "Tokens", "tok/s", rates))
    return _merged(found)


def _merged(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Running and waiting share one panel: they share a unit, and are read against each other."""
    by = {panel["key"]: panel for panel in panels}
    if "running" in by and "waiting" in by:
        lines = [{**line, "name": "running"} for line in by["running"]["lines"] if line["role"] == "main"]
        lines += [
            {**line, "name": "waiting", "role": "warn"} for line in by["waiting"]["lines"] if line["role"] == "main"
        ]
        by["running"] = {**by["running"], "title": "Requests", "lines": lines}
        del by["waiting"]
    return list(by.values())


class _Columns(Scrapes):
    """Scrapes whose series come straight from a samples file; no dictionary is made for each scrape."""

    def __init__(self, lines: dict[str, list[Line]]) -> None:
        object.__setattr__(self, "samples", ())
        object.__setattr__(self, "_lines", lines)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._lines)  # type: ignore[attr-defined]

    @property
    def _endpoints(self) -> tuple[str, ...]:
        every = (line for lines in self._lines.values() for line in lines)  # type: ignore[attr-defined]
        return tuple(dict.fromkeys(line.endpoint for line in every))

    def lines(self, name: str, label: str | None = None) -> list[Line]:
        found: list[Line] = self._lines.get(name, [])  # type: ignore[attr-defined]
        return [line for line in found if label is None or label in line.labels]


def _samples(file: Path) -> Scrapes:
    """Series of the wanted metrics. A failed scrape has no value, which is a gap in its series."""
    table = pq.read_table(file, memory_map=True)
    names, listed = _coded(table.column("name"))
    endpoints, places = _coded(table.column("endpoint"))
    good = np.array([name is not None and name.partition("{")[0] in _WANTED for name in listed] + [False])
    rows = np.flatnonzero(good[names])
    key = endpoints[rows].astype(np.int64) * (len(listed) + 1) + names[rows]
    at = np.asarray(table.column("at_ns").to_numpy())[rows].astype(np.float64)
    values = np.asarray(table.column("value").to_numpy())[rows].astype(np.float64)
    order = np.lexsort((at, key))
    found: dict[str, list[Line]] = {}
    for stretch in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else []:
        place, name = divmod(int(key[stretch[0]]), len(listed) + 1)
        metric, _, labels = listed[name].partition("{")
        line = Line(str(places[place]), metric, labels.rstrip("}"), at[stretch], values[stretch])
        found.setdefault(metric, []).append(line)
    return _Columns(found)


def _coded(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[Any]]:
    """A text column as numbers and the texts they stand for; a null has the number behind the last."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    listed = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    parts = [np.asarray(c.indices.fill_null(len(listed)).to_numpy(zero_copy_only=False)) for c in column.chunks]
    return (np.concatenate(parts) if parts else np.empty(0)).astype(np.int64), listed


def _first(scrapes: Scrapes, names: Sequence[str]) -> list[Line]:
    return next((lines for name in names if (lines := scrapes.own(name))), [])


def _gauges(lines: list[Line], origin: int, total: bool) -> list[dict[str, Any]]:
    """The mean over ranks (or their sum, where ranks share the work), and each rank when there are several."""
    at = np.unique(np.concatenate([line.at_ns for line in lines]))
    stacked = np.vstack([_held(line, at) for line in lines])
    with np.errstate(invalid="ignore"):
        known = ~np.isnan(stacked).all(axis=0)
        main = np.full(len(at), np.nan)
        joined = np.nansum if total else np.nanmean
        main[known] = joined(stacked[:, known], axis=0)
    found: list[dict[str, Any]] = [{"name": "all" if total else "mean", "role": "main", **_series(at, main, origin)}]
    if len(lines) > 1 and not total:
        ranks = [
            {"name": _rank(line, number), "role": "rank", **_series(line.at_ns, line.values, origin)}
            for number, line in enumerate(lines)
        ]
        found = [*ranks, *found]
    return found


def _held(line: Line, at: Floats) -> Floats:
    """Values of a line at other times: the last one before, for as long as two of its usual steps."""
    place = np.searchsorted(line.at_ns, at, side="right") - 1
    values = np.where(place >= 0, line.values[np.maximum(place, 0)], np.nan)
    step = float(np.median(np.diff(line.at_ns))) if len(line.at_ns) > 1 else np.inf
    stale = at - line.at_ns[np.maximum(place, 0)] > 2.5 * step
    return np.where(stale, np.nan, values)


def _rank(line: Line, number: int) -> str:
    for part in line.labels.split(","):
        name, _, value = part.partition("=")
        if name in ("engine", "dp_rank", "engine_id"):
            return f"rank {value.strip(chr(34))}"
    return f"series {number}"


def _hits(scrapes: Scrapes, origin: int) -> dict[str, Any] | None:
    for hit_name, query_name, label in cache._COUNTERS:
        queries, hits = scrapes.own(query_name), scrapes.own(hit_name, label)
        if not queries:
            continue
        at = np.unique(np.concatenate([line.at_ns for line in queries]))
        asked = np.sum([np.interp(at, line.at_ns, line.values) for line in queries], axis=0)
        got = np.sum([np.interp(at, line.at_ns, line.values) for line in hits], axis=0) if hits else np.zeros(len(at))
        wide = max(1, min(len(at) // 40, 30))
        if len(at) <= wide:
            return None
        more, some = got[wide:] - got[:-wide], asked[wide:] - asked[:-wide]
        share = np.where(some > 0, more / np.where(some > 0, some, 1), np.nan)
        return {"name": "achieved", "role": "good", **_series(at[wide:], share, origin)}
    return None


def _rate(lines: list[Line], origin: int) -> dict[str, Any] | None:
    if not lines:
        return None
    at = np.unique(np.concatenate([line.at_ns for line in lines]))
    total = np.sum([np.interp(at, line.at_ns, line.values) for line in lines], axis=0)
    wide = max(1, min(len(at) // 60, 10))
    if len(at) <= wide:
        return None
    growth = np.maximum(total[wide:] - total[:-wide], 0)
    return _series(at[wide:], growth / ((at[wide:] - at[:-wide]) / 1e9), origin)


def _felt(table: pa.Table, origin: int, end: int) -> list[dict[str, Any]]:
    """From the requests: time to first token, as its median and slow tail in each bin."""
    columns = {
        name: table.column(name).to_numpy().astype(np.float64) for name in ("sent_ns", "first_token_ns", "end_ns")
    }
    sent, first, ended = ((columns[name] - origin) / 1e6 for name in ("sent_ns", "first_token_ns", "end_ns"))
    known = np.isfinite(sent)
    if not known.any():
        return []
    start, stop = float(np.nanmin(sent[known])), max((end - origin) / 1e6, float(np.nanmax(sent[known])) + 1)
    edges = np.linspace(start, stop, BINS + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    there = known & np.isfinite(first)
    ttft = (first[there] - sent[there]) / 1e3
    bins = np.clip(np.searchsorted(edges, sent[there], side="right") - 1, 0, BINS - 1)
    order = np.lexsort((ttft, bins))
    sizes = np.bincount(bins, minlength=BINS)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    ranked = ttft[order]

    def share(wanted: float, least: int) -> list[float | None]:
        """A percentile of each bin, none where a bin holds too few requests for it."""
        return [
            float(ranked[s + min(n - 1, round(wanted * (n - 1)))]) if n >= least else None
            for s, n in zip(starts.tolist(), sizes.tolist(), strict=True)
        ]

    t = np.round(middle).astype(np.int64).tolist()
    flying = np.searchsorted(np.sort(sent[known]), edges[:-1], side="right") - np.searchsorted(
        np.sort(ended[known & np.isfinite(ended)]), edges[:-1], side="right"
    )
    return [
        {
            "key": "ttft",
            "title": "TTFT",
            "unit": "s",
            "from": "requests",
            "lines": [
                {"name": "p50", "role": "main", "t": t, "v": share(0.5, 1)},
                {"name": "p90", "role": "warn", "t": t, "v": share(0.9, 10)},
            ],
        },
        {
            "key": "flight",
            "title": "In flight",
            "unit": "requests",
            "from": "requests",
            "lines": [
                {
                    "name": "in flight",
                    "role": "main",
                    "t": np.round(edges[:-1]).astype(int).tolist(),
                    "v": flying.tolist(),
                }
            ],
        },
    ]


def _panel(key: str, title: str, unit: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {"key": key, "title": title, "unit": unit, "from": "server", "lines": lines}


def _series(at: Floats, values: Floats, origin: int) -> dict[str, list[Any]]:
    """At most STEPS values, each the mean of the ones it stands for."""
    if len(at) > STEPS:
        groups = np.array_split(np.arange(len(at)), STEPS)
        at = np.array([at[group].mean() for group in groups])
        values = np.array([_mean(values[group]) for group in groups])
    t = np.round((at - origin) / 1e6).astype(np.int64).tolist()
    return {"t": t, "v": [None if np.isnan(value) else float(f"{value:.5g}") for value in values]}


def _mean(values: Floats) -> float:
    good = values[~np.isnan(values)]
    return float(good.mean()) if len(good) else float("nan")
