"""A replay that is ended from outside keeps what it had."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import Reply, Request, ScriptedServer, stream

from ridgeline.results.records import read_records
from ridgeline.results.recovery import recover
from ridgeline.results.streams import part_of

pytestmark = pytest.mark.integration


def reply(request: Request) -> Reply:
    return stream(2, first_s=0.005)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    served, ready, stop = ScriptedServer(reply), threading.Event(), threading.Event()

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


@pytest.mark.parametrize(
    ("ending", "workers"), [(signal.SIGKILL, 1), (signal.SIGKILL, 2), (signal.SIGINT, 1), (signal.SIGINT, 2)]
)
def test_records_of_a_killed_replay_are_readable_and_no_worker_outlives_it(
    server: ScriptedServer, tmp_path: Path, ending: signal.Signals, workers: int
) -> None:
    out = tmp_path / "out"
    load = ["--isl", "64", "--osl", "2", "--concurrency", "8", "--duration", "600", "--workers", str(workers)]
    command = [sys.executable, "-m", "ridgeline.cli.main", "replay", "--url", server.url, "--model", "m", *load]
    client = subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(server.requests) < 3000 and client.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        children = _children(client.pid)
        client.send_signal(ending)
        client.wait(30)
    finally:
        client.kill()
    assert len(children) == (0 if workers == 1 else workers)
    assert part_of(out / "records.parquet").exists()
    assert recover(out).requests >= 1000
    found = read_records(out / "records.parquet")
    records = found.records
    assert found.aborted and found.phases.profiling_start_ns and found.settings["workers"] == workers
    assert len(records) >= 1000, "at most the last second, and the batch that was not full, are lost"
    if ending is signal.SIGINT:  # an orderly end loses nothing
        answered = sum(record.end_ns is not None for record in records)
        assert answered == len(records) >= 2900
    gone = time.monotonic() + 10
    while any(_alive(pid) for pid in children) and time.monotonic() < gone:
        time.sleep(0.02)
    assert not any(_alive(pid) for pid in children)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
