"""The router of emulated pools: `python -m ridgeline.simulate.server.relay --prefill URL... --decode URL...`.

A request with a decode pool makes two hops, as vLLM's routers have it: a prefill worker computes the prompt and one
token and says where its KV is; the decode worker gets the request with that and answers, and its bytes go to the
client as they come. Without a decode pool (`--worker`) there is one hop. Workers are chosen by the same router as in
virtual time (`--policy`), so that a session, which its header names, meets the same ones there. Nothing is tried twice:
a retry would hide an error.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ridgeline.core.errors import InputError, Problem
from ridgeline.engine.options import ROUTERS
from ridgeline.simulate.router import Router
from ridgeline.simulate.server.answers import response
from ridgeline.simulate.server.bodies import Refusal, block_hashes, parse
from ridgeline.simulate.server.connection import Answer, Call, Connection
from ridgeline.simulate.server.page import CONTENT_TYPE

AFFINITY = (b"x-session-id", b"x-correlation-id")
FORWARDED = (*AFFINITY, b"x-request-id", b"content-type")
COMPLETIONS = (b"/v1/chat/completions", b"/v1/completions")
CHUNK = 1 << 16
BLOCK = 16  # tokens by which a cache-aware router compares prompts


class Worker:
    """One engine behind the router."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise InputError([Problem(f"`{url}` is not http://HOST:PORT", key="worker URL")])
        self.url, self.host, self.port = url, parts.hostname, parts.port
        self.busy = 0
        self.taken = 0

    @property
    def load(self) -> int:
        """Requests under way, for the router."""
        return self.busy

    @property
    def unfinished(self) -> int:
        return self.busy

    async def ask(self, call: Call, body: bytes, take: Callable[[bytes], None]) -> None:
        """Send a request and give its answer, head included, to `take` as it comes. Raises OSError."""
        self.busy += 1
        self.taken += 1
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            head = [
                b"%s %s HTTP/1.1" % (call.method, call.path),
                b"host: %s" % self.host.encode(),
                b"connection: close",
            ]
            head += [b"%s: %s" % (name, call.headers[name]) for name in FORWARDED if name in call.headers]
            head += [b"content-length: %d" % len(body)]
            writer.write(b"\r\n".join(head) + b"\r\n\r\n" + body)
            while data := await reader.read(CHUNK):
                take(data)
        finally:
            self.busy -= 1
            if writer is not None:
                writer.close()


