"""`vllm bench serve` result files (and their relatives whose latencies are in seconds).

In: JSON files of one bench or of several, a folder of them. Out: one run; files that measured the same thing are its
repeats. Their `tpot` is (latency - ttft)/(tokens - 1), our `itl`; their `itl` are gaps of chunks, our `icl`. The file
names neither GPUs nor engine version: what is not told with `--set` is missing, not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ridgeline.core.cell import digest
from ridgeline.results.importers import foreign, reports
from ridgeline.results.importers import inferencex_names as names
from ridgeline.results.importers.api import Bundle, Imported, Importer, Notes

ORIGIN = "vllm-bench"
_LATENCY = re.compile(r"^(mean|median|std|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)(_ms)?$")
_USED = {
    "date", "backend", "endpoint_type", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness",
    "max_concurrency", "duration", "benchmark_start_time_unix", "benchmark_end_time_unix", "completed", "failed",
    "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput", "total_token_throughput",
    "input_throughput", "label",
}  # fmt: skip
_RATES = {"total": "total_token", "output": "output"}
_SHAPE = ("model_id", "max_concurrency", "num_prompts", "request_rate")


def take(path: Path) -> Bundle | None:
    """One result file, or every one under a folder."""
    return Bundle.of_json(path, is_result, deep=True)


def is_result(data: Any) -> bool:
    """Whether this is one result document."""
    return isinstance(data, Mapping) and {"model_id", "duration", "completed", "total_output_tokens"} <= set(data)


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """Every file as a point. The run's key is when its first bench began, so that a repeat added later joins it."""
    notes = Notes()
    found = [(str(_began(data)), name, data) for name in bundle.files for data in [bundle.data(name)]]
    found.sort(key=lambda item: item[:2])
    first: dict[str, Mapping[str, Any]] = {}  # random lengths vary a little: the first of equal benches names them
    loads = []
    for _, _, data in found:
        same = digest([*(str(data.get(key)) for key in _SHAPE), round(_each(data, "total_input_tokens"), -2)])
        loads.append(_load(data, first.setdefault(same, data), notes))
    key = digest([found[0][0], found[0][2].get("model_id")])[:16]
    run = reports.run_of(ORIGIN, bundle.told, loads, key=key, name=f"vllm bench {bundle.title}")
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=(run,), unmapped=notes.all())


def _load(data: Mapping[str, Any], shape: Mapping[str, Any], notes: Notes) -> reports.Load:
    n, asked = foreign.whole(data.get("completed")), foreign.whole(data.get("num_prompts"))
    flat: dict[str, Any] = {}
    for name, value in data.items():
        match = _LATENCY.match(name)
        if match:
            known = foreign.number(value)
            flat[f"{match.group(1)}_{match.group(2)}"] = known / 1000 if known is not None and match.group(3) else known
        elif isinstance(value, list):
            notes.add(name, "one value a request, without the times that records need", f"{len(value)} values")
        elif name not in _USED and value not in (None, ""):
            notes.add(name, "no measure of ours", value)
    seconds, tokens_in = foreign.number(data.get("duration")) or 0.0, foreign.number(data.get("total_input_tokens"))
    rates = {part: foreign.number(data.get(f"{name}_throughput")) for part, name in _RATES.items()}
    rates["input"] = tokens_in / seconds if tokens_in is not None and seconds > 0 else None
    if rates["total"] is None and rates["input"] is not None and rates["output"] is not None:
        rates["total"] = rates["input"] + rates["output"]
    rate = data.get("request_rate")
    return reports.Load(
        model=str(data.get("model_id") or ""),
        framework=str(data.get("backend") or ""),
        concurrency=foreign.whole(data.get("max_concurrency")) or asked,
        isl=round(_each(shape, "total_input_tokens")),
        osl=round(_each(shape, "total_output_tokens")),
        good=n,
        bad=max(0, asked - n),
        measures=names.latencies(flat, agentic=False, notes=notes, n=n),
        rates=rates,
        request_rate=data.get("request_throughput"),
        duration=data.get("duration"),
        measured_at=_began(data),
        facts={"tool": "vllm bench serve", "requested_rate": None if rate in ("inf", None) else rate},
    )


def _each(data: Mapping[str, Any], name: str) -> float:
    """Tokens a request."""
    return (foreign.number(data.get(name)) or 0.0) / max(1, foreign.whole(data.get("completed"), 1))


def _began(data: Mapping[str, Any]) -> str | None:
    start = foreign.number(data.get("benchmark_start_time_unix"))
    if start is not None:
        return foreign.instant(start)
    try:
        return datetime.strptime(str(data.get("date")), "%Y%m%d-%H%M%S").date().isoformat()  # noqa: DTZ007
    except ValueError:
        return None


IMPORTER = Importer("vllm-bench", 2, "`vllm bench serve` results", take, read)
