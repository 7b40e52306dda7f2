from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import ServerSample
from ridgeline.replay.scrape import LONGEST_S, MAX_FAILURES, OPEN_S, Breaker, Scraper, fetch, parse_metrics, series

PAGE = """# HELP vllm:kv_cache_usage_perc use
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.25
# TYPE vllm:request_success counter
vllm:request_success_total{reason="a\\"b"} 3.0
# TYPE lat histogram
lat_bucket{le="0.5"} 1
lat_bucket{le="+Inf"} 2
lat_sum 1.5
lat_count 2
"""


@contextmanager
def page(status: int, kind: str, body: str) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/metrics", asked
        finally:
            server.shutdown()
            thread.join()


def test_samples_have_canonical_names() -> None:
    assert parse_metrics(PAGE) == {
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"}': 0.25,
        'vllm:request_success_total{reason="a\\"b"}': 3.0,
        'lat_bucket{le="0.5"}': 1.0,
        'lat_bucket{le="+Inf"}': 2.0,
        "lat_sum": 1.5,
        "lat_count": 2.0,
    }
    assert series("x", {"b": "1\n", "a": "\\"}) == 'x{a="\\\\",b="1\\n"}'


@pytest.mark.parametrize("text", ['{"status":"ok"}', "[1]", "<html></html>", "hello there, friend"])
def test_what_is_no_page_of_samples_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_metrics(text)


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "application/json", '{"a":1}'),
        (200, "text/plain", '{"a":1}'),
        (200, "text/plain", ""),
        (404, "text/plain", "x 1\n"),
        (200, "text/plain", "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")),
    ],
)
def test_a_failed_scrape_is_a_gap(status: int, kind: str, body: str) -> None:
    with page(status, kind, body) as (url, _):
        assert fetch(url) is None


def test_nobody_there_is_a_gap() -> None:
    assert fetch("http://127.0.0.1:1/metrics") is None


def test_the_breaker_opens_after_failures_in_a_row_for_longer_and_longer_and_closes_again() -> None:
    breaker = Breaker()
    for at in range(MAX_FAILURES):
        assert breaker.allows(at)
        breaker.note(False, at)
    now, waits = float(MAX_FAILURES - 1), []
    for _ in range(6):
        waits.append(breaker.open_until - now)
        assert not breaker.allows(breaker.open_until - 0.1) and breaker.allows(breaker.open_until)
        now = breaker.open_until
        breaker.note(False, now)
    assert waits == [OPEN_S, 10, 20, 40, LONGEST_S, LONGEST_S]
    breaker.note(True, now)
    assert breaker.allows(now) and breaker.failures == 0


def test_a_boundary_is_read_though_the_breaker_is_open() -> None:
    with page(200, "application/json", "{}") as (bad, tries):
        scraper = Scraper([bad], 0.001, ScaledClock.start())
        scraper.start()
        while len(tries) < MAX_FAILURES:
            threading.Event().wait(0.002)
        scraper.mark(0)
        while len(tries) < MAX_FAILURES + 1:
            threading.Event().wait(0.002)
        assert [sample.values for sample in scraper.stop()] == [None] * (MAX_FAILURES + 1)


def test_a_window_has_both_edges_and_a_json_page_costs_three_tries() -> None:
    with (
        page(200, "text/plain; version=0.0.4", PAGE) as (good, asked),
        page(200, "application/json", "{}") as (bad, tries),
    ):
        scraper = Scraper([good, bad, good], 0.001, ScaledClock.start())
        scraper.start()
        while len(asked) < 8:
            threading.Event().wait(0.002)
        samples = scraper.stop()
    seen = [sample for sample in samples if sample.endpoint == good]
    gaps = [sample for sample in samples if sample.endpoint == bad]
    assert len(seen) == len(asked) and all(sample.values and sample.values["lat_count"] == 2 for sample in seen)
    assert [sample.at_ns for sample in seen] == sorted(sample.at_ns for sample in seen)
    assert len(tries) == len(gaps) == MAX_FAILURES and all(sample.values is None for sample in gaps)


def test_scrapes_may_go_elsewhere_as_they_come() -> None:
    taken: list[ServerSample] = []
    with page(200, "text/plain", PAGE) as (url, asked):
        scraper = Scraper([url], 0.001, ScaledClock.start(), taken.append)
        scraper.start()
        while len(asked) < 5:
            threading.Event().wait(0.002)
        assert scraper.stop() == ()
    assert len(taken) == len(asked) and all(sample.took_ns and sample.took_ns > 0 for sample in taken)


def test_what_a_page_says_of_its_metrics_is_read_once() -> None:
    with page(200, "text/plain", PAGE) as (url, asked), page(200, "text/plain", "{}") as (bad, _):
        scraper = Scraper([url, bad], 0.001, ScaledClock.start())
        scraper.start()
        while len(asked) < 3:
            threading.Event().wait(0.002)
        scraper.stop()
    assert scraper.about == {
        "vllm:kv_cache_usage_perc": ("gauge", "use"),
        "vllm:request_success": ("counter", ""),
        "lat": ("histogram", ""),
    }


def test_what_taking_a_scrape_raises_is_heard() -> None:
    def full(sample: ServerSample) -> None:
        raise OSError("no space left")

    with page(200, "text/plain", PAGE) as (url, asked):
        scraper = Scraper([url], 0.001, ScaledClock.start(), full)
        scraper.start()
        while not asked:
            threading.Event().wait(0.002)
        with pytest.raises(OSError, match="no space"):
            scraper.stop()


def test_a_boundary_is_read_at_once_and_carries_its_own_time() -> None:
    clock = ScaledClock.start()
    with page(200, "text/plain", PAGE) as (one, asked), page(200, "text/plain", PAGE) as (other, also):
        scraper = Scraper([one, other], 3600.0, clock)
        scraper.start()
        while not (asked and also):
            threading.Event().wait(0.002)
        threading.Event().wait(0.02)  # the first samples have their stamps
        boundary = clock.now_ns()
        scraper.mark(boundary)
        scraper.mark(boundary - 10**9)  # told too late to be of that moment
        while len(asked) < 3 or len(also) < 3:
            threading.Event().wait(0.002)
        samples = scraper.stop()
    assert [sample.at_ns for sample in samples] == sorted(sample.at_ns for sample in samples)
    for url in (one, other):
        stamps = [sample.at_ns for sample in samples if sample.endpoint == url]
        assert len(stamps) == 4 and stamps[0] < boundary == stamps[1] < stamps[2] <= stamps[3]


def test_a_page_that_hangs_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.replay.scrape.TIMEOUT_S", 0.5)
    with socket.socket() as silent, page(200, "text/plain", PAGE) as (good, asked):
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        hanging = f"http://127.0.0.1:{silent.getsockname()[1]}/metrics"
        scraper = Scraper([hanging, good], 0.001, ScaledClock.start())
        scraper.start()
        while len(asked) < 20:
            threading.Event().wait(0.002)
        samples = scraper.stop()
    first_gap = min(sample.at_ns for sample in samples if sample.endpoint == hanging)
    assert sum(sample.at_ns < first_gap for sample in samples if sample.endpoint == good) >= 3
