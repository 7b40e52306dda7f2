"""AIPerf's export folders: every request again, and a point by our own formulas.

In: `profile_export.jsonl`, with `profile_export_aiperf.json` and a server metrics export where there are some. Out: one
point whose records are stored with us. Without the per-request file the summary's statistics are taken as they are.
Times are AIPerf's nanoseconds since the first request; a measure of ours that needs what it does not export (send of
the last byte, counts of the first chunk) is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ridgeline.core.cell import Arm, Cell, digest
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.point import Measure, Source
from ridgeline.core.record import Outcome, Phases, Record, Replay
from ridgeline.core.where import Where
from ridgeline.results.identity import point_id
from ridgeline.results.importers import foreign
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer, Notes
from ridgeline.results.importers.withhold import withheld

ORIGIN = "aiperf"
ROWS, SUMMARY = "*profile_export.jsonl", "*profile_export_aiperf.json"
_MS = 1e6
_OUTCOMES = {
    "HTTPError": Outcome.HTTP_ERROR,
    "SSEResponseError": Outcome.STREAM_ERROR,
    "TruncatedResponseError": Outcome.TRUNCATED,
    "TimeoutError": Outcome.TIMEOUT,
    "RequestCancellationError": Outcome.CANCELLED,
    "InvalidInferenceResultError": Outcome.EMPTY,
    "ClientError": Outcome.CLIENT_ERROR,
}
_USED = {
    "time_to_first_token", "request_latency", "decode_duration", "inter_token_latency", "time_to_first_output_token",
    "time_to_second_token", "inter_chunk_latency", "input_sequence_length", "output_sequence_length",
    "output_token_count", "reasoning_token_count", "usage_prompt_tokens", "usage_completion_tokens",
    "usage_total_tokens", "usage_prompt_cache_read_tokens", "usage_reasoning_tokens",
    "output_token_throughput_per_user", "e2e_output_token_throughput", "prefill_throughput_per_user",
}  # fmt: skip
_SUMMARY = {
    "time_to_first_token": ("ttft", "s", 1e-3),
    "time_to_first_output_token": ("ttft_visible", "s", 1e-3),
    "time_to_second_token": ("ttst", "s", 1e-3),
    "inter_token_latency": ("itl", "s", 1e-3),
    "inter_chunk_latency": ("icl", "s", 1e-3),
    "request_latency": ("e2e_latency", "s", 1e-3),
    "decode_duration": ("decode_duration", "s", 1e-3),
    "input_sequence_length": ("input_tokens", "tokens", 1.0),
    "output_sequence_length": ("output_tokens", "tokens", 1.0),
}
_RATES = {"input": "input_token_throughput", "output": "output_token_throughput", "total": "total_token_throughput"}


def take(path: Path) -> Bundle | None:
    """A folder with AIPerf's exports, or one of its two files."""
    if path.is_file():
        known = path.name.endswith(("profile_export.jsonl", "profile_export_aiperf.json"))
        return Bundle.of_file(path) if known else None
    bundle = Bundle.of_folder(path, (ROWS, SUMMARY))
    return bundle if bundle.files else None


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """One run a bundle; each folder of exports in it is one point (concurrencies of a sweep, or repeats)."""
    notes = Notes()
    folders = sorted({name.rpartition("/")[0] for name in bundle.files})
    counted: dict[tuple[str, int], int] = {}
    points = []
    for folder in folders:
        rows = next(iter(bundle.matching(f"{folder}/{ROWS}" if folder else ROWS)), None)
        about = next(iter(bundle.matching(f"{folder}/{SUMMARY}" if folder else SUMMARY)), None)
        summary = bundle.data(about) if about else {}
        lines = list(_lines(bundle.files[rows])) if rows else []
        cell = _cell(bundle, summary, lines)
        place = (cell.line, cell.concurrency)
        counted[place] = counted.get(place, 0) + 1
        points.append(_point(bundle, cell, summary, lines, counted[place], notes))
    started = min((item.point.measured_at for item in points if item.point.measured_at), default=None)
    key = bundle.told.get("run") or digest(sorted(item.found["content"] for item in points))[:16]
    for index, item in enumerate(points):
        points[index] = _under(item, key)
    run = ImportedRun(
        origin=ORIGIN,
        key=key,
        name=bundle.told.get("name") or f"AIPerf {bundle.title}",
        started_at=started,
        points=tuple(points),
    )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=(run,), unmapped=notes.all())


