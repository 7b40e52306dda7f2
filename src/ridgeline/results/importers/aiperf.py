"""AIPerf's export folders: every request again, and a point by our own formulas.

In: `profile_export.jsonl`, with `profile_export_aiperf.json` and server metrics exports where there are some. Out: one
point whose records are stored with us. Without the per-request file the summary's statistics are taken as they are.
Times are AIPerf's nanoseconds since the first request; a measure of ours that needs what it does not export (send of
the last byte, counts of the first chunk) is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.cell import digest
from ridgeline.core.point import Measure, Source
from ridgeline.core.record import Outcome, Phases, Record, Replay, ServerSample
from ridgeline.core.units import MILLISECOND
from ridgeline.results.importers import foreign, reports
from ridgeline.results.importers.aiperf_server import (
    RawSample,
    json_lines,
    pages_of,
    raw_samples,
    samples,
    server_measures,
)
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, Importer, Notes
from ridgeline.results.importers.measures import Spread, spread

ORIGIN = "aiperf"
ROWS, SUMMARY = "*profile_export.jsonl", "*profile_export_aiperf.json"
SERVER = ("*server_metrics_export.json", "*server_metrics_export.jsonl")
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
    "full_decode_duration", "full_response_inter_token_latency", "full_response_output_token_throughput_per_user",
    "osl_mismatch_diff_pct", "http_req_waiting", "http_req_receiving",
}  # fmt: skip
TABLE = {
    "time_to_first_token": Spread("ttft", factor=1e-3),
    "time_to_first_output_token": Spread("ttft_visible", factor=1e-3),
    "time_to_second_token": Spread("ttst", factor=1e-3),
    "inter_token_latency": Spread("itl", factor=1e-3, speed="interactivity"),
    "inter_chunk_latency": Spread("icl", factor=1e-3),
    "request_latency": Spread("e2e_latency", factor=1e-3),
    "decode_duration": Spread("decode_duration", factor=1e-3),
    "input_sequence_length": Spread("input_tokens", "tokens"),
    "output_sequence_length": Spread("output_tokens", "tokens"),
}
_RATES = {"input": "input_token_throughput", "output": "output_token_throughput", "total": "total_token_throughput"}
_SCALARS = {*_RATES.values(), "request_throughput", "benchmark_duration", "request_count", "error_request_count"}


def take(path: Path) -> Bundle | None:
    """A folder with AIPerf's exports, or one of its two files."""
    if path.is_file():
        known = path.name.endswith(("profile_export.jsonl", "profile_export_aiperf.json"))
        return Bundle.of_file(path) if known else None
    bundle = Bundle.of_folder(path, (ROWS, SUMMARY, *SERVER))
    return bundle if any(fnmatchcase(name, kind) for name in bundle.files for kind in (ROWS, SUMMARY)) else None


class _Export(NamedTuple):
    """One folder of exports: what the summary says, every request, and what the servers' pages showed."""

    summary: Mapping[str, Any]
    lines: list[dict[str, Any]]
    samples: tuple[RawSample, ...]
    pages: Mapping[str, Any]

    @property
    def names(self) -> set[str]:
        """Metrics on the servers' pages."""
        return {*(self.pages.get("metrics") or ()), *(name for item in self.samples for name in item.metrics)}

    @property
    def content(self) -> str:
        """What names the measurement, wherever its files lie."""
        told = [[row["metadata"].get(name) for name in ("request_start_ns", "x_correlation_id")] for row in self.lines]
        return digest(told or self.summary.get("benchmark_id") or str(self.summary.get("start_time")))


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """One run a bundle; each folder of exports in it is one point (concurrencies of a sweep, or repeats)."""
    notes = Notes()
    exports = [_export(bundle, folder) for folder in sorted({name.rpartition("/")[0] for name in bundle.files})]
    exports = [item for item in exports if item.lines or item.summary]
    plain = [_load(item, notes) for item in exports]
    key = digest(sorted(item.content for item in exports))[:16]
    run = reports.run_of(ORIGIN, bundle.told, plain, key=key, name=f"AIPerf {bundle.title}")
    points = [
        _by_requests(bundle, export, item, notes) if export.lines else _by_pages(export, item)
        for export, item in zip(exports, run.points, strict=True)
    ]
    run = replace(run, points=tuple(points))
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=(run,), unmapped=notes.all())


