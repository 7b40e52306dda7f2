"""The real-time driver: the engine's steps end when the monotonic clock, scaled by the speed, says so.

Nothing sleeps and nothing is timed by counting: every event carries its simulated time, and when the process was late
it works through what has become due in order, at the times it was due. How late it was is measured, so that a sweep
can tell when the emulation could not keep pace.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ridgeline.core.clock import Clock
from ridgeline.core.units import nanoseconds
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.engine import Engine
from ridgeline.simulate.request import Request
from ridgeline.simulate.router import Router
from ridgeline.simulate.scheduler import Token

_SLICE_NS = 20_000_000  # real time after which sockets get their turn again


class Listener(Protocol):
    """Who waits for a request's tokens."""

    rank: int | None  # asked for, or chosen when the request reached the engine
    key: str | None  # affinity

    def token(self, request: Request, last: bool) -> None: ...

    def flush(self) -> None: ...


class Pump:
    """Moves requests and tokens between listeners and an engine. It wants `ring` called at the simulated times that it
    gives to `wake`; being called late or too often does no harm."""

    def __init__(self, engine: Engine, clock: Clock, wake: Callable[[int | None], None], *, router: str) -> None:
        self.engine = engine
        self.clock = clock
        self.lag_s = 0.0  # simulated seconds by which the last step was handled too late
        self.worst_lag_s = 0.0
        self.total_lag_s = 0.0  # over all steps: with their number, the mean of any window
        self._wake = wake
        self._router = Router(router, engine.ranks)
        self._listeners: dict[int, Listener] = {}
        self._arrivals: list[tuple[int, int, Request]] = []
        self._replies: deque[tuple[int, list[list[Token]]]] = deque()
        self._serial = 0
        price = engine.price
        self._reply_ns = nanoseconds(price.p.reply_s) if isinstance(price, StepCost) else 0

    def submit(self, make: Callable[[int], Request], listener: Listener) -> Request:
        """Take a request in now; it reaches its rank after the server's own work on it. `make` gets the serial."""
        request = make(self._serial)
        now = self.clock.now_ns()
        at = now + nanoseconds(self.engine.price.frontend_s(request.prompt))
        self._listeners[request.key] = listener
        heapq.heappush(self._arrivals, (at, self._serial, request))
        self._serial += 1
        self._wake(self._next())
        return request

    def abort(self, request: Request) -> None:
        """The client went away."""
        listener = self._listeners.pop(request.key, None)
        if listener is None:
            return
        waiting = [item for item in self._arrivals if item[2] is request]
        if waiting:
            self._arrivals.remove(waiting[0])
            heapq.heapify(self._arrivals)
        elif listener.rank is not None:
            self.engine.abort(listener.rank, request)

    def ring(self) -> None:
        """Work through everything that is due, in the order of simulated time."""
        started = time.monotonic_ns()
        touched: dict[int, Listener] = {}
        while (due := self._next()) is not None and due <= self.clock.now_ns():
            if self._replies and self._replies[0][0] == due:
                self._deliver(self._replies.popleft()[1], touched)
            elif self.engine.ends_at == due:
                self.lag_s = (self.clock.now_ns() - due) / 1e9
                self.worst_lag_s = max(self.worst_lag_s, self.lag_s)
                self.total_lag_s += self.lag_s
                step = self.engine.finish()
                self._replies.append((due + self._reply_ns, step.tokens))
            else:
                while self._arrivals and self._arrivals[0][0] == due:
                    self._arrive(heapq.heappop(self._arrivals)[2], due)
                self.engine.kick(due)
            if time.monotonic_ns() - started > _SLICE_NS:
                break
        for listener in touched.values():
            listener.flush()
        self._wake(self._next())

    def _arrive(self, request: Request, now: int) -> None:
        listener = self._listeners[request.key]
        blocks = request.hashes[: request.prompt // self.engine.limits.block_size]
        rank = listener.rank if listener.rank is not None else self._router.pick(listener.key, blocks)
        listener.rank = rank
        self.engine.submit(rank, request, now)

    def _deliver(self, ranks: list[list[Token]], touched: dict[int, Listener]) -> None:
        listeners = self._listeners
        for tokens in ranks:
            for request, last, count, _ in tokens:
                listener = listeners.get(request.key)
                if listener is None:
                    continue
                if last:
                    del listeners[request.key]
                touched[request.key] = listener
                for _ in range(count - 1):
                    listener.token(request, False)
                listener.token(request, last)

    def _next(self) -> int | None:
        """The earliest thing to come. A reply due at the same time as a step's end goes first."""
        times = [self._replies[0][0]] if self._replies else []
        if (wakes := self.engine.wakes_at) is not None:
            times.append(wakes)
        if self._arrivals:
            times.append(self._arrivals[0][0])
        return min(times, default=None)