def _under(item: ImportedPoint, run: str) -> ImportedPoint:
    point = item.point
    key = digest({"origin": ORIGIN, "run": run, "line": point.line, "conc": point.concurrency, "repeat": item.repeat})
    return replace(item, point=replace(point, run_key=key, id=point_id(key, point.attempt)))


def _point(
    bundle: Bundle, cell: Cell, summary: Mapping[str, Any], lines: list[dict[str, Any]], repeat: int, notes: Notes
) -> ImportedPoint:
    gpus = foreign.whole(bundle.told.get("gpus"))
    starts = [row["metadata"].get("request_start_ns") for row in lines]
    origin_ns = min((start for start in starts if start is not None), default=0)
    replay = replay_of(lines, origin_ns, notes) if lines else None
    measured_at = foreign.instant(origin_ns / 1e9) if origin_ns else foreign.instant(summary.get("start_time"))
    told = [[row["metadata"].get(name) for name in ("request_start_ns", "x_correlation_id")] for row in lines]
    content = digest(told or summary.get("benchmark_id") or str(summary.get("start_time")))
    facts = {
        "tool": "aiperf",
        "tool_version": summary.get("aiperf_version"),
        "scenario_name_told": (summary.get("metadata") or {}).get("scenario"),
        "submission_valid": (summary.get("metadata") or {}).get("submission_valid"),
    }
    facts = {name: value for name, value in facts.items() if value is not None}
    found = {"content": content, "aiperf": summary.get("aiperf_version")}
    if replay is not None:
        from ridgeline.results.aggregate import aggregate

        point = aggregate(
            replay, cell=cell, source=Source.MEASURED, run_key="pending", gpus=gpus or 1, facts=facts,
            measured_at=measured_at,
        )  # fmt: skip
        measures = dict(point.measures)
    else:
        measures = _from_summary(summary, notes)
        point = foreign.make_point(
            cell, origin=ORIGIN, run="pending", measures=measures, gpus=gpus, measured_at=measured_at, facts=facts,
            reasons=("aborted: AIPerf says that the run was cancelled",) if summary.get("was_cancelled") else (),
        )  # fmt: skip
    if not gpus:
        reason = "the number of GPUs is unknown: import with --set gpus=N"
        for name in [name for name in measures if name.startswith("throughput_per_gpu.")]:
            measures[name] = Measure(None, "tok/s/GPU", None, reason)
    point = replace(point, measures=measures, gpus=gpus, facts={**point.facts, "origin": ORIGIN})
    return ImportedPoint(point=point, repeat=repeat, found=found, replay=replay, documents={"cell": cell})


def _from_summary(summary: Mapping[str, Any], notes: Notes) -> dict[str, Measure]:
    measures: dict[str, Measure] = {}
    for tag, block in summary.items():
        if not isinstance(block, Mapping) or "avg" not in block:
            continue
        n = foreign.whole(block.get("count")) or None
        if tag in _SUMMARY:
            name, unit, factor = _SUMMARY[tag]
            for statistic, value in block.items():
                ours = "mean" if statistic == "avg" else statistic
                known = foreign.number(value)
                if ours in ("mean", "std", "min", "max") or ours.startswith("p"):
                    measures[f"{name}.{ours}"] = foreign.measure(None if known is None else known * factor, unit, n)
        elif tag not in (*_RATES.values(), "request_throughput", "benchmark_duration"):
            notes.add(tag, "no measure of ours in the summary", block.get("avg"))
    for name in [name for name in measures if name.startswith("itl.") and name != "itl.std"]:
        value = measures[name].value
        swapped = {"min": "max", "max": "min"}.get(name.removeprefix("itl."), name.removeprefix("itl."))
        if value:
            measures[f"interactivity.{swapped}"] = Measure(1 / value, "tok/s/user", measures[name].n)
    for part, tag in _RATES.items():
        rate = (summary.get(tag) or {}).get("avg")
        measures[f"throughput.{part}"] = foreign.measure(rate, "tok/s")
        measures[f"throughput_per_gpu.{part}"] = foreign.measure(rate, "tok/s/GPU")
    measures["request_rate"] = foreign.measure((summary.get("request_throughput") or {}).get("avg"), "req/s")
    measures["duration"] = foreign.measure((summary.get("benchmark_duration") or {}).get("avg"), "s")
    return withheld(measures)


