"""Reads the servers' Prometheus pages while a replay runs, off the loop that measures.

A thread an endpoint, so that a slow page delays no other, with a budget of time and bytes and a circuit breaker: a page
that is not Prometheus text (an application answering JSON at /metrics, a login page) or does not answer costs three
tries, then one after 5 s, 10 s and so on up to one a minute. A failed scrape is a sample without values: a gap. Mirrors
(two addresses with one page) are the reader's business: every sample carries its endpoint.

Where a phase begins or ends, every endpoint is read at once and that sample carries the boundary's own time, so that
increases over the window are those between its two ends and not between the scrapes that happen to lie around them.
No breaker stands in the way of that.
"""

from __future__ import annotations

import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ridgeline.core.clock import ScaledClock
from ridgeline.core.readings import Reader
from ridgeline.core.record import ServerSample

TIMEOUT_S = 2.0
MAX_BYTES = 16 << 20
MAX_FAILURES = 3  # in a row, before the breaker opens
OPEN_S, LONGEST_S = 5.0, 60.0  # how long it stays open at first, and at most: it doubles with every failure
PROMPT_S = 0.05  # an answer this soon after a boundary counts as of the boundary
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def parse_metrics(text: str, about: dict[str, tuple[str, str]] | None = None) -> dict[str, float]:
    """Samples of a Prometheus text page: `name{label="v",...}` (labels sorted) -> value. `about` gets what the page
    says of its metrics: name -> type and help. Raises ValueError when it is not such a page."""
    from prometheus_client.parser import text_string_to_metric_families

    head = text.lstrip()[:1]
    if head in ("{", "[", "<"):
        raise ValueError("not Prometheus text")
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        if about is not None and (family.type != "unknown" or family.documentation):
            about[family.name] = (family.type, family.documentation)
        for sample in family.samples:
            found[series(sample.name, sample.labels)] = sample.value
    return found


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
        beyond = self.failures - MAX_FAILURES
        self.open_until = now + min(LONGEST_S, OPEN_S * 2 ** min(beyond, 10)) if beyond >= 0 else 0.0


class Scraper:
    """Samples every `interval_s` real seconds from `start` to `stop`, at the start, at the end and at every `mark`.

    `take` gets each of them in its endpoint's thread, and none is kept here; what it raises ends that endpoint's thread
    and comes out of `stop`.
    """

    def __init__(
        self,
        urls: Sequence[str],
        interval_s: float,
        clock: ScaledClock,
        take: Callable[[ServerSample], None] | None = None,
    ) -> None:
        self._watches = [_Watch(url, interval_s, clock, take) for url in dict.fromkeys(urls)]

    def start(self) -> None:
        for watch in self._watches:
            watch.thread.start()

    def mark(self, at_ns: int) -> None:
        """A phase begins or ends now; `at_ns` is its simulated time. Returns at once."""
        for watch in self._watches:
            watch.asked.put(at_ns)

    @property
    def about(self) -> dict[str, tuple[str, str]]:
        """Type and help of every metric on any of the pages."""
        return {name: said for watch in self._watches for name, said in watch.about.items()}

    def stop(self) -> tuple[ServerSample, ...]:
        """The samples that were kept, in the order of time. Reads every endpoint a last time."""
        for watch in self._watches:
            watch.asked.put(None)
        samples: list[ServerSample] = []
        for watch in self._watches:
            watch.thread.join(timeout=TIMEOUT_S + 1)
        for watch in self._watches:  # all have ended by now: none writes any more
            if watch.error is not None:
                raise watch.error
            samples += watch.samples
        return tuple(sorted(samples, key=lambda sample: sample.at_ns))


class _Watch:
    """One endpoint. `asked`: boundaries to read at once, None for the end."""

    def __init__(
        self, url: str, interval_s: float, clock: ScaledClock, take: Callable[[ServerSample], None] | None
    ) -> None:
        self._url, self._interval, self._clock = url, interval_s, clock
        self._breaker, self._reader = Breaker(), Reader()
        self._last_ns: int | None = None
        self.about: dict[str, tuple[str, str]] = {}  # of the first page that could be read
        self.samples: list[ServerSample] = []
        self._take = take or self.samples.append
        self.error: Exception | None = None  # what taking a sample raised
        self.asked: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name=f"scrape {url}", daemon=True)

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # carried to whoever stops the scraper
            self.error = error

    def _watch(self) -> None:
        due = time.monotonic()
        boundary: int | None = None
        while True:
            self._read(boundary)
            if boundary is None:
                due = max(due + self._interval, time.monotonic())
            try:
                boundary = self.asked.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                boundary = None
                continue
            if boundary is None:  # the end
                self._read(None)
                return

    def _read(self, boundary_ns: int | None) -> None:
        if boundary_ns is None and not self._breaker.allows(time.monotonic()):
            return
        asked_ns = time.monotonic_ns()
        said: dict[str, tuple[str, str]] | None = None if self.about else {}
        values = fetch(self._url, said)
        took_ns, at_ns = time.monotonic_ns() - asked_ns, self._clock.now_ns()
        if boundary_ns is not None and self._clock.real_seconds(at_ns - boundary_ns) < PROMPT_S:
            # A scrape that was under way at the boundary is older in content, though not in its stamp.
            at_ns = boundary_ns if self._last_ns is None else max(boundary_ns, self._last_ns)
        if values is not None and said is not None:
            self.about = said
        kept = None if values is None else self._reader.read(values)
        self._take(ServerSample(at_ns=at_ns, endpoint=self._url, values=kept, took_ns=took_ns))
        self._last_ns = at_ns
        self._breaker.note(values is not None, time.monotonic())


def fetch(url: str, about: dict[str, tuple[str, str]] | None = None) -> dict[str, float] | None:
    """One scrape. None for anything but a page of samples within the budget. `about`: see `parse_metrics`."""
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
        return parse_metrics(data.decode(), about) or None
    except ValueError:
        return None
