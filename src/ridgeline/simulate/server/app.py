"""Routes of the emulated server, and its life: bind, say so, serve until told to stop."""

from __future__ import annotations

import asyncio
import errno
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ridgeline import __version__
from ridgeline.core.alarm import Alarm
from ridgeline.core.clock import ScaledClock
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.simulate.engine import Engine
from ridgeline.simulate.request import Request
from ridgeline.simulate.server.answers import Stream, answer_words, response, whole_answer
from ridgeline.simulate.server.bodies import Ask, Refusal, block_hashes, parse
from ridgeline.simulate.server.connection import Call, Connection
from ridgeline.simulate.server.page import CONTENT_TYPE, metrics_page
from ridgeline.simulate.server.pump import Pump

_AFFINITY = (b"x-session-id", b"x-correlation-id")


class Live:
    """An answer under way: gathers a connection's bytes of a batch of steps and writes them at once."""

    __slots__ = (
        "_app",
        "_ask",
        "_buffer",
        "_connection",
        "_id",
        "_place",
        "_request",
        "_stream",
        "_words",
        "key",
        "rank",
    )

    def __init__(self, app: App, ask: Ask, connection: Connection, key: str | None, rank: int | None) -> None:
        self._app, self._ask, self._connection = app, ask, connection
        self.key, self.rank = key, rank
        self._id = app.next_id("chatcmpl" if ask.chat else "cmpl")
        self._words = answer_words(ask.tokens, ask.max_tokens, app.seed)
        self._stream = Stream(ask, self._id, app.model, app.created) if ask.stream else None
        self._buffer: list[bytes] = []
        self._place = 0
        size = app.engine.limits.block_size
        hashes = block_hashes(ask.tokens + b"".join(self._words), size)
        self._request = app.pump.submit(lambda serial: self._queue(serial, hashes), self)

    def _queue(self, serial: int, hashes: list[int]) -> Request:
        request = Request(serial, self._ask.prompt_tokens, self._ask.max_tokens, hashes)
        request.reason = self._ask.reason
        if self._ask.transfer.get("do_remote_prefill"):
            request.remote = self._ask.prompt_tokens
        return request

    def token(self, request: Request, last: bool) -> None:
        """The next token is there."""
        stream, place = self._stream, self._place
        self._place = place + 1
        if stream is None:
            if last:
                ask, app = self._ask, self._app
                offer = self._offer(request) if ask.transfer.get("do_remote_decode") and app.offers_kv else None
                body = whole_answer(ask, self._id, app.model, app.created, self._words, self._cached(request), offer)
                self._buffer.append(response(200, body))
            return
        if place == 0:
            self._buffer.append(stream.opening)
        word = self._words[place]
        if last:
            self._buffer.append(stream.closing(word, self._cached(request)))
        elif self._ask.usage_always:
            self._buffer.append(stream.counted(word, place + 1, self._cached(request)))
        else:
            self._buffer.append(stream.token(word))

    def _cached(self, request: Request) -> int:
        """Prompt tokens nobody had to compute: of a prompt whose KV was handed over, those its first engine had."""
        told = self._ask.transfer.get("remote_cached_tokens")
        return told if isinstance(told, int) else request.cached or 0

    def _offer(self, request: Request) -> dict[str, object]:
        """What the engine that decodes must know, in vLLM's words; bytes and cached tokens are ours."""
        handover, size = self._app.engine.handover, self._app.engine.limits.block_size
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_request_id": self._id,
            "remote_bytes": handover.offer(self.rank or 0, request.prompt // size),
            "remote_cached_tokens": request.cached or 0,
        }

    def flush(self) -> None:
        """Write what has gathered."""
        if self._buffer:
            self._connection.write(b"".join(self._buffer))
            self._buffer.clear()
        if self._place == self._ask.max_tokens:
            self._connection.ended()

    def cancel(self) -> None:
        self._app.pump.abort(self._request)


