"""Drives a pacing machine against a real endpoint, on one event loop, and returns what happened.

The loop's only work during the measured window is: hand due requests to the kernel, stamp what comes back, and tell
the pacing machine what ended. Decoding is deferred and sliced (exchanges.py), so no stamp waits for more than a slice,
memory holds the bytes of 50 ms and not of the whole run, and nothing is left to do at the end. A decoding thread was
rejected: it takes the interpreter for up to 5 ms at a time on the very core that stamps. A decoding process was
rejected: copying the bytes to it costs more than the scan. Where one core is not enough, whole exchanges move to other
processes (workers.py), and the pacing machine stays here.

Sending: a request counts as sent when its last byte is with the kernel; `scheduled_ns` is the machine's wish, and the
difference is measured (health.py).

Affinity: every request carries its stream in X-Session-ID and X-Correlation-ID and an X-Request-ID of its own. Routers
hash the first session header they know; vllm-router 0.1.14 takes X-Session-ID before all others (measured: a unique
X-Request-ID beside it moves no request, alone it moves all of them). A router that knows neither gets its own header
(`Endpoint.session_header`).
"""

from __future__ import annotations

import asyncio
import math
import resource
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ridgeline.core.alarm import Alarm
from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import Outcome, Record, Replay, Row, ServerSample, from_row
from ridgeline.replay.collector import quiet_collector
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.exchanges import PUMP_S, Exchanges, Link
from ridgeline.replay.health import Health
from ridgeline.replay.openai_stream import Ending
from ridgeline.replay.progress import Progress, Tally
from ridgeline.replay.recording import END, ERROR, OUTCOME
from ridgeline.replay.scrape import Scraper
from ridgeline.replay.workers import WorkerLost, WorkerPool
from ridgeline.trace.pacing.api import Pacer
from ridgeline.trace.prompts.api import PromptSource

_ALIVE_S = 0.25
_UNSENT_LIMIT = 20  # requests in a row that found no connection: nobody is there, whatever the load wants next

