"""inference-perf's report folders (`stage_N_lifecycle_metrics.json`).

In: the stage files of one run (the summary over all stages mixes loads and is not a point). Out: one run with a point a
stage. Seconds throughout. Its `time_per_output_token` is (end - first token)/(tokens - 1), our `itl`; its
`inter_token_latency` are gaps of chunks, our `icl`; its normalised one is end to end. Its token counts are the
client's: where the server's disagree the point says so, because times per token and rates follow from them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ridgeline.core.cell import digest
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Caution, Measure
from ridgeline.results.importers import foreign, reports
from ridgeline.results.importers.api import Bundle, Imported, Importer, Notes
from ridgeline.results.importers.measures import Spread, spread

ORIGIN = "inference-perf"
TABLE = {
    "time_to_first_token": Spread("ttft"),
    "time_per_output_token": Spread("itl", speed="interactivity"),
    "normalized_time_per_output_token": Spread("", speed="e2e_interactivity"),
    "inter_token_latency": Spread("icl"),
    "request_latency": Spread("e2e_latency"),
}
# Under `successes`; the first that is there counts.
LENGTHS = {"input_tokens": ("prompt_len", "prompt_tokens"), "output_tokens": ("output_len", "output_tokens")}
RATES = {"input": "input_tokens_per_sec", "output": "output_tokens_per_sec", "total": "total_tokens_per_sec"}
_STAGE = re.compile(r"stage_(\d+)_lifecycle_metrics\.json$")
_FILES = ("*lifecycle_metrics.json", "*config.yaml", "*.partial.stage_*.yaml", "*validation.json")
_OFF = 0.01  # share by which the server's count of tokens may differ


def take(path: Path) -> Bundle | None:
    """A report folder, or one stage file."""
    if path.is_file():
        return Bundle.of_file(path) if _STAGE.search(path.name) else None
    bundle = Bundle.of_folder(path, _FILES)
    return bundle if any(_STAGE.search(name) for name in bundle.files) else None


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """One run; equal loads in several stages are repeats."""
    notes = Notes()
    config = _yaml(bundle, next(iter(bundle.matching("*config.yaml")), None))
    stages: list[tuple[int, str, Mapping[str, Any]]] = []
    for name in bundle.files:
        match = _STAGE.search(name)
        if match:
            stages.append((int(match.group(1)), name, bundle.data(name)))
        elif name.endswith(".json"):
            notes.add(name.rpartition("/")[2], "mixes the loads of all stages, or repeats them", name)
    stages.sort(key=lambda stage: stage[:2])
    for _, name, data in stages:
        if not isinstance(data.get("successes"), Mapping):
            raise InputError([Problem("has no `successes`: not a stage report", bundle.where(name))])
    loads = [_load(bundle, config, number_, name, data, notes) for number_, name, data in stages]
    run = reports.run_of(
        ORIGIN,
        bundle.told,
        loads,
        key=digest([data for _, _, data in stages])[:16],
        name=f"inference-perf {bundle.title}",
        header={"config": config},
    )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=(run,), unmapped=notes.all())


def _load(
    bundle: Bundle, config: Mapping[str, Any], stage: int, name: str, data: Mapping[str, Any], notes: Notes
) -> reports.Load:
    """A concurrent stage keeps its concurrency; one at a rate has that rate as a fact, the reached one as a measure,
    and as concurrency what Little's law gives: achieved rate times mean latency."""
    load, good = data.get("load_summary") or {}, data["successes"]
    n = foreign.whole(good.get("count"))
    latency = {key: block for key, block in (good.get("latency") or {}).items() if isinstance(block, Mapping)}
    measures: dict[str, Measure] = {}
    for key, block in latency.items():
        if key in TABLE:
            measures |= spread(block, TABLE[key], n)
        else:
            notes.add(key, "no measure of ours")
    for ours, theirs in LENGTHS.items():
        block = next((good[key] for key in theirs if isinstance(good.get(key), Mapping)), {})
        measures |= spread(block, Spread(ours, "tokens"), n)
    prompt = good.get("prompt_tokens") or {}
    if foreign.number(prompt.get("cached")) is not None and foreign.number(prompt.get("total")):
        measures["usage_cache_hit"] = Measure(prompt["cached"] / prompt["total"], "ratio", n)
    rates = good.get("throughput") or {}
    asked = foreign.number(load.get("concurrency")) or foreign.number(load.get("concurrency_level"))
    facts: dict[str, Any] = {"tool": "inference-perf", "stage": stage}
    if asked is None:
        rate = foreign.number(load.get("achieved_rate")) or foreign.number(load.get("requested_rate")) or 0.0
        asked = max(1, round(rate * (foreign.number((latency.get("request_latency") or {}).get("mean")) or 0.0)))
        facts["concurrency_is"] = "achieved rate times mean latency, not asked for"
        facts["requested_rate"] = foreign.number(load.get("requested_rate"))
    server = config.get("server") or {}
    return reports.Load(
        model=str(server.get("model_name") or ""),
        framework=str(server.get("type") or ""),
        concurrency=int(asked),
        good=n,
        bad=foreign.whole((data.get("failures") or {}).get("count")),
        measures=measures,
        rates={part: rates.get(key) for part, key in RATES.items()},
        request_rate=rates.get("requests_per_sec"),
        duration=data.get("benchmark_time_seconds"),
        measured_at=_began(bundle, name, stage),
        facts=facts,
        cautions=_counts(good),
    )


def _counts(good: Mapping[str, Any]) -> tuple[Caution, ...]:
    """What the client counted against what the server did."""
    client, server = (foreign.number((good.get(key) or {}).get("mean")) for key in ("output_len", "output_tokens"))
    if client is None or not server or abs(client - server) <= _OFF * server:
        return ()
    message = f"the client counted {client:g} tokens an answer, the server {server:g}: times and rates are the client's"
    return (Caution("token-counts", message, "let inference-perf use the server's counts, or the model's tokenizer"),)


def _began(bundle: Bundle, name: str, stage: int) -> str | None:
    """When a stage began: a report of its own says so, beside it, since version 0.7."""
    folder = name.rpartition("/")[0]
    pattern = f"*.partial.stage_{stage}.yaml"
    report = _yaml(bundle, next(iter(bundle.matching(f"{folder}/{pattern}" if folder else pattern)), None))
    return foreign.instant(str(((report.get("run") or {}).get("time") or {}).get("start") or ""))


def _yaml(bundle: Bundle, name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    try:
        found = yaml.load(bundle.text(name), Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise InputError([Problem(f"not YAML: {error}", bundle.where(name))]) from error
    plain: Any = json.loads(json.dumps(found, default=str))
    return plain if isinstance(plain, dict) else {}


IMPORTER = Importer("inference-perf", 2, "inference-perf's reports", take, read)