def _cell(bundle: Bundle, summary: Mapping[str, Any], lines: list[dict[str, Any]]) -> Cell:
    told, config = bundle.told, summary.get("input_config") or {}
    load = config.get("loadgen") or {}
    endpoint = config.get("endpoint") or {}
    model = told.get("model") or next(iter(endpoint.get("model_names") or config.get("model_names") or []), "")
    concurrency = foreign.whole(told.get("concurrency") or load.get("concurrency")) or _in_flight(lines)
    agentic = any(row["metadata"].get("source_trace_id") or row["metadata"].get("agent_depth") for row in lines)
    if agentic and "isl" not in told:
        shape = foreign.scenario(None, None)
    else:
        shape = foreign.scenario(told.get("isl") or _typical(lines, "input_sequence_length", summary),
                                 told.get("osl") or _typical(lines, "output_sequence_length", summary))  # fmt: skip
    return foreign.make_cell(
        prefix=told.get("model_prefix") or str(model).rpartition("/")[2],
        model=str(model),
        scenario=shape,
        concurrency=concurrency,
        arm=Arm(topology=foreign.topology(told.get("tp") or told.get("gpus") or 1, told.get("ep") or 1)),
        precision=told.get("precision", ""),
        framework=told.get("framework", ""),
        hardware=told.get("hardware", ""),
        image=told.get("image", ""),
    )


