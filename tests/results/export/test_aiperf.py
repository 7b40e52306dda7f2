"""AIPerf's exports: recorded runs of the peer summarised again, and rows of our own."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from tests.golden import golden
from tests.results.builders import MS, S, failed, record, replay

from ridgeline.core.record import Outcome, Phases, Record, Replay
from ridgeline.results.export import aiperf, aiperf_rows

LIVE = "traces/oracle/live"
# Of a connection, which our records do not tell.
WIRE = ("connecting", "connection_overhead", "connection_reused", "sending", "duration", "total")
WIRE += ("data_sent", "data_received", "chunks_sent", "chunks_received")


def completed(record: Record, row: dict[str, Any]) -> Record:
    """The same with the end of its response, which their rows tell only by durations: the fork exactly, 0.13 within a
    millisecond."""
    values = {tag: item["value"] for tag, item in row["metrics"].items()}
    if not values or record.first_token_ns is None or record.sent_ns is None:
        return record
    if "full_decode_duration" in values:
        end = record.first_token_ns + round(values["full_decode_duration"] * MS)
    else:
        end = record.sent_ns + round(values["http_req_total"] * MS)
    return replace(record, end_ns=end)


def asked(values: dict[str, Any]) -> int | None:
    """How many tokens the request asked for, from how far the answer was off."""
    if "osl_mismatch_diff_pct" not in values:
        return None
    return round(values["output_sequence_length"] / (1 + values["osl_mismatch_diff_pct"] / 100))


def record_of(row: dict[str, Any], serial: int, origin: int) -> Record:
    """A record of ours that says what a row of AIPerf says."""
    about, values = row["metadata"], {tag: item["value"] for tag, item in row["metrics"].items()}
    sent = about["request_start_ns"] - origin

    def at(tag: str) -> int | None:
        return sent + round(values[tag] * MS) if tag in values else None

    first = at("time_to_first_token")
    chunks = [first] if first is not None else []
    for gap in values.get("inter_chunk_latency", ()):
        chunks.append(chunks[-1] + round(gap * MS))
    return Record(
        request_id=serial,
        phase=about["benchmark_phase"],
        lane=0,
        tree=0,
        session_id=about["source_trace_id"],
        conversation_id=about["conversation_id"],
        turn_index=about["turn_index"],
        depth=about["agent_depth"],
        correlation_id=about["x_correlation_id"],
        parent_correlation_id=about.get("parent_correlation_id"),
        source_outer=about.get("source_outer_idx"),
        source_inner=about.get("source_inner_idx"),
        source_kind=about["source_kind"],
        scheduled_ns=about["credit_issued_ns"] - origin,
        sent_ns=sent,
        first_byte_ns=about["request_ack_ns"] - origin if "request_ack_ns" in about else None,
        first_token_ns=first,
        first_visible_ns=at("time_to_first_output_token"),
        last_token_ns=at("request_latency"),
        end_ns=about["request_end_ns"] - origin,
        outcome=Outcome.HTTP_ERROR if "error" in row else Outcome.OK,
        status=row.get("error", {}).get("code", 200),
        error=row.get("error", {}).get("message"),
        prompt_tokens=values.get("usage_prompt_tokens"),
        max_tokens=asked(values),
        completion_tokens=values.get("usage_completion_tokens"),
        cached_tokens=values.get("usage_prompt_cache_read_tokens"),
        chunk_ns=tuple(chunks),
    )


RUNS = ("v13-mini-n2", "v13-subagents-n2", "v13-real-n3", "fork-subagents-n2")
CURVES = ("effective_", "active_", "tokens_in_flight")
# Not in the rows: what the trace allows and what was skipped. What runs to the end of the response is for the fork.
UNTOLD = ("theoretical_prefix_cache_hit", "context_overflow_count", "full_", "http_req_")


def both(run: str) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Our summary of a recorded run, theirs, and its rows."""
    folder = golden(f"{LIVE}/{run}")
    rows = [json.loads(line) for line in (folder / "profile_export.jsonl").read_text().splitlines()]
    theirs = json.loads((folder / "profile_export_aiperf.json").read_text())
    origin = min(row["metadata"]["credit_issued_ns"] for row in rows)
    records = tuple(completed(record_of(row, i, origin), row) for i, row in enumerate(rows))
    begin, end = (round(datetime.fromisoformat(theirs[name]).timestamp() * S) for name in ("start_time", "end_time"))
    # Their window opens at what the phase reports, their rows' credits tell the origin.
    phases = Phases(profiling_start_ns=begin - origin, drained_ns=end - origin)
    return aiperf.summary(Replay(records=records, phases=phases), origin), theirs, rows


