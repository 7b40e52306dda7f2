"""One HTTP/1.1 connection and one exchange on it at a time: bytes out, stamped bytes in.

While an answer arrives nothing happens here but reading the monotonic clock and keeping bytes and stamps. What the
bytes say is read later, by `Connection.read`; the owner is told when that should be soon, as the answer may be over.
"""

from __future__ import annotations

import asyncio
import socket
import time
from enum import Enum
from typing import Any, Protocol, cast

import msgspec

from ridgeline.replay.framing import Framing, KnownHead
from ridgeline.replay.openai_stream import Ending, ResponseDecoder

now = time.monotonic_ns
_JOIN_BELOW = 16384  # bytes; smaller requests go out as one buffer: one short copy is cheaper than a vector


class State(Enum):
    QUEUED = "queued"
    OPENING = "opening"
    SENDING = "sending"
    WAITING = "waiting"  # the whole request is with the kernel
    ENDED = "ended"


# Looking a member up in its class costs five times as much as in the module, and this is done for every read.
_SENDING, _WAITING, _ENDED = State.SENDING, State.WAITING, State.ENDED
_COMPLETE = Ending.COMPLETE


class Owner(Protocol):
    """Who is told of exchanges, in callbacks of the loop."""

    def on_sent(self, exchange: Exchange) -> None:
        """The whole request is with the kernel. Once, if ever."""

    def on_ready(self, exchange: Exchange) -> None:
        """The exchange should be read soon, but not before other sockets had their turn. Once until it is."""

    def on_end(self, exchange: Exchange) -> None:
        """The exchange is over. Once."""


class Exchange(msgspec.Struct, eq=False):
    """One request and its answer, all times monotonic nanoseconds. `end_ns` of a complete answer is the stamp of the
    read that completed it."""

    owner: Owner
    tag: Any = None
    connection: Connection | None = None
    reused: bool = False
    state: State = State.QUEUED
    started_ns: int = 0  # once a connection is looked for
    last_ns: int = 0
    sent_ns: int | None = None
    end_ns: int | None = None
    ending: Ending | None = None
    reason: str | None = None
    status: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    decoder: ResponseDecoder | None = None  # once the head has been read
    reads: list[bytes] = []  # as they came, not yet taken apart
    stamps: list[int] = []  # of each
    ready: bool = False

    def header(self, name: bytes) -> str | None:
        """The last header of that (lower-case) name."""
        for key, value in reversed(self.headers):
            if key == name or key.lower() == name:
                return value.decode("latin-1").strip()
        return None

    def end(self, ending: Ending, reason: str | None = None, at_ns: int | None = None) -> None:
        """Close the exchange, now unless told when it was. Later calls change nothing."""
        if self.state is _ENDED:
            return
        self.state = _ENDED
        self.end_ns = now() if at_ns is None else at_ns
        self.ending = ending
        self.reason = reason
        self.connection = None
        self.owner.on_end(self)


