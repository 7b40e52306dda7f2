"""The HTTP client: a pool of our own connections on the running loop, one endpoint, no hidden cap.

Why not a kept client library: the load is one request shape on HTTP/1.1, and what is measured is the moment the last
request byte leaves and the moment each answer byte arrives. Libraries put queues, tasks and copies between those
moments and us (measured: eight times the CPU per request, and bursts that inflate first-token times). httptools does
the protocol's parsing, uvloop the IO.

A request is never sent twice: no retries, no redirects, `Retry-After` is recorded and not obeyed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import socket
import ssl

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.replay.connection import Connection, Exchange, State, now
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.framing import KnownHead
from ridgeline.replay.openai_stream import Ending

_WATCH_S = 0.25  # how often silence is looked for
_DESCRIPTORS = 4096


class Client:
    """Requests to one endpoint; implements `Pool`. Must be opened and closed on the loop it works on."""

    def __init__(self, endpoint: Endpoint, path: str) -> None:
        self._endpoint = endpoint
        self._head = endpoint.head(path).decode("latin-1")
        self._loop = asyncio.get_running_loop()
        self._tls = _tls_context(endpoint) if endpoint.tls else None
        self._address = endpoint.host
        self._reuse_ns = round(endpoint.idle_reuse_s * 1e9)
        self.known_head = KnownHead()
        self._idle: list[Connection] = []  # the most recently used last
        self._open: set[Connection] = set()
        self._tasks: dict[Exchange, asyncio.Task[None]] = {}
        self._active: set[Exchange] = set()
        self._watch: asyncio.TimerHandle | None = None
        self.sockets_peak = 0
        self.connections_made = 0

    async def open(self) -> None:
        """Resolve the host, once. Raises EnvironmentFailed when it has no address."""
        try:
            found = await self._loop.getaddrinfo(
                self._endpoint.host, self._endpoint.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
        except OSError as error:
            raise EnvironmentFailed(
                f"cannot resolve `{self._endpoint.host}`: {error}", hint="check the host of the URL"
            ) from error
        # IPv4 first: servers in containers rarely listen on IPv6, and one refused connect per request is a cost.
        found.sort(key=lambda entry: entry[0] is not socket.AF_INET)
        self._address = str(found[0][4][0])
        _roomy_descriptors()
        self._look()

    def send(self, exchange: Exchange, headers: str, body: list[bytes]) -> bool:
        """Send one request: on an idle connection at once (False), else as soon as a new one is open (True).

        `headers`: this request's own header lines, each ended by CRLF. `on_end` is never called before this returns.
        """
        exchange.started_ns = exchange.last_ns = at = now()
        self._active.add(exchange)
        while self._idle:
            connection = self._idle.pop()
            if connection.closing:
                continue
            if at - connection.idle_since > self._reuse_ns:
                connection.close()
                continue
            exchange.reused = True
            connection.begin(exchange, self._head + headers, body)
            return False
        exchange.state = State.OPENING
        task = self._tasks[exchange] = self._loop.create_task(self._connect(exchange, headers, body))
        task.add_done_callback(self._report)
        return True

    def cancel(self, exchange: Exchange, reason: str | None = None, ending: Ending = Ending.CANCELLED) -> None:
        """End an exchange now; its connection is closed, because its answer may still be coming."""
        if (task := self._tasks.pop(exchange, None)) is not None:
            task.cancel()
        if (connection := exchange.connection) is not None:
            connection.read(exchange)
            if exchange.state is State.ENDED:  # it was over, and nobody had looked
                return
            connection.drop()
        exchange.end(ending, reason)

    def finished(self, exchange: Exchange) -> None:
        """Forget an ended exchange. Called by the owner from its `on_end`."""
        self._active.discard(exchange)

    @property
    def sockets(self) -> int:
        return len(self._open)

    async def close(self) -> None:
        """Cancel what is under way and close every connection."""
        if self._watch is not None:
            self._watch.cancel()
        for exchange in list(self._active):
            self.cancel(exchange, "the client was closed")
        for connection in list(self._open):
            connection.close()
        # The transports report their closing on the next turns of the loop.
        for _ in range(100):
            if not self._open:
                break
            await asyncio.sleep(0)

    async def _connect(self, exchange: Exchange, headers: str, body: list[bytes]) -> None:
        timeout = self._endpoint.connect_timeout_s
        try:
            async with asyncio.timeout(timeout):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self),
                    self._address,
                    self._endpoint.port,
                    ssl=self._tls,
                    server_hostname=self._endpoint.host if self._tls else None,
                )
        except TimeoutError:
            self._tasks.pop(exchange, None)
            exchange.end(Ending.UNSENT, f"no connection within {timeout:g} s")
            return
        except (OSError, ssl.SSLError) as error:
            self._tasks.pop(exchange, None)
            exchange.end(Ending.UNSENT, f"cannot connect: {error}")
            return
        self._open.add(connection)
        self.connections_made += 1
        self.sockets_peak = max(self.sockets_peak, len(self._open))
        self._tasks.pop(exchange, None)
        if exchange.state is State.ENDED:
            connection.close()
        else:
            connection.begin(exchange, self._head + headers, body)

    def _report(self, task: asyncio.Task[None]) -> None:
        """A bug while connecting must be heard now, not when the task is collected."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "connecting failed by a bug", "exception": error})

    def on_idle(self, connection: Connection) -> None:
        """It may carry another exchange."""
        self._idle.append(connection)

    def on_closed(self, connection: Connection) -> None:
        """It may not."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _look(self) -> None:
        """End exchanges that have been silent, or under way, for too long."""
        self._watch = self._loop.call_later(_WATCH_S, self._look)
        at = now()
        silence, whole = self._endpoint.read_timeout_s, self._endpoint.total_timeout_s
        for exchange in list(self._active):
            if exchange.state is State.OPENING:
                continue  # the connect limit watches it
            if at - exchange.last_ns > silence * 1e9:
                self.cancel(exchange, f"no byte for {silence:g} s", Ending.TIMEOUT)
            elif at - exchange.started_ns > whole * 1e9:
                self.cancel(exchange, f"not answered in full within {whole:g} s", Ending.TIMEOUT)


def _roomy_descriptors() -> None:
    """Have the kernel make this process's table of descriptors large now. It doubles it as it fills, and in a process
    with threads each doubling waits 10 to 20 ms for the other cores, in the middle of a replay's first sends (measured
    at 64, 128, 256 and 512 connections)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        os.close(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, min(_DESCRIPTORS, limit - 1)))
    except OSError:  # no descriptor 0, or none that high: the table grows as it must
        return


def _tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
    except OSError as error:
        raise EnvironmentFailed(f"cannot read the certificates in `{endpoint.ca_file}`: {error}") from error
    if not endpoint.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