@pytest.mark.parametrize("run", RUNS)
def test_recorded_runs_give_the_same_summary(run: str) -> None:
    ours, theirs, _ = both(run)
    shared = [tag for tag, item in ours.items() if isinstance(item, dict) and "unit" in item]
    untold = (*UNTOLD, *CURVES, *(f"adj_{tag}" for tag in UNTOLD))
    shared = [tag for tag in shared if not tag.startswith(untold)]
    assert len(shared) >= 30
    for tag in shared:
        assert set(ours[tag]) == set(theirs[tag]), tag
        for name, value in ours[tag].items():
            # Their wall clock stamps have a resolution of 256 ns.
            expected = theirs[tag][name]
            wanted = expected if name == "unit" else pytest.approx(expected, rel=1e-6, abs=1e-3)
            assert value == wanted, f"{tag}.{name}"
    for tag, item in ours["warmup_metrics"].items():
        known = tag in shared and tag in theirs["warmup_metrics"]
        if known and "_token_throughput" not in tag and tag != "request_throughput":  # no window is told
            assert item["avg"] == pytest.approx(theirs["warmup_metrics"][tag]["avg"], rel=1e-5, abs=2e-3), tag
    assert sum(item["count"] for item in ours["error_summary"]) == sum(i["count"] for i in theirs["error_summary"])


@pytest.mark.parametrize("run", RUNS)
def test_recorded_runs_give_the_same_curves(run: str) -> None:
    ours, theirs, _ = both(run)
    tags = {tag for tag in theirs if tag.startswith(CURVES)} - {"effective_latency"}
    assert len(tags) == 14 and tags <= set(ours)
    for tag in tags:
        assert set(ours[tag]) == set(theirs[tag]), tag
        for name, value in ours[tag].items():
            # Their stamps of 256 ns let neighbouring gaps overlap, which shows in the extremes of a rate; the end of a
            # response is not told exactly.
            if name in ("min", "max") and "throughput" in tag:
                continue
            expected = theirs[tag][name]
            wanted = expected if name == "unit" else pytest.approx(expected, rel=0.006, abs=1e-6)
            assert value == wanted, f"{tag}.{name}"


def test_the_fork_s_metrics_run_to_the_end_of_the_response() -> None:
    ours, theirs, _ = both("fork-subagents-n2")
    tags = [tag for tag in ours if "full_" in tag]
    assert len(tags) == 5
    for tag in tags:
        for name, value in ours[tag].items():
            expected = theirs[tag][name]
            assert value == (expected if name == "unit" else pytest.approx(expected, rel=1e-6, abs=1e-3)), tag


@pytest.mark.parametrize("run", RUNS)
def test_every_field_of_a_recorded_export_is_written_or_known_to_be_missing(run: str) -> None:
    ours, theirs, rows = both(run)
    beside = {"aiperf_version", "benchmark_id", "input_config", "run_info", "branch_stats"}  # the caller's
    assert set(theirs) - set(ours) - beside - {f"http_req_{part}" for part in WIRE} <= {"theoretical_prefix_cache_hit"}
    assert set(theirs["warmup_metrics"]) - set(ours["warmup_metrics"]) - {f"http_req_{part}" for part in WIRE} <= {
        "theoretical_prefix_cache_hit", *(tag for tag in theirs["warmup_metrics"] if tag.startswith(CURVES)),
    }  # fmt: skip
    origin = min(row["metadata"]["credit_issued_ns"] for row in rows)
    data = Replay(records=tuple(record_of(row, i, origin) for i, row in enumerate(rows)), phases=Phases())
    for kind in ("metadata", "metrics"):
        wanted = {name for row in rows for name in row[kind]} - {f"http_req_{part}" for part in WIRE}
        assert wanted - {"x_request_id"} <= {name for row in aiperf_rows.rows(data, origin) for name in row[kind]}


