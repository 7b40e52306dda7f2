"""One HTTP/1.1 connection and one exchange on it at a time: bytes out, stamped bytes in.

While an answer arrives nothing happens here but reading the monotonic clock, letting httptools find the message's end
(the pacing needs to know it) and keeping (body bytes, stamp) pairs. What the bytes say is read elsewhere, later.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, cast

import httptools

from ridgeline.replay.openai_stream import Ending

now = time.monotonic_ns
_JOIN_BELOW = 16384  # bytes; smaller requests go out as one buffer: one short copy is cheaper than a vector


class State(Enum):
    OPENING = "opening"
    SENDING = "sending"
    WAITING = "waiting"  # the whole request is with the kernel
    ENDED = "ended"


class Exchange:
    """One request and its answer, all times monotonic nanoseconds. `on_sent` and `on_end` are called once each, the
    first only if the request went out as a whole."""

    __slots__ = (
        "body", "connection", "end_ns", "ending", "head", "headers", "last_ns", "on_end", "on_sent", "parts", "reason",
        "reused", "sent_ns", "started_ns", "state", "status", "tag",
    )  # fmt: skip

    def __init__(
        self,
        head: bytes,
        body: list[bytes],
        on_sent: Callable[[Exchange], None],
        on_end: Callable[[Exchange], None],
        tag: Any = None,
    ) -> None:
        self.head = head
        self.body = body
        self.on_sent = on_sent
        self.on_end = on_end
        self.tag = tag
        self.connection: Connection | None = None
        self.reused = False
        self.state = State.OPENING
        self.started_ns = self.last_ns = now()
        self.sent_ns: int | None = None
        self.end_ns: int | None = None
        self.ending: Ending | None = None
        self.reason: str | None = None
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[tuple[list[bytes], int]] = []  # body bytes of one read, with its stamp

    def header(self, name: bytes) -> str | None:
        """The last header of that (lower-case) name."""
        for key, value in reversed(self.headers):
            if key == name or key.lower() == name:
                return value.decode("latin-1").strip()
        return None

    def end(self, ending: Ending, reason: str | None = None) -> None:
        """Close the exchange. Later calls change nothing."""
        if self.state is State.ENDED:
            return
        self.state = State.ENDED
        self.end_ns = now()
        self.ending = ending
        self.reason = reason
        self.connection = None
        self.body = []
        self.on_end(self)


class Connection(asyncio.Protocol):
    """Given to the loop's `create_connection`. `on_idle` and `on_closed` tell the pool what it may do with it."""

    def __init__(self, on_idle: Callable[[Connection], None], on_closed: Callable[[Connection], None]) -> None:
        self._on_idle = on_idle
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._head_seen = False
        self._stamp = 0
        self._paused = False
        self.idle_since = 0

    # -- what the pool does with it ------------------------------------------------------------------------------

    def begin(self, exchange: Exchange) -> None:
        """Write the request. It counts as sent when its last byte is with the kernel: at once for most, else when the
        transport says that its buffer is empty."""
        transport = self._transport
        assert transport is not None and self._exchange is None
        self._exchange = exchange
        exchange.connection = self
        exchange.state = State.SENDING
        self._head_seen = False
        size = sum(map(len, exchange.body))
        fragments = [exchange.head, b"Content-Length: %d\r\n\r\n" % size, *exchange.body]
        if size < _JOIN_BELOW:
            transport.write(b"".join(fragments))
        else:
            transport.writelines(fragments)
        if not self._paused:
            self._sent()

    def drop(self) -> None:
        """Close, and forget the exchange: what still comes for it is nobody's."""
        self._exchange = None
        self.close()

    def close(self) -> None:
        """Close at once, unsent bytes included."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    # -- what the loop calls -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self._transport = transport
        # With no room to buffer, `pause_writing` means "not all of it went out" and `resume_writing` "now it has".
        # A TLS transport pauses already at its limit, so there the limit is one byte. It buffers up to 64 KiB more
        # below itself, which is out of sight: the stamp of a large TLS body may be early by that much.
        tls = transport.get_extra_info("sslcontext") is not None
        _keep_alive(transport)
        transport.set_write_buffer_limits(high=1 if tls else 0, low=0)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._exchange is not None and self._exchange.state is State.SENDING:
            self._sent()

    def data_received(self, data: bytes) -> None:
        self._stamp = now()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._break("the server switched protocols")
        except httptools.HttpParserError as error:
            self._break(f"not HTTP: {error}")

    def eof_received(self) -> bool:
        self._stamp = now()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._on_closed(self)
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if exchange.status is None:
            exchange.end(Ending.UNSENT, f"connection closed before an answer: {error or 'end of stream'}")
        elif error is not None:
            exchange.end(Ending.RESET, f"connection lost in mid-answer: {error}")
        elif self._head_seen and _ends_with_connection(exchange):
            exchange.end(Ending.COMPLETE)
        else:
            exchange.end(Ending.CUT, "connection closed in mid-answer")

    # -- what httptools calls ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._exchange is None:  # bytes nobody asked for: this connection cannot be trusted
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None:
            self._exchange.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._exchange is not None:
            self._head_seen = True
            self._exchange.status = self._parser.get_status_code()
            self._exchange.last_ns = self._stamp

    def on_body(self, body: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        parts = exchange.parts
        if parts and parts[-1][1] == self._stamp:  # several HTTP chunks in one read
            parts[-1][0].append(body)
        else:
            parts.append(([body], self._stamp))
            exchange.last_ns = self._stamp

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.status is not None and exchange.status < 200:  # 100 Continue, 103 Early Hints: not the answer
            exchange.status = None
            exchange.headers.clear()
            self._head_seen = False
            return
        self._exchange = None
        answered_early = exchange.state is State.SENDING
        if self._parser.should_keep_alive() and not answered_early and not self.closing:
            self.idle_since = self._stamp
            self._on_idle(self)
        else:
            self.close()
        exchange.end(Ending.COMPLETE)

    # -- ours ----------------------------------------------------------------------------------------------------

    def _sent(self) -> None:
        exchange = self._exchange
        if exchange is None or self.closing:
            return
        exchange.state = State.WAITING
        exchange.sent_ns = exchange.last_ns = now()
        exchange.body = []
        exchange.on_sent(exchange)

    def _break(self, reason: str) -> None:
        exchange, self._exchange = self._exchange, None
        self.close()
        if exchange is not None:
            exchange.end(Ending.PROTOCOL, reason)


def _keep_alive(transport: asyncio.Transport) -> None:
    """Probe a silent peer: a host that is gone is noticed within two and a half minutes, while a slow prefill may take
    longer than that to say its first byte. (TCP_NODELAY is the loop's default.)"""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(socket, "TCP_KEEPIDLE"):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 30), (socket.TCP_KEEPCNT, 3)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _ends_with_connection(exchange: Exchange) -> bool:
    """Neither a length nor chunks: the close is the end of the body (RFC 9112, section 6.3)."""
    return exchange.header(b"content-length") is None and exchange.header(b"transfer-encoding") is None
