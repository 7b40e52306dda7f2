"""guidellm's reports (`benchmarks.json`), versions 1 and 2.

In: a report with one benchmark a rate or concurrency. Out: one run with a point each. Only the `successful` part of
its distributions is read: errored and incomplete requests are counted, not averaged in. Its `time_per_output_token`
contains the wait for the first token, so it becomes `e2e_interactivity`; its inter-token latency is our `itl`. Both
weigh a request by its tokens, so their `count` is tokens: the samples behind a value are the requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ridgeline.core.cell import digest
from ridgeline.core.point import Measure
from ridgeline.results.importers import foreign, reports
from ridgeline.results.importers.api import Bundle, Imported, Importer, Notes
from ridgeline.results.importers.measures import Spread, spread

ORIGIN = "guidellm"
TABLE = {
    "time_to_first_token_ms": Spread("ttft", factor=1e-3),
    "time_to_first_output_token_ms": Spread("ttft_visible", factor=1e-3),
    "inter_token_latency_ms": Spread("itl", factor=1e-3, speed="interactivity"),
    "time_per_output_token_ms": Spread("", factor=1e-3, speed="e2e_interactivity"),
    "request_latency": Spread("e2e_latency"),
    "prompt_token_count": Spread("input_tokens", "tokens"),
    "output_token_count": Spread("output_tokens", "tokens"),
}
RATES = {"output": "output_tokens_per_second", "input": "prompt_tokens_per_second", "total": "tokens_per_second"}
_HANDLED = {*RATES.values(), "request_totals", "requests_per_second", "request_concurrency"}
_AT_A_RATE = ("constant", "poisson", "async")


def take(path: Path) -> Bundle | None:
    """One report, or a folder with one or more."""
    return Bundle.of_json(path, _is_report)


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """One run a report."""
    notes, runs = Notes(), []
    for name in sorted(bundle.files):
        report = bundle.data(name)
        benchmarks = report["benchmarks"]
        ids = [item.get("id_") or _config(item).get("id_") or item.get("start_time") for item in benchmarks]
        header = {"args": report.get("args") or (report.get("config") or {}).get("spec") or {}}
        loads = [_load(report, item, notes) for item in benchmarks]
        runs.append(
            reports.run_of(ORIGIN, bundle.told, loads, key=digest(ids)[:16], name=f"guidellm {name}", header=header)
        )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=tuple(runs), unmapped=notes.all())


def _load(report: Mapping[str, Any], item: Mapping[str, Any], notes: Notes) -> reports.Load:
    """A benchmark at a concurrency keeps it; one at a rate has the concurrency it reached, and says so."""
    metrics, config = item["metrics"], _config(item)
    totals = metrics.get("request_totals") or {}
    good = foreign.whole(totals.get("successful"))
    measures: dict[str, Measure] = {}
    for name, block in metrics.items():
        if name in TABLE:
            measures |= spread(_flat(_successful(block)), TABLE[name], good or None)
        elif name not in _HANDLED and _says(block):
            notes.add(name, "no measure of ours")
    if isinstance(item.get("requests"), Mapping):
        notes.add("requests", "the report's own statistics over them are taken", f"{good} good ones")
    strategy = config.get("strategy") or {}
    strategy = strategy if isinstance(strategy, Mapping) else {"type_": strategy}
    kind = strategy.get("type_")
    asked = next((strategy[name] for name in ("streams", "max_concurrency") if strategy.get(name)), None)
    facts = {
        "tool": "guidellm",
        "tool_version": (report.get("metadata") or {}).get("guidellm_version"),
        "strategy": kind,
        "requested_rate": strategy.get("rate") if kind in _AT_A_RATE else None,
        "concurrency_is": "reached, not asked for" if asked is None else None,
        "incomplete_requests": foreign.whole(totals.get("incomplete")) or None,
    }
    reached = foreign.number(_successful(metrics.get("request_concurrency")).get("mean")) or 0
    return reports.Load(
        model=_model(report, item, config),
        concurrency=foreign.whole(asked) if asked is not None else max(1, round(reached)),
        good=good if totals else None,
        bad=foreign.whole(totals.get("errored")),
        measures=measures,
        rates={part: _successful(metrics.get(name)).get("mean") for part, name in RATES.items()},
        request_rate=_successful(metrics.get("requests_per_second")).get("mean"),
        duration=item.get("duration"),
        measured_at=foreign.instant(item.get("start_time")),
        facts=facts,
    )


def _config(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return item.get("config") or item.get("args") or {}


def _model(report: Mapping[str, Any], item: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    spec = (report.get("config") or {}).get("spec") or {}
    places = (config.get("backend"), spec.get("backend"), report.get("args"), item.get("benchmarker"))
    return next((str(place["model"]) for place in places if isinstance(place, Mapping) and place.get("model")), "")


def _successful(block: Any) -> Mapping[str, Any]:
    if not isinstance(block, Mapping):
        return {}
    good = block.get("successful", block if "mean" in block else None)
    return good if isinstance(good, Mapping) else {}


def _flat(block: Mapping[str, Any]) -> dict[str, Any]:
    return {**{k: v for k, v in block.items() if k != "percentiles"}, **(block.get("percentiles") or {})}


def _says(block: Any) -> bool:
    """Whether there is a number in it that is not 0: parts for other media are written empty."""
    return any(map(_says, block.values())) if isinstance(block, Mapping) else bool(foreign.number(block))


def _is_report(data: Any) -> bool:
    benchmarks = data.get("benchmarks") if isinstance(data, Mapping) else None
    return (
        isinstance(benchmarks, list)
        and bool(benchmarks)
        and all(isinstance(item, Mapping) and isinstance(item.get("metrics"), Mapping) for item in benchmarks)
    )


IMPORTER = Importer("guidellm", 2, "guidellm's reports", take, read)
