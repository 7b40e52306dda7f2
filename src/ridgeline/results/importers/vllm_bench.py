"""`vllm bench serve` result files (and their relatives whose latencies are in seconds).

In: JSON files of one bench or of several, a folder of them. Out: one run; files that measured the same thing are its
repeats. Their `tpot` is (latency - ttft)/(tokens - 1), our `itl`; their `itl` are gaps of chunks, our `icl`. The file
names neither GPUs nor engine version: what is not told with `--set` is missing, not guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ridgeline.core.cell import Arm, Cell, digest
from ridgeline.core.point import Caution, Measure
from ridgeline.results.importers import foreign
from ridgeline.results.importers import inferencex_names as names
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer, Notes
from ridgeline.results.importers.withhold import withheld

ORIGIN = "vllm-bench"
NO_GPUS = "the number of GPUs is unknown: import with --set gpus=N"
_LATENCY = re.compile(r"^(mean|median|std|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)(_ms)?$")
_USED = {
    "date", "backend", "endpoint_type", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness",
    "max_concurrency", "duration", "benchmark_start_time_unix", "benchmark_end_time_unix", "completed", "failed",
    "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput", "total_token_throughput",
    "input_throughput", "label",
}  # fmt: skip


def take(path: Path) -> Bundle | None:
    """One result file, or every one under a folder."""
    if path.is_file():
        return Bundle.of_file(path) if path.suffix == ".json" and is_result(_load(path)) else None
    bundle = Bundle.of_folder(path, ("*.json",))
    files = {name: file for name, file in bundle.files.items() if is_result(_load(file))}
    return Bundle(bundle.title, files) if files else None


def is_result(data: Any) -> bool:
    """Whether this is one result document."""
    return isinstance(data, Mapping) and {"model_id", "duration", "completed", "total_output_tokens"} <= set(data)


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """Every file as a point. The run's key is when its first bench began, so that a repeat added later joins it."""
    notes = Notes()
    found = [(name, bundle.data(name)) for name in bundle.files]
    found.sort(key=lambda item: (str(_began(item[1])), item[0]))
    shapes: dict[str, Any] = {}
    for _, data in found:
        shapes.setdefault(_same(data), data)
    key = bundle.told.get("run") or digest([str(_began(found[0][1])), found[0][1].get("model_id")])[:16]
    counted: dict[tuple[str, int], int] = {}
    points = []
    for _, data in found:
        cell = _cell(bundle.told, data, shapes[_same(data)])
        place = (cell.line, cell.concurrency)
        counted[place] = counted.get(place, 0) + 1
        points.append(_point(bundle.told, cell, data, key, counted[place], notes))
    run = ImportedRun(
        origin=ORIGIN,
        key=key,
        name=bundle.told.get("name") or f"vllm bench {bundle.title}",
        started_at=_began(found[0][1]),
        points=tuple(points),
    )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=(run,), unmapped=notes.all())


def _point(
    told: Mapping[str, str], cell: Cell, data: Mapping[str, Any], run: str, repeat: int, notes: Notes
) -> ImportedPoint:
    n = foreign.whole(data.get("completed"))
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
    measures = names.latencies(flat, agentic=False, notes=notes, n=n)
    measures = withheld(measures)
    rates = {"total": data.get("total_token_throughput"), "output": data.get("output_throughput")}
    seconds = foreign.number(data.get("duration")) or 0.0
    tokens_in = foreign.number(data.get("total_input_tokens"))
    rates["input"] = tokens_in / seconds if tokens_in is not None and seconds > 0 else None
    if (
        foreign.number(rates["total"]) is None
        and rates["input"] is not None
        and foreign.number(rates["output"]) is not None
    ):
        rates["total"] = rates["input"] + rates["output"]
    gpus = foreign.whole(told.get("gpus"))
    for part, rate in rates.items():
        known = foreign.number(rate)
        measures[f"throughput.{part}"] = foreign.measure(known, "tok/s", n)
        per_gpu = known / gpus if known is not None and gpus else None
        reason = "not reported" if known is None else NO_GPUS
        measures[f"throughput_per_gpu.{part}"] = foreign.measure(per_gpu, "tok/s/GPU", n, reason)
    measures["request_rate"] = foreign.measure(data.get("request_throughput"), "req/s", n)
    measures["duration"] = foreign.measure(data.get("duration"), "s", n)
    asked = foreign.whole(data.get("num_prompts"))
    if asked >= n and asked:
        measures["error_rate"] = Measure((asked - n) / asked, "ratio", asked)
    rate = data.get("request_rate")
    facts = {"tool": "vllm bench serve", "requested_rate": None if rate in ("inf", None) else rate}
    point = foreign.make_point(
        cell,
        origin=ORIGIN,
        run=run,
        repeat=repeat,
        measures=measures,
        gpus=gpus,
        measured_at=_began(data),
        facts={name: value for name, value in facts.items() if value is not None},
        cautions=_cautions(n, cell.concurrency),
        reasons=() if asked < n or not asked or (asked - n) / asked <= 0.10 else (_errors(asked, n),),
    )
    image = {"image": told["image"]} if told.get("image") else {}
    return ImportedPoint(point=point, repeat=repeat, documents={"cell": cell}, asked=image)


def _errors(asked: int, n: int) -> str:
    return f"error-rate: {asked - n} of {asked} requests failed; at most 10 % may"


def _cautions(n: int, concurrency: int) -> tuple[Caution, ...]:
    need = 5 * concurrency
    if n >= need:
        return ()
    message = f"{n} good requests at concurrency {concurrency}; 5 a lane would be {need}"
    return (Caution("few-samples", message, "measure longer: percentiles without enough samples are withheld"),)


def _cell(told: Mapping[str, str], data: Mapping[str, Any], shape: Mapping[str, Any]) -> Cell:
    """Lengths are those told, else the mean of the first of the equal benches (random lengths vary a little)."""
    n = max(1, foreign.whole(shape.get("completed"), 1))
    isl = told.get("isl") or round((foreign.number(shape.get("total_input_tokens")) or 0) / n)
    osl = told.get("osl") or round((foreign.number(shape.get("total_output_tokens")) or 0) / n)
    model = str(data.get("model_id") or "")
    concurrency = foreign.whole(told.get("concurrency") or data.get("max_concurrency"))
    return foreign.make_cell(
        prefix=told.get("model_prefix") or model.rpartition("/")[2].lower(),
        model=model,
        scenario=foreign.scenario(isl, osl),
        concurrency=concurrency or foreign.whole(data.get("num_prompts")),
        arm=Arm(topology=foreign.topology(told.get("tp") or told.get("gpus") or 1, told.get("ep") or 1)),
        precision=told.get("precision", ""),
        framework=told.get("framework") or str(data.get("backend") or ""),
        hardware=told.get("hardware", ""),
        image=told.get("image", ""),
    )


def _same(data: Mapping[str, Any]) -> str:
    return digest([str(data.get(name)) for name in ("model_id", "max_concurrency", "num_prompts", "request_rate")]
                  + [round(mean_tokens(data, "total_input_tokens"), -2)])  # fmt: skip


def mean_tokens(data: Mapping[str, Any], name: str) -> float:
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


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes(), parse_constant=lambda _: None)
    except ValueError:
        return None


IMPORTER = Importer("vllm-bench", 1, "`vllm bench serve` results", take, read)