Alive = Callable[[], "bool | str"]
OnRows = Callable[[Sequence[Row]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How a replay is run, apart from what is sent and when. Real seconds.

    `keep_records` False: records go only to `on_rows` and `on_record`, and `Replay.records` is empty, so that memory
    stays flat. `on_sample` gets the scrapes likewise, each in its endpoint's thread, and `Replay.samples` is empty.
    """

    progress_s: float = 1.0
    keep_records: bool = True
    scrape_urls: tuple[str, ...] = ()  # metrics pages of the servers
    scrape_s: float = 1.0
    on_sample: Callable[[ServerSample], None] | None = None
    stored: Mapping[str, Any] | None = None  # anything else to store with the result


def run_replay(
    pacer: Pacer,
    prompts: PromptSource,
    endpoint: Endpoint,
    *,
    speed: float = 1.0,
    settings: ReplaySettings | None = None,
    on_rows: OnRows | None = None,
    on_record: Callable[[Record], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    alive: Alive | None = None,
    workers: WorkerPool | None = None,
) -> Replay:
    """`replay` for callers without an event loop: makes one (uvloop) and blocks until the replay is over."""
    import uvloop

    async def main() -> Replay:
        return await replay(
            pacer,
            prompts,
            endpoint,
            clock=ScaledClock.start(speed),
            settings=settings,
            on_rows=on_rows,
            on_record=on_record,
            on_progress=on_progress,
            alive=alive,
            workers=workers,
        )

    return uvloop.run(main())


async def replay(
    pacer: Pacer,
    prompts: PromptSource,
    endpoint: Endpoint,
    *,
    clock: ScaledClock | None = None,
    settings: ReplaySettings | None = None,
    on_rows: OnRows | None = None,
    on_record: Callable[[Record], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    alive: Alive | None = None,
    workers: WorkerPool | None = None,
) -> Replay:
    """Run `pacer` to its end against `endpoint`.

    `on_rows` gets what ended since it was last called, twenty times a second, in the order of ending (see
    `core.record.Row`), and `on_record` the same as records, one by one; `on_progress` gets a `Progress` every
    `settings.progress_s`. All run on the loop and must be quick. `alive` is asked four times a second, and after a
    failed connection: True goes on, False or a text (the reason) ends the replay at once with `Replay.aborted` set; so
    do twenty requests in a row that found no connection. `workers`: processes that send and receive in this one's
    place (made for the same prompts and endpoint).

    Raises EnvironmentFailed when the endpoint's host cannot be resolved. A server that refuses connections is not an
    exception: its requests become records with outcome `client_error`.
    """
    drive = _Drive(pacer, prompts, endpoint, clock or ScaledClock.start(), settings or ReplaySettings(), workers)
    drive.on_rows, drive.on_record, drive.on_progress, drive.alive = on_rows, on_record, on_progress, alive
    with quiet_collector():
        return await drive.run()


class _Drive:
    """One replay: everything runs in callbacks of one loop, so nothing here needs a lock."""

    def __init__(
        self,
        pacer: Pacer,
        prompts: PromptSource,
        endpoint: Endpoint,
        clock: ScaledClock,
        settings: ReplaySettings,
        workers: WorkerPool | None,
    ) -> None:
        self.on_rows: OnRows | None = None
        self.on_record: Callable[[Record], None] | None = None
        self.on_progress: Callable[[Progress], None] | None = None
        self.alive: Alive | None = None
        self._pacer, self._prompts, self._clock, self._settings = pacer, prompts, clock, settings
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._loop, self._step)
        self._health = Health(self._loop, clock)
        self._tally = Tally()
        self._scraper = (
            Scraper(settings.scrape_urls, settings.scrape_s, clock, settings.on_sample)
            if settings.scrape_urls
            else None
        )
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._flying: dict[int, int] = {}  # send id -> lane
        self._lanes: set[int] = set()
        self._ended: list[Row] = []  # since the last settling
        self._kept: list[Row] = []
        self._sent = 0
        self._unsent = 0  # in a row
        self._step_due = False
        self._marked = 0  # boundaries of phases that the scraper knows
        self._aborted: str | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # A version-4 UUID whose last part counts requests: unique in the world, and found again from the record.
        self._request_prefix = str(uuid.uuid4())[:24]
        # The wall clock names the replay's origin, once; every other time is a difference on the monotonic clock.
        self._origin_unix_ns = time.time_ns() - (time.monotonic_ns() - clock.origin_ns)
        self._link: Link = (
            Exchanges(prompts, endpoint, clock, self._request_prefix, self)
            if workers is None
            else workers.link(clock, self._request_prefix, self, self._health)
        )

    async def run(self) -> Replay:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._loop.set_exception_handler(self._on_bug)
        try:
            await self._link.open()
            self._health.start()
            if self._scraper:
                self._scraper.start()
            self._every("alive", _ALIVE_S, self._ask_alive)
            self._every("pump", PUMP_S, self._pump)
            if self.on_progress is not None:
                self._every("progress", self._settings.progress_s, self._show)
            self._pacer.begin(self._clock.now_ns())
            self._step()
            await self._over
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._alarm.close()
            self._health.stop()
            self._over.cancel()  # records of what is cancelled now must not step the machine again
            sockets = await self._link.close()
            self._loop.set_exception_handler(None)
            samples = await asyncio.to_thread(self._scraper.stop) if self._scraper else ()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            self._settle()
        if self.on_progress is not None:
            self.on_progress(self._progress())
        extra = {**sockets, "sockets_limit": float(hard)}
        return Replay(
            records=tuple(from_row(row) for row in sorted(self._kept)),  # request ids come first in a row
            phases=self._pacer.phases,
            speed=self._clock.speed,
            samples=samples,
            health=self._health.summary(extra),
            settings={
                **(self._settings.stored or {}),
                "endpoint": {**asdict(self._endpoint), "headers": sorted(self._endpoint.headers)},
                **({"metrics_pages": self._scraper.about} if self._scraper is not None else {}),
                "request_id_prefix": self._request_prefix,
                "origin_unix_ns": self._origin_unix_ns,
            },
            prompt_mode=self._prompts.mode,
            aborted=self._aborted or self._pacer.aborted,
        )

    # -- the machine -----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Ask the machine what to do now, do it, and set the alarm for its next wish."""
        self._step_due = False
        if self._over.done():
            return
        try:
            actions = self._pacer.advance(self._clock.now_ns())
            if self._scraper is not None:
                self._mark(self._scraper)
            for send_id in actions.cancels:
                self._link.cancel(send_id, "cancelled at the end of the grace period", Ending.CANCELLED)
            for send in actions.sends:
                self._flying[send.id] = send.lane
                self._lanes.add(send.lane)
                self._sent += 1
                self._link.send(send)
            self._link.flush()
            if self._pacer.aborted is not None:
                self._stop(self._pacer.aborted)
            elif self._pacer.finished and not self._flying:
                self._finish()
            elif (at := self._pacer.next_at()) is not None:
                self._alarm.set(self._monotonic(at))
            else:
                self._alarm.set(None)
        except Exception as error:
            self.broke(error)

    def _mark(self, scraper: Scraper) -> None:
        """Have the servers read where the measured window begins and where it closes; the end of the replay is the
        end of the drain."""
        phases = self._pacer.phases
        passed = [at for at in (phases.profiling_start_ns, phases.profiling_end_ns) if at is not None]
        for at in passed[self._marked :]:
            scraper.mark(at)
        self._marked = len(passed)

    def _step_soon(self) -> None:
        """Step once after the answers of this turn of the loop, however many ended."""
        if not self._step_due:
            self._step_due = True
            self._loop.call_soon(self.turn)

    # -- what the link tells ---------------------------------------------------------------------------------------

    def sent(self, send_id: int, at_ns: int) -> None:
        self._pacer.sent(send_id, at_ns)

    def ended(self, row: Row, unsent: bool) -> None:
        send_id = row[0]
        del self._flying[send_id]
        self._ended.append(row)
        if self._over.done():
            return
        outcome = row[OUTCOME]
        self._pacer.completed(send_id, row[END], outcome)
        if outcome is Outcome.CLIENT_ERROR:
            self._loop.call_soon(self._ask_alive)
        self._unsent = self._unsent + 1 if unsent else 0
        if self._unsent >= _UNSENT_LIMIT:
            self._loop.call_soon(self._stop, f"{self._unsent} requests in a row were not sent: {row[ERROR]}")
        self._step_soon()

    def turn(self) -> None:
        if self._step_due:
            self._step()

    def broke(self, error: Exception) -> None:
        """A bug in a callback must end the replay, not hang it."""
        if isinstance(error, WorkerLost):
            self._stop(str(error))
        elif not self._over.done():
            self._over.set_exception(error)

    def _settle(self) -> None:
        """Hand on what has ended."""
        rows, self._ended = self._ended, []
        if not rows:
            return
        self._health.note(rows)
        if self.on_progress is not None:
            self._tally.note(rows)
        if self._settings.keep_records:
            self._kept += rows
        if self.on_rows is not None:
            self.on_rows(rows)
        if self.on_record is not None:
            for row in rows:
                self.on_record(from_row(row))

    def _stop(self, reason: str) -> None:
        """End the replay now: everything in flight is cancelled and recorded."""
        if self._over.done():
            return
        self._aborted = reason
        self._alarm.set(None)
        # A server that died under a request ended it: that is no orderly cancel.
        ending = Ending.UNSENT if self._pacer.aborted is None else Ending.CANCELLED
        for send_id in list(self._flying):
            self._link.cancel(send_id, reason, ending)
        self._step_due = False  # what would follow from their end is not wanted any more
        self._link.flush()
        self._finish()

    def _finish(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _on_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception in a transport's callback would only be logged, and its request never end."""
        error = context.get("exception")
        self.broke(error if isinstance(error, Exception) else RuntimeError(context.get("message", "loop error")))

    def _monotonic(self, simulated_ns: int) -> int:
        """The first monotonic reading at which the clock shows `simulated_ns`."""
        if self._clock.speed == 1.0:
            return self._clock.origin_ns + simulated_ns
        return self._clock.origin_ns + math.ceil(simulated_ns / self._clock.speed)

    # -- around it -------------------------------------------------------------------------------------------------

    def _every(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        def again() -> None:
            self._timers[name] = self._loop.call_later(seconds, again)
            try:
                work()
            except Exception as error:
                self.broke(error)

        self._timers[name] = self._loop.call_later(seconds, again)

    def _pump(self) -> None:
        """Hand on what has ended; decode what has gathered."""
        self._settle()
        self._link.pump()

    def _ask_alive(self) -> None:
        if self.alive is None or self._over.done():
            return
        answer = self.alive()
        if answer is not True:
            self._stop(answer or "the server process is gone")

    def _show(self) -> None:
        assert self.on_progress is not None
        self.on_progress(self._progress())

    def _progress(self) -> Progress:
        self._settle()
        now, phases = self._clock.now_ns(), self._pacer.phases
        phase, measured_s = "warmup", 0.0
        if phases.profiling_start_ns is not None:
            end = phases.profiling_end_ns
            phase = "profiling" if end is None or now < end else "drain"
            measured_s = ((now if end is None else min(now, end)) - phases.profiling_start_ns) / 1e9
        requests, tokens = self._tally.rates(measured_s)
        ttft_p50, ttft_p99, itl_p50, itl_p99 = self._tally.spread()
        return Progress(
            at_s=now / 1e9,
            phase=phase,
            lanes=len(self._lanes),
            lanes_in_flight=len(set(self._flying.values())),
            in_flight=len(self._flying),
            sent=self._sent,
            done=self._tally.done,
            outcomes=dict(self._tally.outcomes),
            output_tokens=self._tally.output_tokens,
            requests_per_s=requests,
            output_tokens_per_s=tokens,
            ttft_p50_s=ttft_p50,
            ttft_p99_s=ttft_p99,
            itl_p50_s=itl_p50,
            itl_p99_s=itl_p99,
            send_lag_p99_s=self._health.send_lag_p99_s(),
            errors=dict(self._tally.errors.most_common(5)),
        )
