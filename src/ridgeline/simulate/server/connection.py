"""One client connection: HTTP/1.1 parsed by httptools, answered in order, written once per batch of tokens."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, Protocol, cast

import httptools

from ridgeline.simulate.server.answers import response
from ridgeline.simulate.server.bodies import Refusal

MAX_BODY = 256 << 20


class Call(NamedTuple):
    """A whole HTTP request."""

    method: bytes
    path: bytes
    headers: dict[bytes, bytes]  # names in lower case
    body: bytes
    keep_alive: bool


class Answer(Protocol):
    """Something that will end later; `cancel` when the client went away."""

    def cancel(self) -> None: ...


class Handler(Protocol):
    def __call__(self, call: Call, connection: Connection) -> Answer | bytes: ...


class Connection(asyncio.Protocol):
    """Requests of one connection are handled one after the other; pipelined ones wait."""

    def __init__(self, handler: Handler, open_connections: set[Connection]) -> None:
        self._handler, self._open = handler, open_connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._queue: deque[Call] = deque()
        self._answer: Answer | None = None
        self._keep_alive = True
        self._path = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self._transport = None
        self._queue.clear()
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(Refusal("upgrades are not served"))
        except httptools.HttpParserError as error:
            self._refuse(Refusal(f"not HTTP/1.1: {error}"))

    # httptools' callbacks

    def on_message_begin(self) -> None:
        self._path, self._headers, self._body, self._size = b"", {}, [], 0

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value
        if name.lower() == b"expect" and value.lower() == b"100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size <= MAX_BODY:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._size > MAX_BODY:
            self._refuse(Refusal(f"the body is larger than {MAX_BODY} bytes", 413))
            return
        path = self._path.partition(b"?")[0]
        keep = self._parser.should_keep_alive()
        self._queue.append(Call(self._parser.get_method(), path, self._headers, b"".join(self._body), keep))
        self._next()

    # what handlers use

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def ended(self) -> None:
        """The answer under way is complete."""
        self._answer = None
        if not self._keep_alive:
            self.close()
        self._next()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _next(self) -> None:
        while self._queue and self._answer is None:
            call = self._queue.popleft()
            self._keep_alive = call.keep_alive
            try:
                given = self._handler(call, self)
            except Refusal as refusal:
                given = response(refusal.status, refusal.body)
            if isinstance(given, bytes):
                if call.method == b"HEAD":  # the headers of the answer to GET, alone (RFC 9110, 9.3.2)
                    given = given[: given.index(b"\r\n\r\n") + 4]
                self.write(given)
                if not call.keep_alive:
                    self.close()
            else:
                self._answer = given

    def _refuse(self, refusal: Refusal) -> None:
        self.write(response(refusal.status, refusal.body, close=True))
        self.close()
