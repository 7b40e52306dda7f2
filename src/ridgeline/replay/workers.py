"""Several processes send and receive for one pacing machine (design/workers.md).

The machine stays in the driver's process: every rule that looks across lanes (idle caps, dealing sessions, the common
start, the end) sees all of them, so its decisions cannot depend on the number of workers. A worker owns every n-th
lane: it builds their bodies, keeps their connections, stamps and decodes. Sends and rows travel as msgpack frames over
a socket pair; all processes read the same monotonic clock, from one origin.

Workers are forked before the driver starts a thread or a loop, so that sessions and prompts are shared, not copied.
They end when the driver's end of their socket closes, however the driver dies.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import msgspec

from ridgeline.core.clock import ScaledClock
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.record import Outcome, Row
from ridgeline.replay.collector import quiet_collector
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.exchanges import PUMP_S, Exchanges, Listener
from ridgeline.replay.health import Health
from ridgeline.replay.openai_stream import Ending
from ridgeline.replay.recording import FLAGS, OUTCOME, lost_row
from ridgeline.trace.pacing.api import Send
from ridgeline.trace.prompts.api import PromptSource
from ridgeline.trace.session import Session, TurnKey

_HEAD = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_CLOSE_PATIENCE_S = 10.0


class WorkerLost(EnvironmentFailed):
    """A worker process ended before it was told to."""


class WorkerPool:
    """`with WorkerPool(count, sessions, prompts, endpoint) as pool`, then `run_replay(..., workers=pool)` once."""

    def __init__(self, count: int, sessions: Sequence[Session], prompts: PromptSource, endpoint: Endpoint) -> None:
        if count < 1:
            raise ValueError(f"a pool needs a worker, not {count}")
        self._count = count
        self._sessions = {session.id: session for session in sessions}
        self._prompts, self._endpoint = prompts, endpoint
        self._sockets: list[socket.socket] = []
        self.pids: list[int] = []

    def __enter__(self) -> WorkerPool:
        gc.collect()
        gc.freeze()  # a collection in a child would touch, and so copy, every page of the sessions
        for _ in range(self._count):
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                for each in (*self._sockets, ours):
                    each.close()
                self._child(theirs)
            theirs.close()
            self._sockets.append(ours)
            self.pids.append(pid)
        gc.unfreeze()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._sockets:
            each.close()
        for pid in self.pids:
            os.waitpid(pid, 0)  # each ends when its socket does

    def link(self, clock: ScaledClock, request_prefix: str, listener: Listener, health: Health) -> Workers:
        """The pool as the driver's link, on the running loop."""
        return Workers(self._sockets, clock, request_prefix, listener, health)

    def _child(self, ours: socket.socket) -> None:
        """Serve one replay, then leave without running what belongs to the parent."""
        import uvloop

        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells all; the driver decides
            uvloop.run(_Worker(self._sessions, self._prompts, self._endpoint).serve(ours))
            code = 0
        finally:
            os._exit(code)


