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
from ridgeline.results.export import aiperf

LIVE = "traces/oracle/live"


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
        completion_tokens=values.get("usage_completion_tokens"),
        cached_tokens=values.get("usage_prompt_cache_read_tokens"),
        chunk_ns=tuple(chunks),
    )


@pytest.mark.parametrize("run", ["v13-mini-n2", "v13-subagents-n2", "v13-real-n3", "fork-subagents-n2"])
def test_recorded_runs_give_the_same_summary(run: str) -> None:
    folder = golden(f"{LIVE}/{run}")
    rows = [json.loads(line) for line in (folder / "profile_export.jsonl").read_text().splitlines()]
    theirs = json.loads((folder / "profile_export_aiperf.json").read_text())
    origin = min(row["metadata"]["credit_issued_ns"] for row in rows)
    records = tuple(record_of(row, i, origin) for i, row in enumerate(rows))
    begin, end = (datetime.fromisoformat(theirs[name]) for name in ("start_time", "end_time"))
    phases = Phases(profiling_start_ns=0, drained_ns=round((end - begin).total_seconds() * S))
    ours = aiperf.summary(Replay(records=records, phases=phases), origin)
    # Not in the rows: what the trace allows and what was skipped.
    unknown = {"theoretical_prefix_cache_hit", "context_overflow_count"}
    unknown |= {tag for tag in ours if "full_" in tag}  # to the end of the response, which is not in the rows
    shared = [tag for tag, item in ours.items() if isinstance(item, dict) and "unit" in item and tag not in unknown]
    assert len(shared) >= 28
    for tag in shared:
        assert set(ours[tag]) == set(theirs[tag]), tag
        for name, value in ours[tag].items():
            # Their wall clock stamps have a resolution of 256 ns.
            expected = theirs[tag][name]
            wanted = expected if name == "unit" else pytest.approx(expected, rel=1e-6, abs=1e-3)
            assert value == wanted, f"{tag}.{name}"
    for tag, item in ours["warmup_metrics"].items():
        if tag in unknown:
            continue
        assert item["avg"] == pytest.approx(theirs["warmup_metrics"][tag]["avg"], rel=1e-5, abs=2e-3)
    assert sum(item["count"] for item in ours["error_summary"]) == sum(i["count"] for i in theirs["error_summary"])


def test_the_fork_s_metrics_run_to_the_end_of_the_response() -> None:
    folder = golden(f"{LIVE}/fork-subagents-n2")
    rows = [json.loads(line) for line in (folder / "profile_export.jsonl").read_text().splitlines()]
    theirs = json.loads((folder / "profile_export_aiperf.json").read_text())
    origin = min(row["metadata"]["credit_issued_ns"] for row in rows)
    records = []
    for serial, row in enumerate(rows):
        record, whole = record_of(row, serial, origin), row["metrics"].get("full_decode_duration")
        if whole and record.first_token_ns is not None:
            record = replace(record, end_ns=record.first_token_ns + round(whole["value"] * MS))
        records.append(record)
    ours = aiperf.summary(Replay(records=tuple(records), phases=Phases(profiling_start_ns=0)), origin)
    tags = [tag for tag in ours if "full_" in tag]
    assert len(tags) == 5
    for tag in tags:
        for name, value in ours[tag].items():
            expected = theirs[tag][name]
            assert value == (expected if name == "unit" else pytest.approx(expected, rel=1e-6, abs=1e-3)), tag


def test_recorded_rows_come_back() -> None:
    lines = (golden(f"{LIVE}/v13-subagents-n2") / "profile_export.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    origin = min(row["metadata"]["credit_issued_ns"] for row in rows)
    data = Replay(records=tuple(record_of(row, i, origin) for i, row in enumerate(rows)), phases=Phases())
    by_place = {(row["metadata"]["request_start_ns"], row["metadata"]["conversation_id"]): row for row in rows}
    again = list(aiperf.rows(data, origin))
    assert len(again) == len(rows)
    for row in again:
        theirs = by_place[(row["metadata"]["request_start_ns"], row["metadata"]["conversation_id"])]
        ours = row["metadata"]
        assert {name: theirs["metadata"][name] for name in ours if name != "session_num"} == {
            name: value for name, value in ours.items() if name != "session_num"
        }
        for tag, item in row["metrics"].items():
            if tag.startswith("full_"):  # the fork's
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
    found = list(aiperf.rows(data, 10**18))
    assert [row["metadata"]["session_num"] for row in found] == [0, 1, 0, 2, 5], (
        "completion order; gaps for the skipped"
    )
    warm, kid, root, boom, stream = found
    assert warm["metadata"]["phase_name"] == "agentic.warmup" and "phase_index" not in warm["metadata"]
    assert kid["metadata"]["root_correlation_id"] == "root" and root["metadata"]["root_correlation_id"] == "root"
    assert root["metadata"]["request_start_ns"] == 10**18 + 2 * S
    assert root["metrics"]["inter_token_latency"] == {"value": 10.0, "unit": "ms"}
    assert boom["error"] == {"code": 500, "type": "HTTPError", "message": "boom"} and boom["metrics"] == {}
    assert stream["error"]["code"] == 502
    assert all(json.loads(line) for line in aiperf.jsonl(data, 10**18))


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
    assert found["input_config"] == {"seed": 1} and found["is_complete"]
    empty = aiperf.summary(replay([failed(0)]), 0)
    assert empty["request_count"]["avg"] == 0 and "benchmark_duration" not in empty
    json.dumps(found, allow_nan=False)
