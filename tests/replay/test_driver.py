"""The whole client against a scripted server: what was sent, what was seen, what became of every fault."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
import uvloop
from hand_load import ClosedLoop, Prompts
from scripted_server import DONE, Reply, Request, ScriptedServer, content, event, stream, usage

from ridgeline.core.clock import ScaledClock
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.record import Outcome, Record, Replay, Row, from_row, to_row
from ridgeline.replay.driver import ReplaySettings, replay, run_replay
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.openai_stream import ResponseDecoder
from ridgeline.replay.recording import END
from ridgeline.results.metrics.scrapes import Scrapes
from ridgeline.trace.pacing import ClosedLoopPacer, LoopSettings
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.prompts.byte_prompts import BytePrompts
from ridgeline.trace.synth import fixed_sessions

MS = 1_000_000


def drive(
    reply: Callable[[Request], Reply], pacer: ClosedLoop, prompts: Prompts | None = None, **more: Any
) -> tuple[Replay, ScriptedServer]:
    endpoint = {key: more.pop(key) for key in list(more) if key in Endpoint.__dataclass_fields__}

    async def main() -> tuple[Replay, ScriptedServer]:
        async with asyncio.timeout(20), ScriptedServer(reply) as server:
            return await replay(pacer, prompts or Prompts(), Endpoint(url=server.url, **endpoint), **more), server

    return uvloop.run(main())


def test_counts_order_usage_and_reuse_of_connections() -> None:
    pacer = ClosedLoop(lanes=4, per_lane=5, delay_ns=MS)
    result, server = drive(lambda request: stream(4, first_s=0.002, gap_s=0.001), pacer)
    assert [record.request_id for record in result.records] == list(range(20))
    for record in result.records:
        assert record.outcome is Outcome.OK and record.error is None and record.status == 200
        assert record.completion_tokens == record.chunks == len(record.chunk_ns) == 4 and record.prompt_tokens == 7
        assert record.sent_ns is not None and record.first_byte_ns is not None
        assert record.first_token_ns is not None and record.last_token_ns is not None and record.end_ns is not None
        assert record.scheduled_ns <= record.sent_ns <= record.first_byte_ns <= record.first_token_ns
        assert record.first_token_ns == record.chunk_ns[0] <= record.chunk_ns[-1] == record.last_token_ns
        assert record.last_token_ns <= record.end_ns
        assert record.sent_ns == pacer.sent_at[record.request_id]
        assert (record.theoretical_hit_blocks, record.theoretical_total_blocks) == (1, 2)
    assert server.connections == 4, "one connection per lane serves all of its requests"
    assert set(pacer.outcomes.values()) == {Outcome.OK}
    assert result.aborted is None and result.health["connections_made"] == 4
    assert result.health["send_lag_max_s"] >= result.health["send_lag_p50_s"] >= 0


def test_every_request_names_itself_its_stream_and_its_length() -> None:
    fragments = [b"x" * 50_000] * 8
    result, server = drive(lambda request: stream(1), ClosedLoop(2, 2), Prompts(fragments), headers={"X-Team": "a"})
    by_id = {request.headers["x-request-id"]: request for request in server.requests}
    assert len(by_id) == 4
    for record in result.records:
        request = by_id[f"{result.settings['request_id_prefix']}{record.request_id:012x}"]
        assert request.headers["x-correlation-id"] == request.headers["x-session-id"] == record.correlation_id
        assert request.headers["accept"] == "text/event-stream" and request.headers["x-team"] == "a"
        assert request.target == "/v1/chat/completions"
        assert request.body.count(b"x" * 50_000) == 8 and request.body.endswith(b'"]}')
        assert int(request.headers["content-length"]) == len(request.body)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("X-SMG-Routing-Key", {"x-smg-routing-key"}),
        ("x-session-id", set()),  # carried anyway, once
        ("X-Dynamo-Session-ID", {"x-dynamo-session-id", "x-dynamo-parent-session-id"}),
    ],
)
def test_a_router_s_own_header_carries_the_stream(name: str, sent: set[str]) -> None:
    """Of a child, Dynamo's router is told the parent, too."""

    class Child(ClosedLoop):
        def _make(self, at: int, lane: int, turn: int) -> Send:
            return msgspec.structs.replace(super()._make(at, lane, turn), parent_correlation_id="root")

    result, server = drive(lambda request: stream(1), Child(1, 2), session_header=name, headers={name: "a caller's"})
    assert {record.outcome for record in result.records} == {Outcome.OK}
    assert result.settings["endpoint"]["session_header"] == name
    plain = {"x-request-id", "x-correlation-id", "x-session-id"}
    for request in server.requests:
        assert {header for header in request.headers if header.startswith("x-")} == plain | sent
        values = {header: request.headers[header] for header in sent | {"x-session-id"}}
        assert values.pop("x-dynamo-parent-session-id", "root") == "root"
        assert set(values.values()) == {"stream-0"}


