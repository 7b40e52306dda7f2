"""The verb, whole: against a scripted server in a thread."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from scripted_server import Reply, Request, ScriptedServer, stream

from ridgeline.cli.main import main
from ridgeline.cli.replay_store import command_line
from ridgeline.core.point import Point, Source
from ridgeline.core.record import Outcome
from ridgeline.results.formats import POINT
from ridgeline.results.records import RecordWriter, read_records

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

METRICS = b"# TYPE running gauge\nrunning 1\n"


def reply(request: Request) -> Reply:
    if request.target == "/v1/models":
        body = json.dumps({"data": [{"id": "served"}]}).encode()
        return Reply(headers=(("Content-Type", "application/json"),), steps=((0, body),), framing="length")
    if request.target == "/metrics":
        return Reply(headers=(("Content-Type", "text/plain"),), steps=((0, METRICS),), framing="length")
    return stream(min(4, json.loads(request.body)["max_completion_tokens"]), prompt=9)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    served, stop = ScriptedServer(reply), threading.Event()
    ready = threading.Event()

    async def serve() -> None:
        async with served:
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    yield served
    stop.set()
    thread.join()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rows = []
    for number in range(4):
        requests = [
            {"t": 2.0 * k, "type": "s", "model": "m", "in": 128 + 64 * k, "out": 3, "api_time": 0.5,
             "hash_ids": list(range(2 + k)), "stop": "end_turn"}
            for k in range(6)
        ]  # fmt: skip
        body = {"id": f"s{number}", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": requests}
        rows.append(json.dumps(body))
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    return path


def arguments(server: ScriptedServer, trace: Path, *more: str) -> list[str]:
    fixed = ["--concurrency", "2", "--duration", "20", "--speed", "40", "--warmup", "1", "--grace", "5", "--force"]
    return ["replay", "--url", server.url, "--trace", str(trace), *fixed, *more]


def test_a_replay_is_stored_and_summed_up(
    server: ScriptedServer, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(arguments(server, trace, "--out", str(out), "--metrics-url", f"{server.url}/metrics")) == 0
    told = capsys.readouterr()
    assert "TTFT p50" in told.out and "output" in told.out and "profiling" in told.err
    assert f"records: {out}/records.parquet" in told.err
    stored = read_records(out / "records.parquet", out / "samples.parquet")
    assert stored.speed == 40 and stored.prompt_mode == "bytes" and stored.settings["model"] == "served"
    assert {record.outcome for record in stored.records} == {Outcome.OK}
    assert {record.phase for record in stored.records} == {"warmup", "profiling"}
    assert {record.lane for record in stored.records} == {0, 1}
    assert stored.samples and all(sample.values == {"running": 1.0} for sample in stored.samples)
    assert all(sample.took_ns for sample in stored.samples) and not list(out.glob("*.part"))
    assert stored.settings["workers"] == 1 and stored.settings["branches"]["children_spawned"] == 0
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    assert summary["branch_stats"] == stored.settings["branches"]
    assert summary["input_config"]["phases"][0]["timing_mode"] == "agentic_replay"
    sent = [request for request in server.requests if request.target == "/v1/chat/completions"]
    assert len(sent) == len(stored.records)
    assert all(json.loads(request.body)["model"] == "served" for request in sent)
    assert main(arguments(server, trace, "--out", str(out))) == 2, "records are never overwritten"


def test_events_for_machines(server: ScriptedServer, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(server, trace, "--json", "--model", "other")) == 0
    told = capsys.readouterr()
    events = [json.loads(line) for line in told.out.splitlines()]
    assert {event["event"] for event in events} == {"progress", "result"} and events[-1]["event"] == "result"
    assert events[-1]["measures"]["itl.p50"]["unit"] == "s" and events[-1]["aborted"] is None
    assert events[-2]["sent"] == events[-2]["done"] > 0
    assert "the server lists served, not `other`" in told.err


def test_wrong_input_and_an_absent_server_are_told_at_once(
    server: ScriptedServer, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(server, trace, "--header", "no colon")) == 2
    assert main(arguments(server, trace, "--speed", "0")) == 2
    assert main(arguments(server, trace.with_name("none.json"))) == 2
    assert main(["replay", "--url", "http://127.0.0.1:1", "--trace", str(trace), "--concurrency", "1"]) == 3
    told = capsys.readouterr().err
    assert "write `NAME: VALUE`" in told and "nobody answers at http://127.0.0.1:1" in told
    assert not [request for request in server.requests if "completions" in request.target]


def test_a_full_disk_ends_the_replay(
    server: ScriptedServer,
    trace: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(writer: RecordWriter, records: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write_rows", full)
    assert main(arguments(server, trace, "--out", str(tmp_path / "out"))) == 3
    assert "cannot write records: [Errno 28] No space left on device" in capsys.readouterr().err


def test_failures_only_are_no_success(trace: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Reply(status=500, headers=(), framing="length")
    server._reply = lambda request: broken if "completions" in request.target else reply(request)
    assert main(arguments(server, trace)) == 1
    assert "aborted" in capsys.readouterr().err


def fixed(server: ScriptedServer, *more: str) -> list[str]:
    return ["replay", "--url", server.url, "--isl", "64", "--osl", "3", *more]


def test_fixed_lengths_leave_a_point_and_the_forms_others_read(server: ScriptedServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ("--concurrency", "2", "--requests", "12", "--warmup", "2", "--slo", "ttft=30", "--hardware", "h200")
    metrics = ("--metrics-url", f"{server.url}/metrics")
    assert main(fixed(server, *more, *metrics, "--out", str(out), "--gpus", "4", "--workers", "2")) == 0
    point = POINT.decode((out / "point.json").read_bytes(), Point, "point.json")
    assert (point.source, point.concurrency, point.gpus) == (Source.MEASURED, 2, 4)
    assert point.facts["hardware"] == "h200" and (point.facts["isl"], point.facts["osl"]) == (64, 3)
    assert point.value("requests.good") == 12 and point.value("requests.warmup") == 4
    assert point.value("goodput") == point.value("request_rate")
    assert point.value("throughput_per_gpu.output") == pytest.approx((point.value("throughput.output") or 0) / 4)
    rows = [json.loads(line) for line in (out / "profile_export.jsonl").read_text().splitlines()]
    assert len(rows) == 16 and all(row["metrics"]["output_sequence_length"]["value"] == 3 for row in rows)
    seen = {request.headers["x-request-id"] for request in server.requests if "completions" in request.target}
    assert {row["metadata"]["x_request_id"] for row in rows} == seen
    assert {row["metadata"]["worker_id"] for row in rows} == {"worker_0", "worker_1"}
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    assert summary["request_count"]["avg"] == 12 and summary["metadata"]["submission_valid"] is False
    assert summary["benchmark_id"] and "local_trace" in summary["metadata"]["submission_invalid_reasons"]
    served = json.loads((out / "server_metrics_export.json").read_text())
    assert served["summary"]["endpoints_successful"] == [f"{server.url}/metrics"] and not (out / "agg.json").exists()


def test_arrivals_follow_a_rate_and_lanes_tell_how_many_were_in_flight(server: ScriptedServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rate = ("--rate", "100", "--arrivals", "constant", "--requests", "20", "--export", "none")
    assert main(fixed(server, *rate, "--out", str(out))) == 0
    replayed = read_records(out / "records.parquet")
    sent = sorted(replayed.records, key=lambda record: record.request_id)  # the file has them as they ended
    measured = [record for record in sent if record.phase == "profiling"]
    assert [b.scheduled_ns - a.scheduled_ns for a, b in pairwise(measured)] == [10_000_000] * 19
    point = POINT.decode((out / "point.json").read_bytes(), Point, "point.json")
    assert point.concurrency == 1 + max(record.lane for record in replayed.records)
    assert not (out / "profile_export.jsonl").exists()


def test_a_trace_of_arrivals_keeps_its_moments(server: ScriptedServer, tmp_path: Path) -> None:
    rows = [{"input_length": 64, "output_length": 2, "timestamp": at} for at in (500, 520, 600)]
    trace = tmp_path / "arrivals.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out, log, now = tmp_path / "out", tmp_path / "power.csv", time.time()
    watts = [f"{now + second:.3f},0,100" for second in range(-20, 60)]
    log.write_text("\n".join(["timestamp,index,power.draw [W]", *watts]) + "\n")
    load = ["--trace", str(trace), "--schedule", "--power", str(log)]
    assert main(["replay", "--url", server.url, *load, "--out", str(out)]) == 0
    replayed = read_records(out / "records.parquet")
    start = replayed.phases.profiling_start_ns or 0
    assert sorted((record.scheduled_ns - start) // 1_000_000 for record in replayed.records) == [0, 20, 100]
    row = json.loads((out / "agg.json").read_text())
    assert row["num_requests_successful"] == 3
    assert (row["power_valid"], row["avg_power_w"]) == (1, 100)


def test_what_headers_say_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["--url", "u", "--header", "Authorization: Bearer secret", "--header=X-Key:secret", "--out", "o"]
    monkeypatch.setattr(sys, "argv", ["ridgeline", "replay", *typed])
    told = command_line()
    assert told[:4] == ("ridgeline", "replay", "--url", "u") and told[-2:] == ("--out", "o")
    assert told[4:7] == ("--header", "Authorization: ...", "--header=X-Key: ...")


def test_power_is_integrated_over_the_window_only(server: ScriptedServer, tmp_path: Path) -> None:
    log, now = tmp_path / "power.csv", time.time()
    rows = [f"{now + second:.3f},0,{100 if second < -1 else 700}" for second in range(-20, 60)]
    log.write_text("\n".join(["timestamp,index,power.draw [W]", *rows]) + "\n")
    out = tmp_path / "out"
    more = ("--concurrency", "1", "--requests", "5", "--export", "none", "--power", str(log))
    assert main(fixed(server, *more, "--out", str(out))) == 0
    point = POINT.decode((out / "point.json").read_bytes(), Point, "point.json")
    assert point.value("power.avg_power_w") == 700
    assert json.loads((out / "power.json").read_text())["power_valid"] is True


def test_a_vendors_tool_records_power_while_the_replay_runs(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    lines = (
        'echo "timestamp, index, power.draw [W]"\nwhile :; do echo "$(date +%s.%N), 0, 250.00 W"; sleep 0.02; done\n'
    )
    tool.write_text(f"#!/bin/sh\n{lines}")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    more = ("--concurrency", "1", "--requests", "5", "--export", "none", "--power", "nvidia-smi")
    assert main(fixed(server, *more, "--out", str(tmp_path / "out"))) == 0
    text = (tmp_path / "out" / "power.csv").read_text()
    assert text.startswith("timestamp") and "250.00 W" in text
    assert json.loads((tmp_path / "out" / "power.json").read_text())["observed_gpu_ids"] == ["0"]
    assert main(fixed(server, *more)) == 2, "the log needs a folder"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert main(fixed(server, *more, "--out", str(tmp_path / "none"))) == 3, "no such tool"


def test_contradictions_are_told_all_at_once(
    server: ScriptedServer, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ("--isl", "8", "--schedule", "--rate", "2", "--trace", str(trace), "--grace", "-1", "--duration", "0")
    assert main(["replay", "--url", server.url, *wrong]) == 2
    told = capsys.readouterr().err
    assert all(key in told for key in ("`--isl`", "`--schedule`", "`--grace`", "`--duration`"))
    assert main(fixed(server, "--concurrency", "4", "--requests", "19")) == 2
    assert main(fixed(server, "--concurrency", "4")) == 2
    assert main(fixed(server, "--concurrency", "4", "--requests", "20", "--speed", "2")) == 2
    assert main(fixed(server, "--concurrency", "4", "--requests", "20", "--slo", "ttft")) == 2
    assert main(fixed(server, "--concurrency", "4", "--requests", "20", "--export", "xml")) == 2
    late = ("--workers", "0", "--gpus", "0", "--metrics-url", "somewhere", "--concurrency", "4", "--requests", "20")
    assert main(fixed(server, *late)) == main(fixed(server, "--read-timeout", "0", *late[6:])) == 2
    told = capsys.readouterr().err
    assert all(f"`--{key}`" in told for key in ("workers", "gpus", "metrics-url", "read-timeout"))
    assert "ask for 20 or more" in told and "the run would never end" in told and "is a real server" in told
    assert "write ttft=0.5" in told and "`xml` is no form" in told


def test_a_real_server_measured_faster_than_life_gives_an_invalid_point(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(fixed(server, "--concurrency", "1", "--requests", "5", "--speed", "2", "--force", "--json")) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["validity"] == "invalid" and result["source"] == "measured"
    assert any(reason.startswith("scaled-time") for reason in result["reasons"])
