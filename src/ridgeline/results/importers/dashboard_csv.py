"""The CSV that InferenceX's dashboard exports.

In: a table whose headers say what a column holds, in any order; those of the interface's rows count too. Out: one run
a CI run or date, or of the file when its rows name neither. Columns headed `(ms)` hold seconds there; whether a file
does is decided from the rows themselves (time per token times interactivity is 1), and a file that cannot tell is taken
as the dashboard writes it. `median_tpot_s` and `mean_ttft_ms` say their unit and mean it. An empty cell is
missing; 0 is zero.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ridgeline.results.importers import foreign
from ridgeline.results.importers import inferencex_names as names
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer, Notes
from ridgeline.results.importers.inferencex_api import ORIGIN, RunName, cell_of, layout_of, overloaded, run_name

# Header without units and punctuation -> field of a row of the interface.
_FIELDS = {
    "model": "model", "isl": "isl", "osl": "osl", "hardware": "hardware", "hardware key": "hardware",
    "framework": "framework", "precision": "precision", "concurrency": "conc", "conc": "conc", "date": "date",
    "tp": "decode_tp", "ep": "decode_ep", "dp attention": "decode_dp_attention", "dpa": "decode_dp_attention",
    "spec method": "spec_method", "speculative decoding": "spec_method", "spec": "spec_method", "image": "image",
    "run url": "run_url", "disaggregated": "disagg", "disagg": "disagg", "multinode": "is_multinode",
    "is multinode": "is_multinode", "prefill tp": "prefill_tp", "prefill ep": "prefill_ep", "decode tp": "decode_tp",
    "decode ep": "decode_ep", "prefill workers": "prefill_num_workers", "decode workers": "decode_num_workers",
    "prefill gpus": "num_prefill_gpu", "decode gpus": "num_decode_gpu",
    "throughput/gpu": "tput_per_gpu", "throughput per gpu": "tput_per_gpu", "total throughput/gpu": "tput_per_gpu",
    "input throughput/gpu": "input_tput_per_gpu", "input throughput per gpu": "input_tput_per_gpu",
    "output throughput/gpu": "output_tput_per_gpu", "output throughput per gpu": "output_tput_per_gpu",
    "total tput per gpu": "tput_per_gpu", "tput per gpu": "tput_per_gpu", "dp attn": "decode_dp_attention",
}  # fmt: skip
_FIELDS |= {  # the interface's own names
    name.replace("_", " "): name
    for name in (
        "input_tput_per_gpu", "output_tput_per_gpu", "spec_method", "is_multinode", "run_url", "offload_mode",
        "prefill_tp", "prefill_ep", "prefill_dp_attention", "prefill_num_workers", "num_prefill_gpu",
        "decode_tp", "decode_ep", "decode_dp_attention", "decode_num_workers", "num_decode_gpu",
    )
}  # fmt: skip
_TRUTHS = ("disagg", "is_multinode", "decode_dp_attention", "prefill_dp_attention")
_METRIC = re.compile(
    r"^(mean|median|std|p\d+(?:\.\d+)?) (ttft|tpot|itl|e2el|e2e latency|interactivity|intvty)(?: (s|ms))?$"
)
_SAID = {"s": 1.0, "ms": 1e-3}  # seconds of a unit that the header's name ends with
_METRIC_NAMES = {"e2e latency": "e2el", "interactivity": "intvty"}
_INSIDE = ("tput_per_gpu", "input_tput_per_gpu", "output_tput_per_gpu")


def take(path: Path) -> Bundle | None:
    """A CSV file with the dashboard's columns."""
    if not path.is_file() or path.suffix != ".csv":
        return None
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = [_plain(cell) for cell in next(csv.reader(file), [])]
    known = {_FIELDS.get(name) for name in header}
    return Bundle.of_file(path) if {"hardware", "framework", "conc"} <= known else None


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """Every row as a point."""
    notes = Notes()
    runs: dict[str, list[ImportedPoint]] = {}
    dates: dict[str, str | None] = {}
    told: dict[tuple[RunName, str], list[dict[str, float]]] = {}  # what rows of one cell say: others are repeats
    for name in sorted(bundle.files):
        rows = [_row(line, notes) for line in csv.DictReader(bundle.text(name).lstrip("﻿").splitlines())]
        factor = unit_factor(rows)
        for row in rows:
            values = {
                metric: value * factor if metric.endswith(("ttft", "tpot", "itl", "e2el")) else value
                for metric, value in row["metrics"].items()
            }
            row["metrics"] = values | row["said"]
            if "conc" not in row or not row["metrics"]:
                notes.add("a row", "none of its columns holds a measure, or no concurrency", _label(row))
                continue
            run = run_name(row.get("run_url"), f"date:{row['date']}" if row.get("date") else f"file:{name}")
            dates.setdefault(run.key, foreign.instant(row.get("date")))
            if foreign.whole(row["conc"]) < 1:
                notes.add("a row", "its concurrency is no positive number", str(row["conc"]))
                continue
            place = (run, cell_of(row).name)
            if row["metrics"] in told.setdefault(place, []):
                continue
            told[place].append(row["metrics"])
            runs.setdefault(run.key, []).append(_point(row, run.key, run.attempt, len(told[place]), notes))
    found = tuple(
        ImportedRun(origin=ORIGIN, key=key, name=_name(key), started_at=dates[key], points=tuple(points))
        for key, points in sorted(runs.items())
    )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=found, unmapped=notes.all())


