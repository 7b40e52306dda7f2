"""The requests under way in one process: sends become bytes, bytes become rows.

While answers arrive, reads are kept as (bytes, stamp) pairs; the owner calls `pump` fifty times a second, which decodes
what has gathered in slices of at most 0.3 ms between which the loop polls its sockets. When an answer ends, the little
that is left of it is decoded before its end is reported, because the pacing machine must know the outcome (its time is
the stamp of the last byte, so a late report moves nothing but a send that is due at once).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Protocol

from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import Row
from ridgeline.replay.connection import Exchange
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.http import Client
from ridgeline.replay.openai_stream import Ending, ResponseDecoder
from ridgeline.replay.recording import SENT, make_row
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.prompts.api import PromptSource

PUMP_S = 0.02
_SLICE_NS = 300_000


class Listener(Protocol):
    """What is told of requests. Called on the loop; what `sent` and `ended` raise goes to `broke`."""

    def sent(self, send_id: int, at_ns: int) -> None:
        """The last byte is with the kernel; simulated time."""

    def ended(self, row: Row, unsent: bool) -> None:
        """The request is over. `unsent`: there was no connection for it."""

    def broke(self, error: Exception) -> None:
        """A bug, or the end of a process that this needs: the replay must end."""


class Link(Protocol):
    """Where the driver's sends go: this process, or several."""

    async def open(self) -> None:
        """Raises EnvironmentFailed when the endpoint's host has no address."""

    def send(self, send: Send) -> None: ...

    def cancel(self, send_id: int, reason: str, ending: Ending) -> None:
        """End a request now; its row follows. One that is not under way is left alone."""

    def flush(self) -> None:
        """All sends and cancels of this moment have been given."""

    def pump(self) -> None:
        """Decode what has gathered."""

    async def close(self) -> dict[str, float]:
        """Cancel what is under way, report it, close every connection; gives the counts of sockets."""


class _Flight:
    """A request under way."""

    __slots__ = ("decoder", "exchange", "send")

    def __init__(self, send: Send) -> None:
        self.send = send
        self.exchange: Exchange | None = None
        self.decoder: ResponseDecoder | None = None

    def decode(self) -> None:
        """Feed the decoder what has arrived since."""
        exchange = self.exchange
        assert exchange is not None
        if not exchange.parts:
            return
        if self.decoder is None:
            self.decoder = ResponseDecoder(exchange.status or 0)
        parts, exchange.parts = exchange.parts, []
        feed = self.decoder.feed
        for pieces, at in parts:
            feed(pieces[0] if len(pieces) == 1 else b"".join(pieces), at)


class Exchanges:
    """Implements `Link` in this process. Everything runs in callbacks of one loop, so nothing here needs a lock."""

    def __init__(
        self, prompts: PromptSource, endpoint: Endpoint, clock: ScaledClock, request_prefix: str, listener: Listener
    ) -> None:
        self._prompts, self._clock, self._prefix, self._listener = prompts, clock, request_prefix, listener
        self._loop = asyncio.get_running_loop()
        self._client = Client(endpoint, prompts.endpoint)
        self._routing, self._routing_parent = endpoint.routing_headers
        self._flights: dict[int, _Flight] = {}

    async def open(self) -> None:
        await self._client.open()

    def send(self, send: Send) -> None:
        flight = _Flight(send)
        self._flights[send.id] = flight
        stream = send.correlation_id
        headers = (
            f"X-Request-ID: {self._prefix}{send.id:012x}\r\nX-Correlation-ID: {stream}\r\nX-Session-ID: {stream}\r\n"
        )
        if self._routing is not None:
            headers += f"{self._routing}: {stream}\r\n"
            if self._routing_parent is not None and send.parent_correlation_id is not None:
                headers += f"{self._routing_parent}: {send.parent_correlation_id}\r\n"
        body = self._prompts.body(send)
        flight.exchange = self._client.send(headers.encode(), body, self._on_sent, self._on_end, flight)

    def cancel(self, send_id: int, reason: str, ending: Ending) -> None:
        if (flight := self._flights.get(send_id)) is not None and flight.exchange is not None:
            self._client.cancel(flight.exchange, reason, ending)

    def flush(self) -> None:
        """Nothing was kept back."""

    def pump(self) -> None:
        self._slice(deque(flight for flight in self._flights.values() if flight.exchange and flight.exchange.parts))

    async def close(self) -> dict[str, float]:
        await self._client.close()
        return {
            "sockets_peak": float(self._client.sockets_peak),
            "connections_made": float(self._client.connections_made),
        }

    def _on_sent(self, exchange: Exchange) -> None:
        flight: _Flight = exchange.tag
        assert exchange.sent_ns is not None
        try:
            self._listener.sent(flight.send.id, self._clock.at(exchange.sent_ns))
        except Exception as error:
            self._listener.broke(error)

    def _on_end(self, exchange: Exchange) -> None:
        flight: _Flight = exchange.tag
        self._client.finished(exchange)
        try:
            flight.exchange = exchange
            row = self._row(flight, exchange)
            del self._flights[flight.send.id]
            flight.exchange = exchange.tag = None  # no cycle: both are freed now, and not by a collection in mid-window
            self._listener.ended(row, row[SENT] is None and exchange.ending is Ending.UNSENT)
        except Exception as error:
            self._listener.broke(error)

    def _row(self, flight: _Flight, exchange: Exchange) -> Row:
        flight.decode()
        decoder = flight.decoder or ResponseDecoder(exchange.status or 0)
        if not decoder.streaming:
            decoder.content_type = exchange.header(b"content-type") or ""
        assert exchange.ending is not None
        return make_row(flight.send, exchange, decoder.close(exchange.ending, exchange.reason), self._clock)

    def _slice(self, waiting: deque[_Flight]) -> None:
        until = time.monotonic_ns() + _SLICE_NS
        try:
            while waiting:
                flight = waiting.popleft()
                if flight.exchange is None:  # ended since this pump began
                    continue
                flight.decode()
                if time.monotonic_ns() > until:
                    self._loop.call_soon(self._slice, waiting)
                    return
        except Exception as error:
            self._listener.broke(error)
