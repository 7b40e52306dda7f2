"""A router before pools: two hops for a request, one for a session, refusals as they are, and nothing tried twice."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any, NamedTuple

import pytest
from tests.simulate.serving import LIMIT_S, Client, Served, options, served

from ridgeline.core.errors import InputError
from ridgeline.simulate.router import Router
from ridgeline.simulate.server.relay import Relay, Worker, main

TEXT = "word " * 400


class Pools(NamedTuple):
    relay: Relay
    prefill: list[Served]
    decode: list[Served]
    port: int

    async def client(self) -> Client:
        return await Client(self.port).open()


@asynccontextmanager
async def pools(prefill: int, decode: int, policy: str = "session") -> AsyncIterator[Pools]:
    from contextlib import AsyncExitStack

    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(served(options())) for _ in range(prefill + decode)]
        for engine in engines[:prefill]:
            engine.app.offers_kv = True
        workers = [Worker(f"http://127.0.0.1:{engine.port}") for engine in engines]
        relay = Relay(workers[:prefill], workers[prefill:], policy)
        server = await asyncio.get_running_loop().create_server(relay.connection, "127.0.0.1", 0)
        try:
            yield Pools(relay, engines[:prefill], engines[prefill:], server.sockets[0].getsockname()[1])
        finally:
            for connection in list(relay.connections):
                connection.close()
            server.close()
            await asyncio.sleep(0.01)


def against(
    scenario: Callable[[Pools], Awaitable[None]], prefill: int = 1, decode: int = 2, policy: str = "session"
) -> None:
    async def bounded() -> None:
        async with pools(prefill, decode, policy) as found:
            await asyncio.wait_for(scenario(found), LIMIT_S)

    asyncio.run(bounded())


def test_head_is_passed_on_and_has_no_body() -> None:
    async def scenario(pools: Pools) -> None:
        for path in ("/v1/models", "/metrics", "/health"):
            reader, writer = await asyncio.open_connection("127.0.0.1", pools.port)
            writer.write(f"HEAD {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            said = await reader.read()
            writer.close()
            assert said.startswith(b"HTTP/1.1 200"), path
            assert said.endswith(b"\r\n\r\n"), "no body"

    against(scenario)


async def moved(engines: list[Served]) -> list[dict[str, float]]:
    return [await (await engine.client()).metrics() for engine in engines]


def counter(page: dict[str, float], name: str) -> float:
    return sum(value for key, value in page.items() if key.startswith(name))


def test_a_request_is_computed_here_and_answered_there_with_its_bytes_counted() -> None:
    async def scenario(found: Pools) -> None:
        client = await found.client()
        reply = await client.chat(TEXT, 6, stream=True, stream_options={"include_usage": True})
        assert reply.status == 200
        assert reply.events[-1] == "[DONE]"
        usage = reply.events[-2]["usage"]
        assert usage["completion_tokens"] == 6
        (first,) = await moved(found.prefill)
        pages = await moved(found.decode)
        offered = counter(first, "ridgeline:kv_offered_bytes_total")
        fetched = sum(counter(page, "ridgeline:kv_transfer_bytes_total") for page in pages)
        size = found.decode[0].app.engine.handover.block_bytes
        prompt = usage["prompt_tokens"]
        assert offered == prompt // 16 * size
        assert fetched == (prompt - 1) // 16 * size
        assert counter(first, "vllm:generation_tokens_total") == 1, "the prefill worker stops after a token"
        assert sum(counter(page, "vllm:generation_tokens_total") for page in pages) == 6
        assert sum(counter(page, "ridgeline:kv_transfer_seconds_total") for page in pages) > 0
        shown = await client.metrics()
        assert shown["ridgeline:relay_handed_over_total"] == 1
        assert shown["ridgeline:relay_offered_bytes_total"] == offered
        assert counter(shown, "vllm_router_processed_requests_total") == 2
        client.writer.close()

    against(scenario)


def test_usage_tells_what_the_prefill_worker_had_cached() -> None:
    async def scenario(found: Pools) -> None:
        client = await found.client()
        cached = []
        for _ in range(2):
            reply = await client.chat(TEXT, 2, headers={"x-session-id": "s"})
            cached.append(reply.json["usage"]["prompt_tokens_details"]["cached_tokens"])
        assert cached[0] == 0, "what came over the link was computed by somebody"
        assert cached[1] > 300
        client.writer.close()

    against(scenario)


def test_a_session_stays_on_its_workers_and_others_spread() -> None:
    async def scenario(found: Pools) -> None:
        client = await found.client()
        for key in range(12):
            for _ in range(2):
                await client.chat(f"{key} {TEXT}", 1, headers={"x-session-id": f"session-{key}"})
        taken = [worker.taken for worker in found.relay.decode]
        assert sum(taken) == 24
        assert all(count % 2 == 0 for count in taken)
        assert min(taken) > 0
        client.writer.close()

    against(scenario)


def test_without_a_header_the_least_busy_worker_is_chosen() -> None:
    first, second = pool = [Worker("http://a:1"), Worker("http://b:2")]
    relay = Relay([], pool)
    assert relay.choose(pool, None) is first
    first.busy = 1
    assert relay.choose(pool, None) is second
    assert relay.choose(pool, b"key") is relay.choose(pool, b"key")


def test_sessions_meet_the_workers_that_they_meet_in_virtual_time() -> None:
    pool = [Worker(f"http://a:{port}") for port in (1, 2, 3)]
    keys = [f"session-{number}" for number in range(40)]
    for policy in ("session", "round-robin"):
        relay, virtual = Relay([], pool, policy), Router(policy, pool, "pool ")
        assert [relay.choose(pool, key.encode()) for key in keys] == [pool[virtual.pick(key)] for key in keys]


def test_a_cache_aware_router_follows_the_beginning_of_a_prompt() -> None:
    async def scenario(found: Pools) -> None:
        client = await found.client()
        for key in range(6):
            for turn in range(3):  # no two requests share a session, only their beginning
                await client.chat(f"{key} {TEXT} {turn}", 1, headers={"x-session-id": f"session-{key}-{turn}"})
        taken = [worker.taken for worker in found.relay.decode]
        assert sum(taken) == 18
        assert all(count % 3 == 0 and count for count in taken)
        client.writer.close()

    against(scenario, policy="cache-aware")


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"not json", 400, "must be a JSON object"),
        (b"[1]", 400, "must be a JSON object"),
        ({"model": "other", "messages": [{"role": "user", "content": "x"}]}, 404, "does not exist"),
        ({"messages": []}, 400, "at least one message"),
    ],
)
def test_a_refusal_of_the_first_hop_reaches_the_client(body: Any, status: int, says: str) -> None:
    async def scenario(found: Pools) -> None:
        client = await found.client()
        reply = await client.call("POST", "/v1/chat/completions", body)
        assert reply.status == status
        assert says in reply.error
        assert found.relay.errors == 1
        assert (await client.chat(TEXT, 1)).status == 200, "the connection lives on"
        client.writer.close()

    against(scenario)


def test_a_request_too_long_for_the_decode_worker_is_refused_by_it() -> None:
    async def scenario(found: Pools) -> None:
        client = await found.client()
        reply = await client.chat(TEXT, 100_000)
        assert reply.status == 400
        assert "too large" in reply.error
        client.writer.close()

    against(scenario)


def test_a_worker_that_is_gone_is_a_bad_gateway_and_not_tried_again() -> None:
    async def scenario(found: Pools) -> None:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            dead = Worker(f"http://127.0.0.1:{free.getsockname()[1]}")
        found.relay.decode[:] = [dead]  # type: ignore[index]
        client = await found.client()
        reply = await client.chat(TEXT, 1)
        assert reply.status == 502
        assert dead.taken == 1
        client.writer.close()

    against(scenario)


def test_a_prefill_worker_that_offers_nothing_is_said() -> None:
    async def scenario(found: Pools) -> None:
        found.prefill[0].app.offers_kv = False
        client = await found.client()
        reply = await client.chat(TEXT, 1)
        assert reply.status == 502
        assert "offers no KV" in reply.error
        client.writer.close()

    against(scenario)


def test_a_client_that_goes_away_frees_the_engine() -> None:
    async def scenario(found: Pools) -> None:
        client = await found.client()
        body = b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 4000, "stream": true}'
        await client.send("POST", "/v1/chat/completions", body)
        engines = [served.app.engine.ranks[0] for served in found.decode]
        while not any(engine.running for engine in engines):
            await asyncio.sleep(0.005)
        client.writer.close()
        while any(engine.unfinished for engine in engines):
            await asyncio.sleep(0.005)

    against(scenario)


def test_one_hop_without_a_decode_pool_and_pages_of_its_own() -> None:
    async def scenario(found: Pools) -> None:
        client = await found.client()
        assert (await client.chat(TEXT, 3)).json["usage"]["completion_tokens"] == 3
        assert (await client.call("GET", "/v1/models")).json["data"][0]["id"] == "m"
        assert (await client.call("GET", "/health")).status == 200
        assert (await client.call("GET", "/nowhere")).status == 404
        assert counter(await client.metrics(), "ridgeline:relay_handed_over_total") == 0
        client.writer.close()

    against(scenario, prefill=0, decode=2)


def test_urls_and_workers_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="is not http://HOST:PORT"):
        Worker("ftp://x")
    with pytest.raises(SystemExit):
        main(["--prefill", "http://127.0.0.1:1"])
    assert "--decode URL" in capsys.readouterr().err
