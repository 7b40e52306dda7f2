"""An HTTP server whose every byte and pause is written down by the test: `reply(request) -> Reply`.

It logs what it saw and when it handed each step to its socket, on the machine's monotonic clock, so that a client in
another process can be checked against it. As a program it streams tokens at a known pace and prints its port:

    python scripted_server.py --first-ms 50 --gap-ms 10 --tokens 64 --log sends.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True, kw_only=True)
class Request:
    number: int  # over all connections
    connection: int
    target: str
    headers: dict[str, str]  # lower-case names
    body: bytes
    arrived_ns: int  # when its last byte was read
    sends: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """`steps` are (pause in seconds, bytes): the pause counts from the step before. `framing`: chunked, length, eof or
    raw (the steps are the whole message, head included). `then`: keep the connection, close it, cut (close without
    ending the body) or reset it."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/event-stream"),)
    steps: tuple[tuple[float, bytes], ...] = ()
    framing: str = "chunked"
    then: str = "keep"


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def content(text: str, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish, **more}
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})


def usage(prompt: int, completion: int) -> bytes:
    stated = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": stated})


DONE = b"data: [DONE]\n\n"


def stream(count: int, first_s: float = 0.0, gap_s: float = 0.0, prompt: int = 7) -> Reply:
    """`count` tokens, one event each; the role first, then usage and [DONE]; the last token carries finish_reason."""
    steps = [(0.0, content(""))] if first_s else []
    for token in range(count):
        steps.append((gap_s if token else first_s, content(f" t{token}", "length" if token == count - 1 else None)))
    steps.append((0.0, usage(prompt, count) + DONE))
    return Reply(steps=tuple(steps))


class ScriptedServer:
    """Use as `async with ScriptedServer(reply) as server`, then `server.url` and `server.requests`."""

    def __init__(self, reply: Callable[[Request], Reply], tls: ssl.SSLContext | None = None) -> None:
        self._reply = reply
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[Request] = []
        self.connections = 0
        self.port = 0
        self.on_done: Callable[[Request], None] | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> ScriptedServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Die: refuse new connections, reset those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        number, self.connections = self.connections, self.connections + 1
        try:
            while (request := await self._read(reader, number)) is not None:
                reply = self._reply(request)
                await self._answer(writer, request, reply)
                if self.on_done is not None:
                    self.on_done(request)
                if reply.then == "reset":
                    sock = writer.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    writer.transport.abort()
                if reply.then != "keep" or reply.framing == "eof":
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client closed on us: cancelled requests do
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, connection: int) -> Request | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(
            number=len(self.requests),
            connection=connection,
            target=first.split(" ")[1],
            headers=headers,
            body=body,
            arrived_ns=time.monotonic_ns(),
        )
        self.requests.append(request)
        return request

    async def _answer(self, writer: asyncio.StreamWriter, request: Request, reply: Reply) -> None:
        head = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in reply.headers)]
        if reply.framing == "chunked":
            head.append("Transfer-Encoding: chunked")
        elif reply.framing == "length":
            head.append(f"Content-Length: {sum(len(data) for _, data in reply.steps)}")
        pending = b"" if reply.framing == "raw" else "\r\n".join([*head, "", ""]).encode("latin-1")
        due = time.monotonic()
        for pause, data in reply.steps:
            due += pause
            if (wait := due - time.monotonic()) > 0:
                if pending:
                    writer.write(pending)
                    pending = b""
                await asyncio.sleep(wait)
            framed = b"%x\r\n%b\r\n" % (len(data), data) if reply.framing == "chunked" and data else data
            request.sends.append(time.monotonic_ns())
            writer.write(pending + framed)
            pending = b""
            await writer.drain()
        if reply.framing == "chunked" and reply.then in ("keep", "close"):
            pending += b"0\r\n\r\n"
        if pending:
            writer.write(pending)
        await writer.drain()


def _program(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first-ms", type=float, default=50.0)
    parser.add_argument("--gap-ms", type=float, default=10.0)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args(arguments)
    answer = stream(options.tokens, options.first_ms / 1e3, options.gap_ms / 1e3)

    async def serve() -> None:
        async with ScriptedServer(lambda request: answer) as server:
            print(server.port, flush=True)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, sys.stdin.read)  # until the caller closes our input
            if options.log:
                rows = (
                    {"id": r.headers.get("x-request-id"), "arrived": r.arrived_ns, "sends": r.sends}
                    for r in server.requests
                )
                options.log.write_text("".join(json.dumps(row) + "\n" for row in rows))

    asyncio.run(serve())


if __name__ == "__main__":
    _program()