class Relay:
    """The routes. `prefill` empty: `decode` answers whole requests. `policy`: of `simulate.router`."""

    def __init__(self, prefill: Sequence[Worker], decode: Sequence[Worker], policy: str = "session") -> None:
        self.prefill, self.decode = prefill, decode
        self._policy = policy
        self._routers = {id(pool): Router(policy, pool, "pool ") for pool in (prefill, decode)}
        self.requests = self.errors = self.handed_over = self.offered_bytes = 0
        self.connections: set[Connection] = set()

    def connection(self) -> Connection:
        return Connection(self._handle, self.connections)

    def _handle(self, call: Call, connection: Connection) -> Answer | bytes:
        if call.path in COMPLETIONS and call.method == b"POST":
            self.requests += 1
            return Journey(connection, lambda: self._complete(call, connection))
        if call.path == b"/v1/models" and call.method in (b"GET", b"HEAD"):
            return Journey(connection, lambda: self.decode[0].ask(call, b"", connection.write))
        if call.path == b"/health":
            return response(200, b"")
        if call.path == b"/metrics":
            return response(200, ("\n".join(self._page()) + "\n").encode(), CONTENT_TYPE)
        raise Refusal("Not Found", 404, "NotFoundError")

    async def _complete(self, call: Call, connection: Connection) -> None:
        key = next((value for name in AFFINITY if (value := call.headers.get(name))), None)
        body = call.body
        try:
            blocks = self._blocks(call) if self._policy == "cache-aware" else ()
            if self.prefill:
                offer = await self._computed(call, self.choose(self.prefill, key, blocks))
                if isinstance(offer, bytes):  # refused: the client sees why
                    self.errors += 1
                    connection.write(offer)
                    return
                body = msgspec.json.encode({**msgspec.json.decode(body), "kv_transfer_params": offer})
                self.handed_over += 1
                self.offered_bytes += int(offer.get("remote_bytes") or 0)
            await self.choose(self.decode, key, blocks).ask(call, body, connection.write)
        except OSError as error:
            self.errors += 1
            connection.write(_refused(Refusal(f"a worker cannot be reached: {error}", 502, "BadGateway")))

    def choose(self, pool: Sequence[Worker], key: bytes | None, blocks: Sequence[int] = ()) -> Worker:
        """The worker of a pool for a request of a session, whose prompt is these blocks."""
        return pool[self._routers[id(pool)].pick(None if key is None else key.decode("latin-1"), blocks)]

    def _blocks(self, call: Call) -> Sequence[int]:
        """The prompt in blocks, as chained hashes; none of a body that no engine would take."""
        chat = call.path == COMPLETIONS[0]
        try:
            ask = parse(call.body, chat=chat, model=None, max_model_len=1 << 40)
        except Refusal:
            return ()
        return block_hashes(ask.tokens, BLOCK)[: ask.prompt_tokens // BLOCK]

    async def _computed(self, call: Call, worker: Worker) -> dict[str, Any] | bytes:
        """Let a prefill worker compute a prompt: what it offers, or its whole answer when it refuses."""
        try:
            asked = msgspec.json.decode(call.body)
        except msgspec.DecodeError:
            asked = None
        if not isinstance(asked, dict):
            return _refused(Refusal("the body must be a JSON object"))
        left_out = ("stream_options", "max_completion_tokens", "min_tokens")
        first = {name: value for name, value in asked.items() if name not in left_out}
        first |= {"stream": False, "max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}
        parts: list[bytes] = []
        await worker.ask(call, msgspec.json.encode(first), parts.append)
        head, _, answer = b"".join(parts).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            return b"".join(parts)
        offer = msgspec.json.decode(answer).get("kv_transfer_params")
        if not isinstance(offer, dict):
            return _refused(Refusal(f"{worker.url} computes prompts and offers no KV", 502, "BadGateway"))
        return offer

    def _page(self) -> Iterator[str]:
        """Counters, those that a real router has under its names."""
        counters = (
            ("vllm_router_requests_total", "Requests.", self.requests),
            ("vllm_router_request_errors_total", "Requests that a worker refused or could not take.", self.errors),
            (
                "ridgeline:relay_handed_over_total",
                "Requests whose KV went from one pool to the other.",
                self.handed_over,
            ),
            ("ridgeline:relay_offered_bytes_total", "Bytes of KV that prefill workers offered.", self.offered_bytes),
        )
        for name, text, value in counters:
            yield from (f"# HELP {name} {text}", f"# TYPE {name} counter", f"{name} {float(value)!r}")
        name = "vllm_router_processed_requests_total"
        yield from (f"# HELP {name} Requests by worker.", f"# TYPE {name} counter")
        for role, pool in (("prefill", self.prefill), ("decode", self.decode)):
            for worker in pool:
                yield f'{name}{{role="{role}",worker="{worker.url}"}} {float(worker.taken)!r}'


class Journey:
    """A request under way through the pools."""

    def __init__(self, connection: Connection, go: Callable[[], Awaitable[None]]) -> None:
        self._connection, self._go = connection, go
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """The client went away; the worker sees its connection close."""
        self._task.cancel()

    async def _run(self) -> None:
        await self._go()
        self._connection.ended()


def _refused(refusal: Refusal) -> bytes:
    return response(refusal.status, refusal.body)


async def serve(relay: Relay, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(relay.connection, host, port, backlog=4096)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sys.stdout.write(f"listening on http://{host}:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()
    for connection in list(relay.connections):
        connection.close()


def main(argv: Sequence[str] | None = None) -> int:
    """The router as a program. Exit 2: it has nothing to route to."""
    import uvloop

    parser = argparse.ArgumentParser(prog="relay", description="Routes requests over pools of emulated engines.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--policy", choices=ROUTERS, default="session", help="how requests spread over workers")
    for role in ("prefill", "decode", "worker"):
        parser.add_argument(f"--{role}", action="append", default=[], metavar="URL")
    given = parser.parse_args(argv)
    decode = [Worker(url) for url in (*given.decode, *given.worker)]
    if not decode:
        parser.error("name workers: --decode URL with --prefill URL, or --worker URL")
    prefill = [Worker(url) for url in given.prefill]
    uvloop.run(serve(Relay(prefill, decode, given.policy), given.host, given.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
