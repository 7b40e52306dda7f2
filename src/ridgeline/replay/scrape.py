"""Reads the servers' Prometheus pages while a replay runs, off the loop that measures.

One thread; per endpoint a budget of time and bytes and a circuit breaker: a page that is not Prometheus text (an
application answering JSON at /metrics, a login page) or does not answer costs three tries, then one a minute. A failed
scrape is a sample without values: a gap. Mirrors (two addresses with one page) are the reader's business: every sample
carries its endpoint.
"""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import ServerSample

TIMEOUT_S = 2.0
MAX_BYTES = 16 << 20
MAX_FAILURES = 3  # in a row, before the breaker opens
OPEN_S = 60.0  # how long it stays open
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def parse_metrics(text: str) -> dict[str, float]:
    """Samples of a Prometheus text page: `name{label="v",...}` (labels sorted) -> value. Raises ValueError when it is
    not such a page."""
    from prometheus_client.parser import text_string_to_metric_families

    head = text.lstrip()[:1]
    if head in ("{", "[", "<"):
        raise ValueError("not Prometheus text")
    return {
        series(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def series(name: str, labels: dict[str, str]) -> str:
    """The canonical name of a series."""
    if not labels:
        return name
    pairs = (f'{key}="{value.translate(_ESCAPES)}"' for key, value in sorted(labels.items()))
    return f"{name}{{{','.join(pairs)}}}"


@dataclass(slots=True)
class Breaker:
    """Whether an endpoint may be asked. Times in seconds of any clock."""

    failures: int = 0
    open_until: float = 0.0

    def allows(self, now: float) -> bool:
        return now >= self.open_until

    def note(self, success: bool, now: float) -> None:
        self.failures = 0 if success else self.failures + 1
        self.open_until = now + OPEN_S if self.failures >= MAX_FAILURES else 0.0


class Scraper:
    """Samples every `interval_s` real seconds from `start` to `stop`."""

    def __init__(self, urls: Sequence[str], interval_s: float, clock: ScaledClock) -> None:
        self._urls = tuple(dict.fromkeys(urls))
        self._interval = interval_s
        self._clock = clock
        self._samples: list[ServerSample] = []
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scrape", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> tuple[ServerSample, ...]:
        """End the thread (one last scrape included, so that the window has its right edge) and return all samples."""
        self._halt.set()
        self._thread.join(timeout=TIMEOUT_S * len(self._urls) + 1)
        return tuple(self._samples)

    def _run(self) -> None:
        breakers = {url: Breaker() for url in self._urls}
        due = time.monotonic()
        last = False
        while True:
            for url, breaker in breakers.items():
                now = time.monotonic()
                if not breaker.allows(now):
                    continue
                values = fetch(url)
                self._samples.append(ServerSample(at_ns=self._clock.now_ns(), endpoint=url, values=values))
                breaker.note(values is not None, time.monotonic())
            if last:
                return
            due = max(due + self._interval, time.monotonic())
            last = self._halt.wait(due - time.monotonic())


def fetch(url: str) -> dict[str, float] | None:
    """One scrape. None for anything but a page of samples within the budget."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers={"Accept": "text/plain"}), timeout=TIMEOUT_S) as page:
            if "json" in (page.headers.get("Content-Type") or ""):
                return None
            data = page.read(MAX_BYTES + 1)
    except (OSError, urllib.error.URLError, ValueError):
        return None
    if len(data) > MAX_BYTES:
        return None
    try:
        return parse_metrics(data.decode()) or None
    except ValueError:
        return None