def _typical(lines: list[dict[str, Any]], tag: str, summary: Mapping[str, Any]) -> int:
    """The usual length: the median over requests, so that one odd request does not name the workload."""
    block = summary.get(tag)
    if isinstance(block, Mapping):
        return round(float(block.get("p50") or block.get("avg") or 0))
    values = sorted(row["metrics"][tag]["value"] for row in lines if tag in row.get("metrics", {}))
    return round(values[len(values) // 2]) if values else 0


def _in_flight(lines: list[dict[str, Any]]) -> int:
    """Most requests in flight at one time: what the concurrency was, where nothing states it."""
    events = []
    for row in lines:
        about = row["metadata"]
        if "request_start_ns" in about and "request_end_ns" in about:
            events += [(about["request_start_ns"], 1), (about["request_end_ns"], -1)]
    now = most = 0
    for _, step in sorted(events):
        now += step
        most = max(most, now)
    return most


def _lines(path: Path) -> Iterator[dict[str, Any]]:
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
            if not isinstance(row, dict) or not isinstance(row.get("metadata"), dict):
                problems.append(Problem("no `metadata`: not a row of profile_export.jsonl", Where(str(path), number)))
                continue
            yield row
    if problems:
        raise InputError(problems[:20])


def replay_of(rows: list[dict[str, Any]], origin_ns: int, notes: Notes) -> Replay:
    """Rows as a replay of ours, in order of sending. Requests skipped or cancelled are not in AIPerf's file."""
    ordered = sorted(rows, key=lambda row: (row["metadata"].get("request_start_ns") or 0, str(row["metadata"])))
    records = tuple(_record(number, row, origin_ns, notes) for number, row in enumerate(ordered))
    measured = [record for record in records if record.phase == "profiling"]
    start = min((record.scheduled_ns for record in measured), default=None)
    end = max((record.end_ns or record.sent_ns or 0 for record in measured), default=None)
    phases = Phases(start_ns=0, profiling_start_ns=start, profiling_end_ns=end, drained_ns=end)
    return Replay(records=records, phases=phases, prompt_mode="aiperf")


def _record(number: int, row: Mapping[str, Any], origin_ns: int, notes: Notes) -> Record:
    about, metrics, error = row["metadata"], row.get("metrics") or {}, row.get("error")

    def at(name: str) -> int | None:
        value = about.get(name)
        return None if value is None else int(value) - origin_ns

    def value(tag: str) -> Any:
        return metrics[tag]["value"] if tag in metrics else None

    for tag in metrics:
        if tag not in _USED:
            notes.add(tag, "no field of a record of ours", metrics[tag].get("value"))
    sent = at("request_start_ns")

    def after(tag: str, start: int | None = sent) -> int | None:
        milliseconds = value(tag)
        return None if milliseconds is None or start is None else start + round(milliseconds * _MS)

    first = after("time_to_first_token")
    gaps = value("inter_chunk_latency") or []
    arrivals: list[int] = []
    if first is not None:
        arrivals, exact = [first], float(first)
        for gap in gaps:
            exact += gap * _MS
            arrivals.append(round(exact))
    tokens = value("usage_completion_tokens")
    tokens = value("output_sequence_length") if tokens is None else tokens
    prompt = value("usage_prompt_tokens")
    prompt = value("input_sequence_length") if prompt is None else prompt
    outcome, status, message = _ending(about, error, first)
    return Record(
        request_id=number,
        phase="warmup" if about.get("benchmark_phase") == "warmup" else "profiling",
        lane=0,
        tree=foreign.whole(about.get("session_num")),
        session_id=str(about.get("source_trace_id") or about.get("conversation_id") or ""),
        conversation_id=str(about.get("conversation_id") or ""),
        turn_index=foreign.whole(about.get("turn_index")),
        depth=foreign.whole(about.get("agent_depth")),
        correlation_id=str(about.get("x_correlation_id") or ""),
        parent_correlation_id=about.get("parent_correlation_id"),
        source_outer=about.get("source_outer_idx"),
        source_inner=about.get("source_inner_idx"),
        source_kind=str(about.get("source_kind") or ""),
        scheduled_ns=at("credit_issued_ns") if at("credit_issued_ns") is not None else (sent or 0),  # type: ignore[arg-type]
        sent_ns=sent,
        first_byte_ns=_before(at("request_ack_ns"), first),
        first_token_ns=first,
        first_visible_ns=after("time_to_first_output_token"),
        last_token_ns=after("request_latency"),
        end_ns=at("request_end_ns"),
        outcome=outcome,
        status=status,
        error=message,
        prompt_tokens=None if prompt is None else int(prompt),
        completion_tokens=None if tokens is None else int(tokens),
        reasoning_tokens=_whole(value("reasoning_token_count")),
        cached_tokens=_whole(value("usage_prompt_cache_read_tokens")),
        chunks=len(arrivals) or None,
        chunk_ns=tuple(arrivals),
    )


def _ending(about: Mapping[str, Any], error: Any, first: int | None) -> tuple[Outcome, int | None, str | None]:
    if not error:
        if about.get("was_cancelled"):
            return Outcome.CANCELLED, None, None
        return (Outcome.OK, 200, None) if first is not None else (Outcome.EMPTY, None, "no generated token")
    code = error.get("code")
    kind = str(error.get("type") or "")
    outcome = _OUTCOMES.get(kind)
    if outcome is None:
        outcome = Outcome.HTTP_ERROR if isinstance(code, int) and code >= 400 else Outcome.CLIENT_ERROR
    return outcome, code if isinstance(code, int) else None, str(error.get("message") or kind)


def _before(early: int | None, late: int | None) -> int | None:
    """The acknowledgement where it lies before the first token; AIPerf stamps both apart."""
    return early if early is None or late is None or early <= late else late


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


IMPORTER = Importer("aiperf", 1, "AIPerf's exports", take, read)