def _export(bundle: Bundle, folder: str) -> _Export:
    def first(pattern: str) -> str | None:
        return next(iter(bundle.matching(f"{folder}/{pattern}" if folder else pattern)), None)

    rows, about, pages, scrapes = (first(pattern) for pattern in (ROWS, SUMMARY, *SERVER))
    return _Export(
        summary=bundle.data(about) if about else {},
        lines=list(json_lines(bundle.files[rows], "metadata")) if rows else [],
        samples=raw_samples(bundle.files[scrapes]) if scrapes else (),
        pages=bundle.data(pages) if pages else {},
    )


def _by_requests(bundle: Bundle, export: _Export, item: ImportedPoint, notes: Notes) -> ImportedPoint:
    """The point by our own formulas, from every request and every scrape."""
    from ridgeline.results.aggregate import aggregate

    plain, gpus = item.point, foreign.whole(bundle.told.get("gpus"))
    origin_ns = _origin(export.lines)
    types = {name: entry.get("type", "") for name, entry in (export.pages.get("metrics") or {}).items()}
    replay = replay_of(export.lines, origin_ns, notes, samples(export.samples, types, origin_ns))
    point = aggregate(
        replay,
        cell=item.documents["cell"],
        source=plain.source,
        run_key=plain.run_key,
        gpus=gpus or 1,
        facts=plain.facts,
        measured_at=plain.measured_at,
        scrapes=pages_of(export.pages) if export.pages and not export.samples else None,
    )
    measures = dict(point.measures)
    if not gpus:
        measures |= {name: m for name, m in plain.measures.items() if name.startswith("throughput_per_gpu.")}
    return replace(item, point=replace(point, measures=measures, gpus=gpus), replay=replay)


def _by_pages(export: _Export, item: ImportedPoint) -> ImportedPoint:
    """The summary's own statistics, with what the servers' pages tell beside them."""
    if not export.pages:
        return item
    found = server_measures(export.pages)
    return replace(item, point=replace(item.point, measures={**item.point.measures, **found}))


def _load(export: _Export, notes: Notes) -> reports.Load:
    """A load as the summary has it; of exports without one, what the requests tell of the cell."""
    summary, lines = export.summary, export.lines
    measures: dict[str, Measure] = {}
    for tag, block in summary.items():
        if isinstance(block, Mapping) and "avg" in block:
            if tag in TABLE:
                measures |= spread(block, TABLE[tag], foreign.whole(block.get("count")) or None)
            elif tag not in _SCALARS and not lines:
                notes.add(tag, "no measure of ours in the summary", block.get("avg"))

    def scalar(tag: str) -> float | None:
        return foreign.number((summary.get(tag) or {}).get("avg"))

    metadata = summary.get("metadata") or {}
    told = {"scenario_name_told": metadata.get("scenario"), "submission_valid": metadata.get("submission_valid")}
    version = summary.get("aiperf_version")
    agentic = any(row["metadata"].get("source_trace_id") or row["metadata"].get("agent_depth") for row in lines)
    origin_ns = _origin(lines)
    return reports.Load(
        model=_model(summary),
        concurrency=_concurrency(summary) or _in_flight(lines),
        isl=None if agentic else _asked(summary, "isl") or (_typical(lines, "input_sequence_length") or None),
        osl=None if agentic else _asked(summary, "osl") or (_typical(lines, "output_sequence_length") or None),
        agentic=agentic,
        # Our emulated engine says on its page what it is; nothing else here could tell.
        source=Source.EMULATED if any(map(_emulated, export.names)) else Source.MEASURED,
        good=None if scalar("request_count") is None else round(scalar("request_count") or 0),
        bad=round(scalar("error_request_count") or 0),
        measures=measures,
        rates={part: scalar(tag) for part, tag in _RATES.items()},
        request_rate=scalar("request_throughput"),
        duration=scalar("benchmark_duration"),
        measured_at=foreign.instant(origin_ns / 1e9) if origin_ns else foreign.instant(summary.get("start_time")),
        facts={"tool": "aiperf", "tool_version": version, **told},
        found={"content": export.content, **({"aiperf": version} if version else {})},
        reasons=("aborted: AIPerf says that the run was cancelled",) if summary.get("was_cancelled") else (),
    )