class App:
    """The routes over one engine."""

    def __init__(
        self,
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        *,
        model: str,
        root: str,
        speed: float,
        router: str,
        seed: int,
        offers_kv: bool = False,
        metric_names: str = "vllm",
    ) -> None:
        self.offers_kv, self._metric_names = offers_kv, metric_names
        self.engine, self.model, self.root, self.seed = engine, model, root, seed
        self.clock = ScaledClock.start(speed)
        self.pump = Pump(engine, self.clock, self._wake, router=router)
        self._alarm = Alarm(loop, self.pump.ring)
        self.created = int(time.time())
        self.connections: set[Connection] = set()
        self._count = 0
        self._routes: dict[bytes, tuple[bytes, Callable[[Call, Connection], Live | bytes]]] = {
            b"/v1/chat/completions": (b"POST", lambda call, connection: self._complete(call, connection, chat=True)),
            b"/v1/completions": (b"POST", lambda call, connection: self._complete(call, connection, chat=False)),
            b"/health": (b"GET", lambda call, connection: response(200, b"")),
            b"/v1/models": (b"GET", lambda call, connection: response(200, self._models())),
            b"/version": (
                b"GET",
                lambda call, connection: response(200, msgspec.json.encode({"version": __version__})),
            ),
            b"/metrics": (b"GET", lambda call, connection: self._metrics()),
            b"/reset_prefix_cache": (b"POST", lambda call, connection: self._reset()),
        }

    def connection(self) -> Connection:
        return Connection(self._handle, self.connections)

    def next_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count:016x}"

    def close(self) -> None:
        for connection in list(self.connections):
            connection.close()
        self._alarm.close()

    def _wake(self, at_ns: int | None) -> None:
        self._alarm.set(None if at_ns is None else self.clock.origin_ns + int(self.clock.real_seconds(at_ns) * 1e9))

    def _handle(self, call: Call, connection: Connection) -> Live | bytes:
        route = self._routes.get(call.path)
        if route is None:
            raise Refusal("Not Found", 404, "NotFoundError")
        if call.method != route[0] and (call.method, route[0]) != (b"HEAD", b"GET"):
            raise Refusal("Method Not Allowed", 405, "MethodNotAllowed")
        return route[1](call, connection)

    def _complete(self, call: Call, connection: Connection, *, chat: bool) -> Live:
        ask = parse(call.body, chat=chat, model=self.model, max_model_len=self.engine.limits.max_model_len)
        key = next((value.decode("latin-1") for name in _AFFINITY if (value := call.headers.get(name))), None)
        return Live(self, ask, connection, key, self._asked_rank(call))

    def _asked_rank(self, call: Call) -> int | None:
        text = call.headers.get(b"x-data-parallel-rank")
        if text is None:
            return None
        count = len(self.engine.ranks)
        if not text.isdigit() or int(text) >= count:
            raise Refusal(f"data_parallel_rank {text.decode('latin-1')} is out of range [0, {count}).")
        return int(text)

    def _models(self) -> bytes:
        card = {
            "id": self.model,
            "object": "model",
            "created": self.created,
            "owned_by": "ridgeline",
            "root": self.root,
            "parent": None,
            "max_model_len": self.engine.limits.max_model_len,
        }
        return msgspec.json.encode({"object": "list", "data": [card]})

    def _metrics(self) -> bytes:
        return response(200, self._page(), CONTENT_TYPE)

    def _page(self) -> bytes:
        return metrics_page(self.engine, self.pump, self.model, self.clock.speed, self._metric_names)

    def _reset(self) -> bytes:
        for scheduler in self.engine.ranks:
            scheduler.pool.forget_all()
        return response(200, b"")


async def serve(
    engine: Engine,
    *,
    model: str,
    root: str,
    host: str = "127.0.0.1",
    port: int = 0,
    port_file: Path | None = None,
    speed: float = 1.0,
    router: str = "session",
    seed: int = 0,
    offers_kv: bool = False,
    metric_names: str = "vllm",
) -> None:
    """Serve until SIGTERM or SIGINT. `offers_kv`: prompts may be computed here for another engine. `metric_names`:
    "vllm" or "sglang", whose names `/metrics` has.

    Prints one line to stdout when listening; `port_file` gets the port, written as a whole. Raises EnvironmentFailed
    when the port cannot be had, and whatever a step of the engine raised: a server that goes on without its engine
    would leave every client waiting."""
    loop = asyncio.get_running_loop()
    app = App(
        engine, loop, model=model, root=root, speed=speed, router=router, seed=seed, offers_kv=offers_kv,
        metric_names=metric_names,
    )  # fmt: skip
    try:
        server = await loop.create_server(app.connection, host, port, backlog=4096)
    except OSError as error:
        app.close()
        taken = error.errno == errno.EADDRINUSE
        hint = "choose another port, or 0 for a free one" if taken else None
        raise EnvironmentFailed(f"cannot listen on {host}:{port}: {error.strerror or error}", hint=hint) from error
    bound = server.sockets[0].getsockname()[1]
    stop = asyncio.Event()
    bugs: list[BaseException] = []

    def on_bug(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if isinstance(error := context.get("exception"), Exception):
            bugs.append(error)
            stop.set()

    loop.set_exception_handler(on_bug)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if port_file is not None:
        part = port_file.with_name(f"{port_file.name}.part")
        part.write_text(f"{bound}\n")
        part.replace(port_file)
    sys.stdout.write(f"listening on http://{host}:{bound} model {model}\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()
    app.close()
    if bugs:
        raise bugs[0]
