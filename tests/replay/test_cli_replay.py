"""The verb, whole: against a scripted server in a thread."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import Reply, Request, ScriptedServer, stream

from ridgeline.cli.main import main
from ridgeline.core.record import Outcome
from ridgeline.results.records import RecordWriter, read_records

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