def unit_factor(rows: list[dict[str, Any]]) -> float:
    """1 when latencies are seconds, 0.001 when they are milliseconds: by time per token times interactivity."""
    products = [
        metrics[f"{statistic}_tpot"] * metrics[f"{statistic}_intvty"]
        for row in rows
        for metrics in [row["metrics"]]
        for statistic in ("median", "p90", "p99")
        if f"{statistic}_tpot" in metrics and f"{statistic}_intvty" in metrics
    ]
    return 1e-3 if products and sorted(products)[len(products) // 2] > 30 else 1.0


def _number(text: str) -> float | None:
    try:
        return foreign.number(float(text))
    except ValueError:
        return None


def _label(row: Mapping[str, Any]) -> str:
    return " ".join(str(row.get(name, "?")) for name in ("hardware", "model", "conc"))


def _name(key: str) -> str:
    kind, _, name = key.partition(":")
    return name if kind == "file" else f"CI run {key}"


def _point(row: dict[str, Any], run: str, attempt: int, repeat: int, notes: Notes) -> ImportedPoint:
    cell, layout = cell_of(row), layout_of(row)
    values = row["metrics"]
    measures = names.latencies(values, agentic=cell.scenario.kind == "agentic-coding", notes=notes)
    measures |= names.throughput(values, layout.gpus, layout.parts, layout.why_not)
    facts = {"run_url": row["run_url"]} if row.get("run_url") else {}
    point = foreign.make_point(
        cell, origin=ORIGIN, run=run, attempt=attempt, measures=measures, gpus=layout.gpus, facts=facts,
        measured_at=foreign.instant(row.get("date")), cautions=overloaded(measures),
        repeat=repeat,
    )  # fmt: skip
    return ImportedPoint(point=point, repeat=repeat, documents={"cell": cell})


def _row(line: Mapping[str, str | None], notes: Notes) -> dict[str, Any]:
    row: dict[str, Any] = {"metrics": {}, "said": {}}
    for header, text in line.items():
        if header is None or text is None or not text.strip():
            continue
        name = _plain(header)
        metric = _METRIC.match(name)
        field = _FIELDS.get(name)
        if metric or field in _INSIDE:
            target = f"{metric[1]}_{_METRIC_NAMES.get(metric[2], metric[2])}" if metric else str(field)
            unit = metric[3] if metric else None
            value = _number(text)
            if value is None:
                notes.add(header, "not a number", text)
            else:
                row["said" if unit else "metrics"][target] = value * _SAID.get(unit or "", 1.0)
        elif field is None:
            notes.add(header, "a column this importer does not know", text)
        elif field in _TRUTHS:
            row[field] = foreign.truth(text)
        else:
            row[field] = text.strip().lower() if field in ("hardware", "framework", "precision") else text.strip()
    for role in ("ep", "tp", "dp_attention"):
        row.setdefault(f"prefill_{role}", row.get(f"decode_{role}"))
    return row


def _plain(header: str) -> str:
    """A header without its unit, in lower case."""
    return re.sub(r"\s+", " ", re.sub(r"\([^)]*\)", "", header).replace("_", " ")).strip().lower()


IMPORTER = Importer("inferencex-csv", 2, "the CSV of InferenceX's dashboard", take, read)