def test_recorded_rows_come_back() -> None:
    lines = (golden(f"{LIVE}/v13-subagents-n2") / "profile_export.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    origin = min(row["metadata"]["credit_issued_ns"] for row in rows)
    data = Replay(records=tuple(record_of(row, i, origin) for i, row in enumerate(rows)), phases=Phases())
    by_place = {(row["metadata"]["request_start_ns"], row["metadata"]["conversation_id"]): row for row in rows}
    again = list(aiperf_rows.rows(data, origin))
    assert len(again) == len(rows)
    for row in again:
        theirs = by_place[(row["metadata"]["request_start_ns"], row["metadata"]["conversation_id"])]
        ours = row["metadata"]
        own = {"session_num", "worker_id", "record_processor_id"}
        assert {name: theirs["metadata"][name] for name in ours if name not in own} == {
            name: value for name, value in ours.items() if name not in own
        }
        for tag, item in row["metrics"].items():
            if tag.startswith(("full_", "http_req_")):  # to the end of the response
                continue
            assert item["unit"] == theirs["metrics"][tag]["unit"]
            assert item["value"] == pytest.approx(theirs["metrics"][tag]["value"], rel=1e-6, abs=1e-6), tag
        assert ("error" in row) == ("error" in theirs)


def test_rows_of_our_own() -> None:
    data = replay(
        [
            record(0, phase="warmup"),
            record(1, 2 * S, correlation_id="root"),
            record(2, 1 * S, correlation_id="kid", parent_correlation_id="root", depth=1),
            failed(3, 3 * S, error="boom"),
            failed(4, 4 * S, outcome=Outcome.OVERFLOW),
            failed(5, 5 * S, outcome=Outcome.CANCELLED),
            failed(6, 6 * S, outcome=Outcome.STREAM_ERROR, status=200),
        ]
    )
    found = list(aiperf_rows.rows(data, 10**18))
    assert [row["metadata"]["session_num"] for row in found] == [0, 1, 0, 2, 5], (
        "completion order; gaps for the skipped"
    )
    warm, kid, root, boom, stream = found
    assert warm["metadata"]["phase_name"] == "agentic.warmup" and "phase_index" not in warm["metadata"]
    assert kid["metadata"]["root_correlation_id"] == "root" and root["metadata"]["root_correlation_id"] == "root"
    assert root["metadata"]["request_start_ns"] == 10**18 + 2 * S
    assert root["metrics"]["inter_token_latency"] == {"value": 10.0, "unit": "ms"}
    assert boom["error"] == {"code": 500, "type": "Internal Server Error", "message": "boom"} and boom["metrics"] == {}
    assert stream["error"]["code"] == 502
    assert (root["metadata"]["worker_id"], warm["metadata"]["record_processor_id"]) == (
        "worker_0",
        "record_processor_0",
    )
    assert all(json.loads(line) for line in aiperf_rows.jsonl(data, 10**18))


def test_rows_of_what_found_no_connection_and_of_workers() -> None:
    unsent = failed(1, status=None, sent_ns=None, scheduled_ns=3 * S, outcome=Outcome.CLIENT_ERROR, error="refused")
    data = replay([record(0, lane=5), unsent], settings={"workers": 2})
    bad, good = aiperf_rows.rows(data, 10**18)
    assert good["metadata"]["worker_id"] == "worker_1" and bad["metadata"]["worker_id"] == "worker_0"
    assert bad["metadata"]["request_start_ns"] == 10**18 + 3 * S, "readers ask for a start: when it was due"
    assert bad["error"] == {"type": "ClientError", "message": "refused"}
    waited = good["metrics"]["http_req_waiting"]["value"] + good["metrics"]["http_req_receiving"]["value"]
    assert waited == pytest.approx(
        good["metrics"]["time_to_first_token"]["value"] + good["metrics"]["full_decode_duration"]["value"]
    )
    assert good["metrics"]["osl_mismatch_diff_pct"]["value"] == 0


def test_lengths_that_differ_from_what_was_asked_for() -> None:
    def row(serial: int, asked: int | None, got: int) -> Record:
        return record(serial, max_tokens=asked, completion_tokens=got)

    data = replay([row(0, 100, 100), row(1, 100, 95), row(2, 100, 94), row(3, 2000, 1940), row(4, None, 3)])
    found = aiperf.summary(data, 0)
    assert found["osl_mismatch_count"]["avg"] == 2, "beyond 5 %, and beyond 50 tokens"
    assert found["osl_mismatch_diff_pct"]["count"] == 4 and found["osl_mismatch_diff_pct"]["min"] == -6


def test_how_far_answers_reach_into_a_long_window() -> None:
    pacing = {"start_min_ratio": 0.25, "duration_ns": 1000 * S}
    rows = [record(0, 100 * S), record(1, 900 * S, completion_tokens=1)]
    found = aiperf.summary(replay(rows, settings={"pacing": pacing}), 0)["metadata"]["metric_duration_coverage"]
    assert found[0]["expected_duration_seconds"] == 1000 and found[0]["required_ratio"] == 0.95
    start = replay(rows).phases.profiling_start_ns or 0
    assert found[0]["ttft_ratio"] == pytest.approx(((rows[1].first_token_ns or 0) - start) / (1000 * S))
    assert found[0]["inter_token_latency_ratio"] == pytest.approx(((rows[0].end_ns or 0) - start) / (1000 * S))
    short = replay(rows, settings={"pacing": pacing | {"duration_ns": 899 * S}})
    assert aiperf.summary(short, 0)["metadata"] == {}
    nothing = aiperf.summary(replay([failed(0)], settings={"pacing": pacing}), 0)["metadata"]
    assert nothing["metric_duration_coverage"][0]["ttft_ratio"] == 0


def test_an_aborted_run_says_why() -> None:
    found = aiperf.summary(replace(replay([record(0)]), aborted="too many failed"), 0)
    assert (found["was_cancelled"], found["is_complete"], found["incomplete_reason"]) == (
        True,
        False,
        "too many failed",
    )


def test_summary_of_our_own() -> None:
    data = replay([record(0), record(1, 2 * S), failed(2), failed(3, outcome=Outcome.OVERFLOW)], settings={"seed": 1})
    found = aiperf.summary(data, 10**18)
    assert found["request_count"]["avg"] == 2 and found["error_request_count"]["avg"] == 1
    assert found["request_error_rate"]["avg"] == pytest.approx(100 / 3) and found["context_overflow_count"]["avg"] == 1
    assert found["benchmark_duration"]["avg"] == pytest.approx(2.15)
    assert found["request_throughput"]["avg"] == pytest.approx(2 / 61), "over the phase with its drain, as they do"
    assert found["theoretical_prefix_cache_hit"] == {"unit": "%", "avg": 75.0, "count": 8, "sum": 6}
    assert found["adj_time_to_first_token"]["count"] == 3 and "p99" not in found["adj_time_to_first_token"]
    assert found["time_to_first_token"]["p99"] == 50.0, "nothing is withheld for readers that expect it"
    assert "input_config" not in found, "its settings name no endpoint"
    assert found["is_complete"] and "incomplete_reason" not in found
    empty = aiperf.summary(replay([failed(0)]), 0)
    assert empty["request_count"]["avg"] == 0 and "benchmark_duration" not in empty
    json.dumps(found, allow_nan=False)