class _Frames(asyncio.Protocol):
    """Length-prefixed msgpack over a socket."""

    def __init__(self, on_frame: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        self._on_frame, self._on_end = on_frame, on_end
        self._kept = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        data = self._kept + data if self._kept else data
        at = 0
        while len(data) - at >= _HEAD.size:
            (size,) = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + size
            if end > len(data):
                break
            self._on_frame(_decode(data[at + _HEAD.size : end]))
            at = end
        self._kept = data[at:]

    def connection_lost(self, error: Exception | None) -> None:
        self._on_end()

    def write(self, frame: Any) -> None:
        if self._transport is not None and not self._transport.is_closing():
            body = _encode(frame)
            self._transport.write(_HEAD.pack(len(body)) + body)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Workers:
    """Implements `Link` over the pool's sockets: the driver's side."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        clock: ScaledClock,
        request_prefix: str,
        listener: Listener,
        health: Health,
    ) -> None:
        self._sockets, self._clock, self._prefix = sockets, clock, request_prefix
        self._listener, self._health = listener, health
        self._loop = asyncio.get_running_loop()
        self._frames: list[_Frames] = []
        self._waiting: list[list[Any]] = [[] for _ in sockets]  # sends and cancels of this moment
        self._held: list[dict[int, Send]] = [{} for _ in sockets]
        self._owner: dict[int, int] = {}
        self._ready = [self._loop.create_future() for _ in sockets]
        self._closed = [self._loop.create_future() for _ in sockets]
        self._counts = {"sockets_peak": 0.0, "connections_made": 0.0}

    async def open(self) -> None:
        for number, each in enumerate(self._sockets):
            made = _Frames(self._on_frame(number), self._on_end(number))
            await self._loop.create_connection(lambda made=made: made, sock=each)  # type: ignore[misc]
            self._frames.append(made)
            made.write(["start", self._clock.origin_ns, self._clock.speed, self._prefix])
        await asyncio.gather(*self._ready)

    def send(self, send: Send) -> None:
        number = send.lane % len(self._frames)
        self._held[number][send.id] = send
        self._owner[send.id] = number
        self._waiting[number].append(
            (
                send.id,
                send.phase,
                send.lane,
                send.tree,
                send.session.id,
                send.key.conversation,
                send.key.turn,
                send.max_tokens,
                send.scheduled_ns,
                send.correlation_id,
                send.parent_correlation_id,
                send.marker,
            )
        )

    def cancel(self, send_id: int, reason: str, ending: Ending) -> None:
        number = self._owner.get(send_id)
        if number is not None:
            self._waiting[number].append((send_id, reason, ending.value))

    def flush(self) -> None:
        for frames, waiting in zip(self._frames, self._waiting, strict=False):
            if waiting:
                frames.write(["do", waiting])
                waiting.clear()

    def pump(self) -> None:
        """The workers decode by a clock of their own."""

    async def close(self) -> dict[str, float]:
        self.flush()
        for frames in self._frames:
            frames.write(["close"])
        opened = self._closed[: len(self._frames)]
        if opened:
            await asyncio.wait(opened, timeout=_CLOSE_PATIENCE_S)
        for frames in self._frames:
            frames.close()
        for future in self._ready:
            future.cancel()
        return self._counts

    def _on_frame(self, number: int) -> Callable[[Any], None]:
        def take(frame: Any) -> None:
            try:
                getattr(self, f"_{frame[0]}")(number, *frame[1:])
            except Exception as error:
                self._listener.broke(error)

        return take

    def _on_end(self, number: int) -> Callable[[], None]:
        def lost() -> None:
            if self._closed[number].done():
                return
            self._closed[number].set_result(None)
            error = WorkerLost(f"worker process {number} ended unexpectedly")
            if not self._ready[number].done():
                self._ready[number].set_exception(error)
            held, self._held[number] = self._held[number], {}
            now = self._clock.now_ns()
            for send in held.values():  # nothing is lost: what it carried is recorded
                self._owner.pop(send.id, None)
                self._listener.ended(lost_row(send, now, str(error)), False)
            self._listener.broke(error)

        return lost

    # Frames that a worker sends, by their first word.

    def _opened(self, number: int, problem: list[str | None] | None) -> None:
        if problem is None:
            self._ready[number].set_result(None)
        else:
            self._ready[number].set_exception(EnvironmentFailed(str(problem[0]), hint=problem[1]))

    def _events(self, number: int, events: list[Any]) -> None:
        for event in events:
            if len(event) == 2 and isinstance(event[0], int):
                if event[0] in self._held[number]:
                    self._listener.sent(*event)
                continue
            row, unsent = event
            del self._held[number][row[0]], self._owner[row[0]]
            row[OUTCOME] = Outcome(row[OUTCOME])
            row[FLAGS] = tuple(row[FLAGS])
            self._listener.ended(tuple(row), unsent)

    def _bug(self, number: int, text: str) -> None:
        self._listener.broke(RuntimeError(f"in worker process {number}: {text}"))

    def _done(self, number: int, counts: dict[str, float], loop_lags: list[int], cpu_share: float) -> None:
        for name, value in counts.items():
            self._counts[name] += value
        self._health.absorb(loop_lags, cpu_share)
        self._closed[number].set_result(None)


class _Worker:
    """The other side: one replay's exchanges, driven by frames. Implements `Listener`."""

    def __init__(self, sessions: dict[str, Session], prompts: PromptSource, endpoint: Endpoint) -> None:
        self._sessions, self._prompts, self._endpoint = sessions, prompts, endpoint
        self._events: list[Any] = []
        self._exchanges: Exchanges | None = None
        self._health: Health | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, ours: socket.socket) -> None:
        """Until the driver says so, or is gone."""
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self._loop.set_exception_handler(
            lambda loop, context: self._tell_bug(context.get("message", "loop error"), context)
        )
        _, self._frames = await self._loop.create_connection(lambda: _Frames(self._take, self._gone), sock=ours)
        with quiet_collector():
            await self._over

    def sent(self, send_id: int, at_ns: int) -> None:
        self._tell((send_id, at_ns))

    def ended(self, row: Row, unsent: bool) -> None:
        self._tell((row, unsent))

    def turn(self) -> None:
        """The driver hears of it when the loop turns."""

    def broke(self, error: Exception) -> None:
        self._tell_bug(f"{type(error).__name__}: {error}", {})

    def _tell(self, event: tuple[Any, Any]) -> None:
        """Events of one turn of the loop travel together."""
        if not self._events:
            self._loop.call_soon(self._flush)
        self._events.append(event)

    def _flush(self) -> None:
        if self._events:
            self._frames.write(["events", self._events])
            self._events.clear()

    def _tell_bug(self, text: str, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._frames.write(["bug", f"{text}: {error}" if error else text])

    def _gone(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _take(self, frame: Any) -> None:
        try:
            word, *rest = frame
            if word == "do":
                self._do(rest[0])
            else:
                task = self._loop.create_task(self._start(*rest) if word == "start" else self._close())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except Exception as error:
            self.broke(error)

    async def _start(self, origin_ns: int, speed: float, prefix: str) -> None:
        clock = ScaledClock(origin_ns, speed)
        self._exchanges = Exchanges(self._prompts, self._endpoint, clock, prefix, self)
        try:
            await self._exchanges.open()
        except EnvironmentFailed as error:
            self._frames.write(["opened", [error.message, error.hint]])
            return
        self._health = Health(self._loop, clock)
        self._health.start()
        self._pump()
        self._frames.write(["opened", None])

    async def _close(self) -> None:
        counts: dict[str, float] = {}
        lags: list[int] = []
        share = 0.0
        if self._exchanges is not None:
            counts = await self._exchanges.close()
        if self._health is not None:
            self._health.stop()
            lags, share = self._health.own()
        self._flush()
        self._frames.write(["done", counts, lags, share])

    def _pump(self) -> None:
        if self._exchanges is not None and not self._over.done():
            self._loop.call_later(PUMP_S, self._pump)
            self._exchanges.pump()

    def _do(self, actions: list[Any]) -> None:
        assert self._exchanges is not None
        for action in actions:
            if len(action) == 3:
                send_id, reason, ending = action
                self._exchanges.cancel(send_id, reason, Ending(ending))
                continue
            send_id, phase, lane, tree, session, conversation, turn, *rest = action
            key = TurnKey(conversation, turn)
            self._exchanges.send(Send(send_id, phase, lane, tree, self._sessions[session], key, *rest))
        self._exchanges.flush()