def test_sent_is_not_before_the_last_byte_found_room() -> None:
    """A body larger than any socket buffer: the stamp must wait for the reader, who pauses first."""
    began: list[int] = []
    clock = ScaledClock.start()

    async def main() -> Replay:
        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.05)
            began.append(clock.now_ns())
            tail = b""
            while not tail.endswith(b'"]}'):
                tail = (tail + await reader.read(1 << 16))[-3:]
            body = b"".join(data for _, data in stream(1).steps)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % len(body) + body)
            await writer.drain()
            writer.close()

        async with asyncio.timeout(20), await asyncio.start_server(slow, "127.0.0.1", 0, limit=1 << 16) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            prompts = Prompts([b"x" * (1 << 20)] * 24)
            return await replay(ClosedLoop(1, 1), prompts, Endpoint(url=url), clock=clock)

    (record,) = uvloop.run(main()).records
    assert record.outcome is Outcome.OK
    assert record.sent_ns is not None and record.sent_ns > began[0]


FAULTS = {
    "error status": (Reply(status=500, steps=((0, b'{"error":{"message":"boom"}}'),)), Outcome.HTTP_ERROR, "boom"),
    "redirect": (
        Reply(status=307, headers=(("Location", "http://elsewhere/"),), framing="length"),
        Outcome.HTTP_ERROR,
        "redirect to http://elsewhere/ refused",
    ),
    "overflow": (
        Reply(status=400, steps=((0, b'{"error":{"message":"maximum context length is 8"}}'),)),
        Outcome.OVERFLOW,
        "maximum context",
    ),
    "json error with 200": (
        Reply(headers=(("Content-Type", "application/json"),), steps=((0, b'{"error":"no such model"}'),)),
        Outcome.HTTP_ERROR,
        "no such model",
    ),
    "error in mid-stream": (
        Reply(steps=((0, content("a")), (0, event({"error": {"message": "engine died"}})))),
        Outcome.STREAM_ERROR,
        "engine died",
    ),
    "cut in mid-stream": (Reply(steps=((0, content("a")),), then="cut"), Outcome.TRUNCATED, "closed in mid-answer"),
    "reset in mid-stream": (
        Reply(steps=((0, content("a")), (0.02, b"")), then="reset"),
        Outcome.CLIENT_ERROR,
        "lost in mid-answer",
    ),
    "closed before an answer": (Reply(framing="raw", then="close"), Outcome.CLIENT_ERROR, "before an answer"),
    "not http": (Reply(framing="raw", steps=((0, b"SSH-2.0-x\r\n"),), then="close"), Outcome.STREAM_ERROR, "not HTTP"),
    "no token": (Reply(steps=((0, DONE),)), Outcome.EMPTY, "no generated token"),
    "silence": (Reply(steps=((0, content("a")), (3, DONE))), Outcome.TIMEOUT, "no byte for 0.3 s"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_record_and_the_next_request_is_fine(name: str) -> None:
    reply, outcome, message = FAULTS[name]
    pacer = ClosedLoop(1, 2)
    result, server = drive(lambda request: stream(2) if request.number else reply, pacer, read_timeout_s=0.3)
    failed, fine = result.records
    assert failed.outcome is outcome and message in (failed.error or "")
    assert fine.outcome is Outcome.OK and fine.completion_tokens == 2
    assert len(server.requests) == 2, "nothing is sent twice"
    assert pacer.outcomes == {0: outcome, 1: Outcome.OK}


def test_retry_after_is_recorded_and_not_obeyed() -> None:
    busy = Reply(status=429, headers=(("Retry-After", "30"),), framing="length")
    result, server = drive(lambda request: stream(1) if request.number else busy, ClosedLoop(1, 2))
    assert result.records[0].flags == ("retry_after:30",) and result.records[0].status == 429
    assert len(server.requests) == 2 and result.records[1].outcome is Outcome.OK


@pytest.mark.parametrize("framing", ["chunked", "length", "eof"])
def test_every_framing_of_a_body_ends_the_request(framing: str) -> None:
    steps = ((0, content("a", "stop")), (0.002, usage(3, 1)), (0.0, DONE))
    result, server = drive(lambda request: Reply(steps=steps, framing=framing), ClosedLoop(1, 2))
    assert [record.outcome for record in result.records] == [Outcome.OK] * 2
    assert server.connections == (2 if framing == "eof" else 1)


def test_an_interim_answer_is_not_the_answer() -> None:
    body = content("a", "stop") + DONE
    raw = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    result, _ = drive(lambda request: Reply(steps=((0, raw),), framing="raw"), ClosedLoop(1, 2))
    assert [(record.status, record.outcome) for record in result.records] == [(200, Outcome.OK)] * 2


def test_what_the_machine_cancels_is_recorded_as_cancelled() -> None:
    seen: list[Request] = []
    pacer = ClosedLoop(3, 5, cancel_when=lambda: len(seen) == 3 and all(len(request.sends) > 4 for request in seen))

    def endless(request: Request) -> Reply:
        seen.append(request)
        return Reply(steps=((0, content("a")), *(((0.01, content("b")),) * 2000)))

    result, _ = drive(endless, pacer)
    assert [record.outcome for record in result.records] == [Outcome.CANCELLED] * 3
    assert pacer.outcomes == dict.fromkeys(range(3), Outcome.CANCELLED)
    assert all(record.chunks and record.end_ns for record in result.records), "what had arrived is kept"


def test_nobody_listens() -> None:
    with pytest.raises(EnvironmentFailed, match="cannot resolve"):
        run_replay(ClosedLoop(1, 1), Prompts(), Endpoint(url="http://no-such-host.invalid"))
    result = run_replay(ClosedLoop(2, 1), Prompts(), Endpoint(url="http://127.0.0.1:1"))
    assert [record.outcome for record in result.records] == [Outcome.CLIENT_ERROR] * 2
    assert all("cannot connect" in (record.error or "") and record.sent_ns is None for record in result.records)


def test_nobody_listens_any_more() -> None:
    result = run_replay(ClosedLoop(4, 10_000), Prompts(), Endpoint(url="http://127.0.0.1:1"))
    assert result.aborted is not None and "20 requests in a row were not sent: cannot connect" in result.aborted
    assert len(result.records) < 100


def test_a_server_that_dies_ends_the_replay_with_the_reason() -> None:
    async def main() -> Replay:
        answered = 0

        def reply(request: Request) -> Reply:
            nonlocal answered
            answered += 1
            return stream(2) if answered <= 3 else Reply(steps=((0, content("a")), (30, b"")))

        async with asyncio.timeout(20), ScriptedServer(reply) as server:

            async def kill() -> None:
                while answered < 5:
                    await asyncio.sleep(0.005)
                await server.stop()

            dead = asyncio.create_task(kill())
            pacer = ClosedLoop(lanes=2, per_lane=10_000)
            alive = lambda: "engine exited with -9" if dead.done() else True  # noqa: E731
            result = await replay(pacer, Prompts(), Endpoint(url=server.url), alive=alive)
            assert set(pacer.outcomes) == {record.request_id for record in result.records}
            return result

    result = uvloop.run(main())
    assert result.aborted == "engine exited with -9"
    assert [record.outcome for record in result.records[:3]] == [Outcome.OK] * 3
    # The two in flight see their connections end, later ones are refused.
    assert {record.outcome for record in result.records[3:5]} <= {Outcome.CLIENT_ERROR, Outcome.TRUNCATED}
    assert {record.outcome for record in result.records[5:]} <= {Outcome.CLIENT_ERROR}
    assert len(result.records) < 10_000


def test_alive_may_say_no_without_a_reason() -> None:
    result, _ = drive(lambda request: stream(2, first_s=5.0), ClosedLoop(1, 1), alive=lambda: False)
    assert result.aborted == "the server process is gone"
    assert [record.outcome for record in result.records] == [Outcome.CLIENT_ERROR]


def test_a_long_answer_is_decoded_while_it_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory holds what came since the last turn of the pump, not the whole answer."""
    feed, fed = ResponseDecoder.feed, []

    def spy(decoder: ResponseDecoder, data: bytes, at_ns: int) -> None:
        fed.append(len(server_side[0].sends))
        feed(decoder, data, at_ns)

    server_side: list[Request] = []

    def reply(request: Request) -> Reply:
        server_side.append(request)
        return stream(100, first_s=0.002, gap_s=0.002)

    monkeypatch.setattr(ResponseDecoder, "feed", spy)
    result, _ = drive(reply, ClosedLoop(1, 1))
    assert result.records[0].chunks == 100
    assert min(fed) < 50, "decoding began before half of the answer was sent"


def test_records_stream_to_the_sink_and_need_not_be_kept() -> None:
    sunk: list[Record] = []
    shown = []
    result, _ = drive(
        lambda request: stream(2),
        ClosedLoop(2, 3),
        on_record=sunk.append,
        on_progress=shown.append,
        settings=ReplaySettings(keep_records=False),
    )
    assert result.records == () and sorted(record.request_id for record in sunk) == list(range(6))
    assert shown[-1].done == shown[-1].sent == 6 and shown[-1].outcomes == {"ok": 6} and shown[-1].output_tokens == 12


def test_rows_come_in_the_order_of_ending_and_are_the_records() -> None:
    batches: list[Sequence[Row]] = []
    result, _ = drive(lambda request: stream(2), ClosedLoop(2, 3), on_rows=batches.append)
    rows = [row for batch in batches for row in batch]
    assert [row[END] for row in rows] == sorted(row[END] for row in rows)
    assert sorted(map(from_row, rows), key=lambda record: record.request_id) == list(result.records)
    assert all(to_row(record) in rows for record in result.records)


def test_requests_leave_no_garbage_for_the_collector() -> None:
    """A cycle through a request would cost a tenth of the client's time and pauses of many milliseconds."""
    gc.collect()
    collected = 0

    def count(phase: str, info: dict[str, int]) -> None:
        nonlocal collected
        collected += info.get("collected", 0) if phase == "stop" else 0

    gc.callbacks.append(count)
    try:
        drive(lambda request: stream(1), ClosedLoop(2, 2))
        gc.collect()
        few, collected = collected, 0
        drive(lambda request: stream(1), ClosedLoop(2, 52))
        gc.collect()
    finally:
        gc.callbacks.remove(count)
    assert collected - few < 300, "a hundred requests more, and a few objects each for the server that runs beside them"


def test_a_step_of_the_wall_clock_moves_no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set back by an hour at every look: it names the run's origin once, and measures nothing."""
    wall = iter(range(10**18, 0, -3600 * 10**9))
    monkeypatch.setattr("time.time_ns", lambda: next(wall))
    result, _ = drive(lambda request: stream(3, first_s=0.01, gap_s=0.005), ClosedLoop(2, 3))
    origin = result.settings["origin_unix_ns"]
    assert 10**18 - 10**9 < origin <= 10**18, "one look"
    for record in result.records:
        stamps = (record.scheduled_ns, record.sent_ns, record.first_token_ns, record.last_token_ns, record.end_ns)
        assert list(stamps) == sorted(stamps) and 0.005 * 10**9 < stamps[4] - stamps[1] < 5 * 10**9


def test_under_speed_all_times_are_simulated() -> None:
    clock = ScaledClock.start(50)
    pacer = ClosedLoop(1, 2, delay_ns=1000 * MS)
    result, server = drive(lambda request: stream(2, first_s=0.02, gap_s=0.02), pacer, clock=clock)
    first, second = result.records
    assert first.end_ns is not None and first.sent_ns is not None and first.first_token_ns is not None
    assert result.speed == 50
    role, token, *_ = map(clock.at, server.requests[0].sends)
    assert first.sent_ns <= clock.at(server.requests[0].arrived_ns) <= role < token <= first.first_token_ns
    assert second.scheduled_ns == first.end_ns + 1000 * MS


def test_a_bug_in_a_callback_ends_the_replay() -> None:
    def broken(record: Record) -> None:
        raise RuntimeError("sink is broken")

    with pytest.raises(RuntimeError, match="sink is broken"):
        drive(lambda request: stream(1), ClosedLoop(2, 2), on_record=broken)


def test_counters_grow_by_what_the_measured_window_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """With scrapes an hour apart: the boundaries of the phases are read for themselves."""
    monkeypatch.setattr("ridgeline.replay.scrape.PROMPT_S", 5.0)  # however busy the machine is
    answered = 0

    def reply(request: Request) -> Reply:
        nonlocal answered
        if request.target == "/metrics":
            text = f"# TYPE answers counter\nanswers_total {answered}\n".encode()
            return Reply(headers=(("Content-Type", "text/plain"),), steps=((0, text),), framing="length")
        answered += 1
        return stream(2, first_s=0.05, gap_s=0.001)

    settings = LoopSettings(concurrency=2, requests=10, warmup_requests=6, duration_ns=None, run_id="r")
    sessions = fixed_sessions(16, 2, 16, 1)

    async def main() -> Replay:
        async with asyncio.timeout(20), ScriptedServer(reply) as server:
            scrape = ReplaySettings(scrape_urls=(f"{server.url}/metrics",), scrape_s=3600.0)
            pacer = ClosedLoopPacer(sessions, settings)
            return await replay(pacer, BytePrompts(model="m"), Endpoint(url=server.url), settings=scrape)

    result = uvloop.run(main())
    phases, scrapes = result.phases, Scrapes(result.samples)
    assert phases.profiling_start_ns is not None and phases.drained_ns is not None
    stamps = [sample.at_ns for sample in result.samples]
    assert phases.profiling_start_ns in stamps and phases.profiling_end_ns in stamps and len(stamps) == 4
    window = (phases.profiling_start_ns, phases.drained_ns)
    assert scrapes.increase(("answers_total",), window) == pytest.approx(10, abs=2)  # 16 without the boundary
