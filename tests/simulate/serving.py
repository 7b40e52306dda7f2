"""An emulated server inside the test's own loop, and a plain client that reads raw HTTP/1.1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from ridgeline.core.topology import Topology
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.simulate.engine import engine_of
from ridgeline.simulate.server.app import App

T = TypeVar("T")
LIMIT_S = 20.0


def options(**more: Any) -> EngineOptions:
    more = {"kv_tokens": 20_000, "max_model_len": 4096, **more}
    return options_from("qwen3-0.6b", "h200", more.pop("topology", Topology(1)), **more)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """Events of a stream; `[DONE]` as it is."""
        parts = [part.removeprefix("data: ") for part in self.body.decode().split("\n\n") if part]
        return [part if part == "[DONE]" else json.loads(part) for part in parts]

    @property
    def error(self) -> str:
        return str(self.json["error"]["message"])


class Client:
    """Requests over one kept connection, one after the other."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def open(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await self.writer.drain()

    async def receive(self) -> Reply:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        return Reply(int(head[0].split()[1]), headers, body)

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        await self.send(method, path, data, **headers)
        return await self.receive()

    async def chat(self, text: str, tokens: int = 4, **more: Any) -> Reply:
        headers = more.pop("headers", {})
        body = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, **more}
        return await self.call("POST", "/v1/chat/completions", body, **headers)

    async def complete(self, prompt: Any, tokens: int = 4, **more: Any) -> Reply:
        return await self.call("POST", "/v1/completions", {"prompt": prompt, "max_tokens": tokens, **more})

    async def metrics(self) -> dict[str, float]:
        page = (await self.call("GET", "/metrics")).body.decode()
        pairs = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}


class Served(NamedTuple):
    app: App
    port: int
    clients: list[Client]

    async def client(self) -> Client:
        self.clients.append(await Client(self.port).open())
        return self.clients[-1]


@asynccontextmanager
async def served(given: EngineOptions | None = None, speed: float = 200.0) -> AsyncIterator[Served]:
    chosen = given or options()
    loop = asyncio.get_running_loop()
    app = App(engine_of(chosen), loop, model="m", root="root", speed=speed, router=chosen.router, seed=0)
    server = await loop.create_server(app.connection, "127.0.0.1", 0)
    clients: list[Client] = []
    try:
        yield Served(app, server.sockets[0].getsockname()[1], clients)
    finally:
        for client in clients:
            client.writer.close()
            with suppress(ConnectionError):
                await client.writer.wait_closed()
        server.close()
        app.close()
        await server.wait_closed()


def against(scenario: Callable[[Served], Awaitable[T]], given: EngineOptions | None = None, speed: float = 200.0) -> T:
    """Run a scenario against a server, bounded in time."""

    async def bounded() -> T:
        async with served(given, speed) as server:
            return await asyncio.wait_for(scenario(server), LIMIT_S)

    return asyncio.run(bounded())