def _emulated(name: str) -> bool:
    return name.startswith("ridgeline:emulator")


def _origin(lines: list[dict[str, Any]]) -> int:
    starts = [row["metadata"].get("request_start_ns") for row in lines]
    return min((start for start in starts if start is not None), default=0)


def _model(summary: Mapping[str, Any]) -> str:
    """The model's name, in today's shape of the config and in the earlier ones."""
    config = summary.get("input_config") or {}
    items = (config.get("models") or {}).get("items") if isinstance(config.get("models"), Mapping) else None
    names = [item.get("name") for item in items or () if isinstance(item, Mapping)]
    names += (config.get("endpoint") or {}).get("model_names") or config.get("model_names") or []
    return str(next((name for name in names if name), ""))


def _concurrency(summary: Mapping[str, Any]) -> int:
    config = summary.get("input_config") or {}
    phases = [phase for phase in config.get("phases") or () if isinstance(phase, Mapping)]
    asked = [phase.get("concurrency") for phase in phases if phase.get("kind") == "profiling"]
    return foreign.whole(next((n for n in (*asked, (config.get("loadgen") or {}).get("concurrency")) if n), 0))


def _asked(summary: Mapping[str, Any], length: str) -> int | None:
    """The length that was asked for, where the config names one."""
    datasets = (summary.get("input_config") or {}).get("datasets") or ()
    sizes = [((item.get("prompts") or {}).get(length) or {}).get("mean") for item in datasets if item]
    return next((round(known) for size in sizes if (known := foreign.number(size))), None)


def _typical(lines: list[dict[str, Any]], tag: str) -> int:
    """The usual length: the median over requests, so that one odd request does not name the workload."""
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


def replay_of(
    rows: list[dict[str, Any]], origin_ns: int, notes: Notes, samples: tuple[ServerSample, ...] = ()
) -> Replay:
    """Rows as a replay of ours, in order of sending. Requests skipped or cancelled are not in AIPerf's file."""
    ordered = sorted(rows, key=lambda row: (row["metadata"].get("request_start_ns") or 0, str(row["metadata"])))
    records = tuple(_record(number, row, origin_ns, notes) for number, row in enumerate(ordered))
    measured = [record for record in records if record.phase == "profiling"]
    start = min((record.scheduled_ns for record in measured), default=None)
    end = max((record.end_ns or record.sent_ns or 0 for record in measured), default=None)
    phases = Phases(start_ns=0, profiling_start_ns=start, profiling_end_ns=end, drained_ns=end)
    return Replay(records=records, phases=phases, samples=samples, prompt_mode="aiperf")


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
        return None if milliseconds is None or start is None else start + round(milliseconds * MILLISECOND)

    first = after("time_to_first_token")
    gaps = value("inter_chunk_latency") or []
    arrivals: list[int] = []
    if first is not None:
        arrivals, exact = [first], float(first)
        for gap in gaps:
            exact += gap * MILLISECOND
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
        # The row's own end is that of its last event; the fork tells that of the response.
        end_ns=after("full_decode_duration", first) or at("request_end_ns"),
        outcome=outcome,
        status=status,
        error=message,
        max_tokens=_asked_tokens(tokens, value("osl_mismatch_diff_pct")),
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


def _asked_tokens(tokens: Any, off: Any) -> int | None:
    """How many tokens were asked for, from how many came and how far that is off in percent."""
    return None if tokens is None or off is None or off <= -100 else round(tokens / (1 + off / 100))


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


IMPORTER = Importer("aiperf", 2, "AIPerf's exports", take, read)
