"""The requests under way in one process: sends become bytes, bytes become rows.

While answers arrive, reads are kept with their stamps. Everything else, which is sending, taking apart answers that may
be over and, twenty times a second, what has gathered of the others, is work that waits: it is done in slices between
which the loop polls its sockets, so that no stamp is later than a slice. While answers stream in, a slice is a quarter
of a millisecond. Where every answer comes in one read it is 3 ms: a server that is asked one request at a time falls
asleep between two, and waking it is dear. Where the sockets alone keep the loop busy for longer, work gets a third of
its time, or requests would never leave. (The time of an answer's end is the stamp of its last byte, so a late report
moves nothing but a send that is due at once.)
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count
from typing import Protocol

from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import Row
from ridgeline.replay.connection import Exchange, State, now
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.http import Client
from ridgeline.replay.openai_stream import Ending, ResponseDecoder
from ridgeline.replay.recording import make_row
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.prompts.api import PromptSource

PUMP_S = 0.05
_STREAMING_NS, _WHOLE_NS = 250_000, 3_000_000  # slices
_FEW = 4  # sends and reads, whatever the clock says
_OPENED = 8  # new connections in a slice: most of what they take comes after it


class Listener(Protocol):
    """What is told of requests. Called on the loop; what `sent` and `ended` raise goes to `broke`."""

    def sent(self, send_id: int, at_ns: int) -> None:
        """The last byte is with the kernel; simulated time."""

    def ended(self, row: Row, unsent: bool) -> None:
        """The request is over. `unsent`: there was no connection for it."""

    def turn(self) -> None:
        """Several may have ended by now, and what follows from that may be done before the sockets are polled again."""

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


class Exchanges:
    """Implements `Link` in this process, and `Owner`. Everything runs in callbacks of one loop, so nothing here needs a
    lock."""

    def __init__(
        self, prompts: PromptSource, endpoint: Endpoint, clock: ScaledClock, request_prefix: str, listener: Listener
    ) -> None:
        self._prompts, self._clock, self._prefix, self._listener = prompts, clock, request_prefix, listener
        self._loop = asyncio.get_running_loop()
        self._client = Client(endpoint, prompts.endpoint)
        self._routing, self._routing_parent = endpoint.routing_headers
        self._under_way: dict[int, Exchange] = {}
        self._to_send: deque[Exchange] = deque()
        self._to_read: deque[Exchange] = deque()  # may be over
        self._gathered: deque[Exchange] = deque()  # are not, as far as one knows
        self._called = False  # a slice is coming
        self._called_ns = 0  # since when
        self._slice_ns = _STREAMING_NS

    async def open(self) -> None:
        await self._client.open()

    def send(self, send: Send) -> None:
        exchange = self._under_way[send.id] = Exchange(self, send)
        self._to_send.append(exchange)

    def cancel(self, send_id: int, reason: str, ending: Ending) -> None:
        if (exchange := self._under_way.get(send_id)) is not None:
            self._client.cancel(exchange, reason, ending)

    def flush(self) -> None:
        if not self._called:
            self._work()

    def pump(self) -> None:
        if not self._gathered:
            self._gathered.extend([each for each in self._under_way.values() if each.reads and not each.ready])
            self._slice_ns = _STREAMING_NS if self._gathered else _WHOLE_NS
        self._call()

    async def close(self) -> dict[str, float]:
        for exchange in list(self._under_way.values()):
            self._client.cancel(exchange, "the client was closed")
        await self._client.close()
        return {
            "sockets_peak": float(self._client.sockets_peak),
            "connections_made": float(self._client.connections_made),
        }

    # -- what a connection tells ---------------------------------------------------------------------------------

    def on_sent(self, exchange: Exchange) -> None:
        assert exchange.sent_ns is not None
        try:
            self._listener.sent(exchange.tag.id, self._clock.at(exchange.sent_ns))
        except Exception as error:
            self._listener.broke(error)

    def on_ready(self, exchange: Exchange) -> None:
        self._to_read.append(exchange)
        if not self._called:
            self._call()

    def on_end(self, exchange: Exchange) -> None:
        self._client.finished(exchange)
        try:
            send: Send = exchange.tag
            row = self._row(send, exchange)
            del self._under_way[send.id]
            self._listener.ended(row, exchange.sent_ns is None and exchange.ending is Ending.UNSENT)
        except Exception as error:
            self._listener.broke(error)

    # -- work ----------------------------------------------------------------------------------------------------

    def _call(self) -> None:
        if not self._called:
            self._called = True
            self._called_ns = now()
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        """One slice, taking turns, so that neither sends nor answers starve the others."""
        at = now()
        until = at + max(self._slice_ns, (at - self._called_ns) // 2 if self._called else 0)
        self._called = False
        to_send, to_read, gathered = self._to_send, self._to_read, self._gathered
        opened = 0
        try:
            for done in count(1):
                if to_send:
                    opened += self._send(to_send.popleft())
                if to_read:
                    _read(to_read.popleft())
                elif gathered:
                    _read(gathered.popleft())
                elif not to_send:
                    break
                # Also where another process had the core meanwhile, a few are done between two polls.
                if opened == _OPENED or (not done % _FEW and now() > until):
                    self._call()
                    break
            self._listener.turn()
        except Exception as error:
            self._listener.broke(error)

    def _send(self, exchange: Exchange) -> bool:
        """Whether a connection had to be opened for it."""
        if exchange.state is not State.QUEUED:  # cancelled before its turn
            return False
        send: Send = exchange.tag
        stream = send.correlation_id
        headers = (
            f"X-Request-ID: {self._prefix}{send.id:012x}\r\nX-Correlation-ID: {stream}\r\nX-Session-ID: {stream}\r\n"
        )
        if self._routing is not None:
            headers += f"{self._routing}: {stream}\r\n"
            if self._routing_parent is not None and send.parent_correlation_id is not None:
                headers += f"{self._routing_parent}: {send.parent_correlation_id}\r\n"
        return self._client.send(exchange, headers, self._prompts.body(send))

    def _row(self, send: Send, exchange: Exchange) -> Row:
        decoder = exchange.decoder or ResponseDecoder(exchange.status or 0)
        if not decoder.streaming:
            decoder.content_type = exchange.header(b"content-type") or ""
        assert exchange.ending is not None
        return make_row(send, exchange, decoder.close(exchange.ending, exchange.reason), self._clock)


def _read(exchange: Exchange) -> None:
    if (connection := exchange.connection) is not None and exchange.reads:
        connection.read(exchange)