class Pool(Protocol):
    """What a connection tells the pool that it is in."""

    known_head: KnownHead

    def on_idle(self, connection: Connection) -> None: ...

    def on_closed(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """Given to the loop's `create_connection`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._framing = Framing(pool.known_head)
        self._exchange: Exchange | None = None
        self._whole_reads = False  # the end of the answer shows at the end of a read: chunks end in an empty line
        self._paused = False
        self._lost = False
        self.idle_since = 0

    # -- what the pool and the owner do with it ------------------------------------------------------------------

    def begin(self, exchange: Exchange, head: str, body: list[bytes]) -> None:
        """Write the request (`head`: all of it but the length and the empty line). It counts as sent when its last byte
        is with the kernel: at once for most, else when the transport says that its buffer is empty."""
        transport = self._transport
        assert transport is not None and self._exchange is None
        self._exchange = exchange
        exchange.connection = self
        exchange.state = _SENDING
        self._whole_reads = False
        size = sum(map(len, body))
        opening = f"{head}Content-Length: {size}\r\n\r\n".encode("latin-1")
        if size < _JOIN_BELOW:
            transport.write(b"".join([opening, *body]))
        else:
            transport.writelines([opening, *body])
        if not self._paused:
            self._sent()

    def read(self, exchange: Exchange) -> None:
        """Take apart what has arrived for the exchange, and end it when that was all."""
        reads, stamps = exchange.reads, exchange.stamps
        exchange.reads, exchange.stamps = [], []
        framing, decoder = self._framing, exchange.decoder
        if stamps:
            exchange.last_ns = stamps[-1]
        if len(reads) > 2 and decoder is not None and decoder.repeats:
            many = len(reads) - exchange.ready  # the one that may end the answer is for itself
            body = framing.middle(b"".join(reads[:many]))
            if body is not None:
                ended = [read.count(b"\n\n") for read in reads[:many] if read.endswith(b"\n\n\r\n")]
                if decoder.feed_many(body, ended, stamps[:many]):
                    del reads[:many], stamps[:many]
        exchange.ready = False
        for data, at in zip(reads, stamps):  # noqa: B905  # of one length, and naming that costs
            if framing.complete:
                framing.surplus = True
                break
            body = framing.take(data)
            if decoder is None and (head := framing.head) is not None:
                exchange.status, exchange.headers = head.status, head.headers
                self._whole_reads = head.chunked
                decoder = exchange.decoder = ResponseDecoder(head.status)
            if body:
                assert decoder is not None
                decoder.feed(body, at)
            exchange.last_ns = at
        if framing.complete:
            self._complete(exchange)
        elif framing.error is not None:
            self._exchange = None
            self.close()
            exchange.end(Ending.PROTOCOL, framing.error)

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
        return self._lost or self._transport is None or self._transport.is_closing()

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
        if self._exchange is not None and self._exchange.state is _SENDING:
            self._sent()

    def data_received(self, data: bytes) -> None:
        at = now()
        exchange = self._exchange
        if exchange is None:
            if data.strip(b"\r\n"):  # bytes nobody asked for: this connection cannot be trusted
                self.close()
            return
        exchange.reads.append(data)
        exchange.stamps.append(at)
        if not exchange.ready and (data.endswith(b"\r\n\r\n") or not self._whole_reads):
            exchange.ready = True
            exchange.owner.on_ready(exchange)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._pool.on_closed(self)
        exchange = self._exchange
        if exchange is not None and exchange.reads:
            self.read(exchange)
            exchange = self._exchange
        self._exchange = None
        if exchange is None:
            return
        if exchange.status is None:
            exchange.end(Ending.UNSENT, f"connection closed before an answer: {error or 'end of stream'}")
        elif error is not None:
            exchange.end(Ending.RESET, f"connection lost in mid-answer: {error}")
        elif (head := self._framing.head) is not None and not head.bounded:  # RFC 9112, section 6.3
            exchange.end(_COMPLETE)
        else:
            exchange.end(Ending.CUT, "connection closed in mid-answer")

    # -- ours ----------------------------------------------------------------------------------------------------

    def _complete(self, exchange: Exchange) -> None:
        self._exchange = None
        framing = self._framing
        assert framing.head is not None
        answered_early = exchange.state is _SENDING
        # (One that is closing is found out before it is used again.)
        if framing.head.keep_alive and not (answered_early or framing.surplus or self._lost):
            framing.next()
            self.idle_since = exchange.last_ns
            self._pool.on_idle(self)
        else:
            self.close()
        exchange.end(_COMPLETE, at_ns=exchange.last_ns)

    def _sent(self) -> None:
        exchange = self._exchange
        if exchange is None or self.closing:
            return
        exchange.sent_ns = exchange.last_ns = now()
        exchange.state = _WAITING
        exchange.owner.on_sent(exchange)


def _keep_alive(transport: asyncio.Transport) -> None:
    """Probe a silent peer: a host that is gone is noticed within two and a half minutes, while a slow prefill may take
    longer than that to say its first byte. (TCP_NODELAY is the loop's default.)"""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(socket, "TCP_KEEPIDLE"):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 30), (socket.TCP_KEEPCNT, 3)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
