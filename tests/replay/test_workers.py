"""Several processes behind one machine: the same decisions, the same records, nothing lost when one of them dies."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hand_load import ClosedLoop, Prompts
from scripted_server import Reply, Request, ScriptedServer, stream
from tests.trace.pacing.driving import family, line, settings

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.record import Outcome, Replay
from ridgeline.core.units import SECOND
from ridgeline.replay.driver import run_replay
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.workers import WorkerPool
from ridgeline.trace.pacing import AgentPacer

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

MS = 1_000_000


@contextmanager
def served(reply: Callable[[Request], Reply]) -> Iterator[ScriptedServer]:
    server, ready, stop = ScriptedServer(reply), threading.Event(), threading.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.005)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        stop.set()
        thread.join()


def pooled(workers: int, pacer: Any, server: ScriptedServer, sessions: Any, **more: Any) -> Replay:
    prompts, endpoint = Prompts(), Endpoint(url=server.url)
    with WorkerPool(workers, sessions, prompts, endpoint) as pool:
        return run_replay(pacer, prompts, endpoint, workers=pool, **more)


def test_records_are_whole_and_each_lane_stays_with_its_worker() -> None:
    pacer = ClosedLoop(lanes=5, per_lane=4, delay_ns=40 * MS)
    with served(lambda request: stream(3, prompt=9)) as server:
        result = pooled(2, pacer, server, [pacer._session])
    assert [record.request_id for record in result.records] == list(range(20))
    for record in result.records:
        assert (record.outcome, record.chunks, record.completion_tokens) == (Outcome.OK, 3, 3)
        assert record.scheduled_ns <= (record.sent_ns or 0) < (record.first_token_ns or 0) <= (record.end_ns or 0)
        assert record.chunk_ns[0] == record.first_token_ns and pacer.sent_at[record.request_id] == record.sent_ns
    assert result.health["connections_made"] == 5, "a lane's next request goes over its worker's own connections"
    assert result.health["loop_lag_p99_s"] >= 0 and result.health["cpu_total"] >= result.health["cpu_share"]
    seen = {request.headers["x-request-id"] for request in server.requests}
    prefix = result.settings["request_id_prefix"]
    assert seen == {f"{prefix}{number:012x}" for number in range(20)}


def decisions(workers: int) -> list[tuple[Any, ...]]:
    """What an agentic replay sends: which turn of which tree, on which lane, under which ids."""
    sessions = [family("one"), line("two", 0, 1, 2.5), family("three"), line("four", 0, 3)]
    # Every lane replays one tree: which lane is free first for a next one is the machine's load, not a decision.
    pacing = settings(concurrency=4, max_trees=4, duration_ns=60 * SECOND, system_idle_cap_ns=SECOND)
    pacer = AgentPacer(sessions, pacing)
    with served(lambda request: stream(1)) as server:
        if workers == 1:
            result = run_replay(pacer, Prompts(), Endpoint(url=server.url), speed=20)
        else:
            result = pooled(workers, pacer, server, sessions, speed=20)
    return sorted(
        (
            r.tree,
            r.conversation_id,
            r.turn_index,
            r.lane,
            r.phase,
            r.correlation_id,
            r.parent_correlation_id or "",
            r.max_tokens,
        )
        for r in result.records
        if r.outcome is Outcome.OK
    )


def test_any_number_of_workers_sends_the_same() -> None:
    alone = decisions(1)
    assert len(alone) >= 12
    assert decisions(3) == alone


def test_a_cancel_reaches_the_worker_and_its_record_comes_back() -> None:
    with served(lambda request: stream(2, first_s=30)) as server:
        pacer = ClosedLoop(2, 1, cancel_when=lambda: len(server.requests) == 2)
        result = pooled(2, pacer, server, [pacer._session])
    assert [record.outcome for record in result.records] == [Outcome.CANCELLED] * 2
    assert all("grace" in (record.error or "") for record in result.records)


def test_a_worker_that_dies_ends_the_replay_and_its_requests_are_recorded() -> None:
    pacer = ClosedLoop(4, 1)
    prompts = Prompts()
    with served(lambda request: stream(2, first_s=30)) as server:
        endpoint = Endpoint(url=server.url)
        with WorkerPool(2, [pacer._session], prompts, endpoint) as pool:

            def alive() -> bool:
                if len(server.requests) == 4:
                    os.kill(pool.pids[1], signal.SIGKILL)
                return True

            result = run_replay(pacer, prompts, endpoint, workers=pool, alive=alive)
    assert result.aborted == "worker process 1 ended unexpectedly"
    assert [record.outcome for record in result.records] == [Outcome.CLIENT_ERROR] * 4
    lost = [record for record in result.records if record.lane % 2]
    assert all(record.error == result.aborted and record.end_ns for record in lost)


def test_an_unknown_host_is_told_before_anything_is_sent() -> None:
    pacer, prompts, endpoint = ClosedLoop(1, 1), Prompts(), Endpoint(url="http://no-such-host.invalid")
    with WorkerPool(2, [pacer._session], prompts, endpoint) as pool, pytest.raises(EnvironmentFailed, match="no-such"):
        run_replay(pacer, prompts, endpoint, workers=pool)


def test_a_bug_in_a_worker_is_heard() -> None:
    class Broken(Prompts):
        def body(self, send: Any) -> list[bytes]:
            raise ValueError("no body")

    pacer, endpoint = ClosedLoop(1, 1), Endpoint(url="http://127.0.0.1:1")
    with WorkerPool(1, [pacer._session], Broken(), endpoint) as pool, pytest.raises(RuntimeError, match="no body"):
        run_replay(pacer, Broken(), endpoint, workers=pool)


def test_workers_end_with_the_driver() -> None:
    pacer = ClosedLoop(1, 1)
    with WorkerPool(2, [pacer._session], Prompts(), Endpoint(url="http://127.0.0.1:1")) as pool:
        pids = list(pool.pids)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
