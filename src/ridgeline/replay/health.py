"""Is the client itself the bottleneck? What it measures about itself, and the judgement.

Lags are in simulated seconds, like the latencies they could distort.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Mapping, Sequence

from ridgeline.core.alarm import Alarm
from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import Outcome, Row
from ridgeline.replay.recording import FIRST_TOKEN, OUTCOME, PHASE, SCHEDULED, SENT

CLIENT_LIMITED = "client-limited"
LAG_SHARE_LIMIT = 0.05  # of the median time to first token; above it the client, not the server, shapes the result
_BEAT_S = 0.05


def quantile(ordered: array[int] | list[int] | list[float], share: float) -> float | None:
    """Linear interpolation at share * (n - 1) in sorted values, None for none."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def client_limited(lag_p99: float | None, median_ttft: float | None) -> bool:
    """The client is so late that it distorts what is measured. Both in the same unit."""
    return lag_p99 is not None and median_ttft is not None and lag_p99 > LAG_SHARE_LIMIT * median_ttft


class Health:
    """Watches the loop from `start` to `stop`; is told every request that ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: ScaledClock) -> None:
        self._clock = clock
        self._alarm = Alarm(loop, self._beat)
        self._due = 0
        self._loop_lags = array("q")  # real ns
        self._send_lags = array("q")  # simulated ns, measured window only
        self._ttfts = array("q")
        self._wall = self._cpu = 0.0
        self._share: float | None = None  # of a core, once stopped
        self._others: list[float] = []  # shares of other processes

    def start(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self._arm()

    def stop(self) -> None:
        """Watch no more; what was found stays."""
        self._alarm.close()
        if self._share is None:
            wall = time.monotonic() - self._wall
            self._share = (time.process_time() - self._cpu) / wall if wall > 0 else 0.0

    def own(self) -> tuple[list[int], float]:
        """The loop's lags (real ns) and the share of a core that this process used."""
        return list(self._loop_lags), self._share or 0.0

    def absorb(self, loop_lags: Sequence[int], cpu_share: float) -> None:
        """Take what another process of the same replay found of its own loop."""
        self._loop_lags.extend(loop_lags)
        self._others.append(cpu_share)

    def note(self, rows: Sequence[Row]) -> None:
        """Take finished requests into account; warm-up does not count."""
        for row in rows:
            sent = row[SENT]
            if row[PHASE] != "profiling" or sent is None:
                continue
            self._send_lags.append(max(0, sent - row[SCHEDULED]))
            if row[OUTCOME] is Outcome.OK and (first := row[FIRST_TOKEN]) is not None:
                self._ttfts.append(first - sent)

    def send_lag_p99_s(self) -> float | None:
        found = quantile(sorted(self._send_lags[-2000:]), 0.99)
        return None if found is None else found / 1e9

    def summary(self, extra: Mapping[str, float]) -> dict[str, float]:
        """What `Replay.health` holds. Values that could not be measured are absent."""
        lags, ttfts = sorted(self._send_lags), sorted(self._ttfts)
        loop_lags = [lag * self._clock.speed for lag in sorted(self._loop_lags)]
        found: dict[str, float | None] = {
            **_spread("send_lag", lags),
            **_spread("loop_lag", loop_lags),
            "cpu_share": max([self._share, *self._others]) if self._share is not None else None,  # of the busiest
            "cpu_total": sum([self._share, *self._others]) if self._share is not None else None,
        }
        median = quantile(ttfts, 0.5)
        limited = client_limited(quantile(lags, 0.99), median) or client_limited(quantile(loop_lags, 0.99), median)
        found["client_limited"] = float(limited) if lags and ttfts else None
        return {name: value for name, value in found.items() if value is not None} | dict(extra)

    def _arm(self) -> None:
        self._due = time.monotonic_ns() + round(_BEAT_S * 1e9)
        self._alarm.set(self._due)

    def _beat(self) -> None:
        self._loop_lags.append(max(0, time.monotonic_ns() - self._due))
        self._arm()


def _spread(name: str, ordered: list[int] | list[float]) -> dict[str, float | None]:
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    found = {key: quantile(ordered, share) for key, share in shares.items()}
    return {f"{name}_{key}_s": None if value is None else value / 1e9 for key, value in found.items()}
