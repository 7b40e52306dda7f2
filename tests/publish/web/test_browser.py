"""The dashboard in a real browser: every page, light and dark, wide and narrow; what a reader does with pointer, keys
and links. Needs Debian's Chromium."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.golden import ROOT, golden
from tests.publish.report import sample as report
from tests.publish.web import sample
from tests.publish.web.test_pages import HOSTILE, hostile

from ridgeline.cli import serve as verb
from ridgeline.core.point import Measure
from ridgeline.publish.web.app import create_app
from ridgeline.publish.web.context import Context
from ridgeline.publish.web.data import Library
from ridgeline.publish.web.folders import FolderShelf
from ridgeline.publish.web.pages import PAGES

pytestmark = pytest.mark.integration
AUDIT = (ROOT / "tests/publish/report/audit.js").read_text(encoding="utf-8")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Server(NamedTuple):
    """A running server: where it is, and how to end it."""

    base: str
    stop: Any


def serve(app: Any) -> Server:
    """A server on a free loopback port, in a thread of this process."""
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)

    def stop() -> None:
        server.should_exit = True
        thread.join(5)
        listener.close()

    return Server(f"http://127.0.0.1:{listener.getsockname()[1]}", stop)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """`ours`: run folders with requests; `states`: invented points in every state, two runs and an overlay; `api`: the
    given snapshot of a public interface; `hostile`: strings that want to be code; `empty`: nothing."""
    path = tmp_path_factory.mktemp("served")
    (path / "ours").mkdir()
    (path / "none").mkdir()
    sample.folder(path / "ours", "mine")
    sample.folder(path / "ours", "yours")
    points, failed = report.every_state()
    older = sample.run(
        "older",
        sample.scaled([p for p in points if p.source == "measured"], 0.9, "2026-01-01T00:00:00+00:00"),
        at="2026-01-01T00:00:00+00:00",
    )
    over = sample.shelf(sample.run("theirs", report.ladder("gb200", "vllm", strength=2.0)))
    told = verb.given([ROOT / "benchmarks/quickstart.yaml"])
    apps: dict[str, Any] = {
        "ours": create_app(Context(Library([FolderShelf([path / "ours"])]), given=told)),
        "states": create_app(
            Context(Library([sample.shelf(sample.run("main", points, failed=failed), older)], [over]), given=told)
        ),
        "hostile": hostile().app,
        "empty": create_app(Context(Library([FolderShelf([path / "none"])]))),
    }
    running = {name: serve(app) for name, app in apps.items()}
    yield {name: server.base for name, server in running.items()}
    for server in running.values():
        server.stop()


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    from ridgeline.publish.web.imported import ImportedShelf

    folder = golden("results/inferencex_api/2026-05-05")
    server = serve(create_app(Context(Library([ImportedShelf([folder])]))))
    yield server.base
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def show(browser: Any, servers: dict[str, str]) -> Iterator[Any]:
    """Open a page; afterwards no script failed, nothing was refused by the policy, nothing left the machine."""
    said: list[str] = []
    contexts = []

    def go(server: str, path: str = "/", width: int = 1440, theme: str = "light") -> Any:
        base = servers.get(server, server)
        context = browser.new_context(
            viewport={"width": width, "height": 900}, reduced_motion="reduce", color_scheme=theme
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda asked: None if asked.url.startswith((base, "data:")) else said.append(asked.url))
        page.goto(f"{base}{path}")
        page.wait_for_load_state("networkidle")
        return page

    yield go
    for context in contexts:
        context.close()
    assert said == []


def until(page: Any, script: str) -> None:
    """Wait until an expression is true. (The browser's own waiting evaluates text, which the page's policy refuses.)"""
    end = time.monotonic() + 10
    while not page.evaluate(script):
        assert time.monotonic() < end, script
        time.sleep(0.05)


def point_of(page: Any, words: str = "mine c1") -> str:
    return str(
        page.evaluate("q => fetch(`/api/v1/points?q=${q}`).then(r => r.json()).then(d => d.points[0].id)", words)
    )


PATHS = [page.path for page in PAGES]


def themes(page: Any) -> Iterator[str]:
    """The page in both themes, loaded once."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        yield theme


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("server", ["ours", "states", "empty"])
def test_every_page_fits_and_reads(show: Any, server: str, width: int) -> None:
    page = show(server, "/", width=width)
    paths = [*PATHS, *(["/runs/mine", f"/points/{point_of(page)}"] if server == "ours" else [])]
    for path in paths:
        page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        for theme in themes(page):
            assert page.evaluate(AUDIT) == [], (path, theme)
            if folder := os.environ.get("RIDGELINE_SHOTS"):
                name = f"{server}-{path.strip('/').split('/')[0] or 'frontier'}-{theme}-{width}.png"
                page.screenshot(path=Path(folder) / name, full_page=True)


@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_no_serious_fault(show: Any, width: int) -> None:
    script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page = show("ours", "/", width=width)
    base = page.url.rstrip("/")
    for path in [*PATHS, "/runs/mine", f"/points/{point_of(page)}", "/data?q=SELECT * FROM runs"]:
        page.goto(base + path)
        page.wait_for_load_state("networkidle")
        page.evaluate(script)
        for theme in themes(page):
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
            serious = [
                (one["id"], one["nodes"][0]["html"][:120]) for one in found if one["impact"] in ("serious", "critical")
            ]
            assert serious == [], (path, theme)


def test_the_question_is_asked_of_the_server_and_the_address_says_it(show: Any) -> None:
    page = show("states")
    assert "?" not in page.url
    page.click("[data-slot=y]")
    page.locator(".pop li", has_text="Output throughput per GPU").click()
    until(page, "!document.querySelector('#chart-card').hasAttribute('aria-busy')")
    assert "y=throughput_per_gpu.output" in page.url
    assert "output throughput per GPU" in page.inner_text("#question")
    page.go_back()
    until(page, "document.querySelector('#question').textContent.includes('total throughput')")
    assert "?" not in page.url


def test_the_link_brings_the_view_back(show: Any) -> None:
    page = show("states")
    page.click("[data-slot=y]")
    page.locator(".pop li", has_text="Output throughput per GPU").click()
    page.wait_for_url("**y=throughput**")
    page.wait_for_load_state("networkidle")
    page.click("[data-log=y]")
    page.locator(".srow").nth(1).click()
    page.click("[data-rows=frontier]")
    page.click("[data-column=c]")
    page.fill("#limit-value", "50")
    page.keyboard.press("Enter")
    page.locator("#points tbody tr").nth(2).click()
    page.wait_for_load_state("networkidle")
    query = page.url.partition("?")[2]
    assert all(f"{name}=" in query for name in ("y", "log", "hide", "rows", "sort", "limit", "p"))
    other = show("states", f"/?{query}")
    assert other.url.partition("?")[2] == query
    for part in ("#question", "#answer", "#series", "#points", "#drawer"):
        assert other.inner_text(part) == page.inner_text(part), part


def test_what_a_link_asks_in_vain_is_said_on_every_page(show: Any) -> None:
    for path in ("/?colour=red&x=nonsense&limit=-3", "/compare?colour=red"):
        page = show("states", path)
        assert "“colour”" in page.inner_text("#notice")
    page = show("ours")
    page = show("ours", f"/points/{point_of(page)}?colour=red&from=x")
    assert "“colour”" in page.inner_text("#notice") and "“from” has no value “x”" in page.inner_text("#notice")


ROUND_TRIP = """state => {
  const { fields, encode, decode } = globalThis.ridgelineState(), full = decode('', fields).state;
  Object.assign(full, state);
  const text = encode(full, fields), back = decode(`?${text}`, fields);
  return { same: JSON.stringify(back.state) === JSON.stringify(full), notices: back.notices, text };
}"""
STATES = st.fixed_dictionaries(
    {},
    optional={
        "x": st.sampled_from(["interactivity.p50", "ttft.p50", "e2e_latency.p90"]),
        "y": st.sampled_from(["throughput_per_gpu.total", "throughput_per_gpu.output"]),
        "source": st.sampled_from(["all", "measured", "emulated", "predicted"]),
        "log": st.sampled_from(["", "x", "y", "xy"]),
        "limit": st.floats(0, 1e6, allow_nan=False).map(lambda value: round(value, 3)),
        "rows": st.sampled_from(["all", "frontier"]),
        "sort": st.sampled_from(["y:down", "c:up", "x:down"]),
        "overlay": st.lists(
            st.text(min_size=1, max_size=8).filter(lambda t: "\0" not in t and t.isprintable()), max_size=3
        ),
        "run": st.text(max_size=10).filter(str.isprintable),
        "box": st.sampled_from([None, {"x": [0, 12.5], "y": [0.001, 20000]}, {"x": [1, 1], "y": [-3, 4e5]}]),
    },
)


def test_every_state_survives_the_address_bar(browser: Any, servers: dict[str, str]) -> None:
    page = browser.new_page()
    page.goto(servers["states"])
    page.wait_for_load_state("networkidle")

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(STATES)
    def holds(state: dict[str, Any]) -> None:
        result = page.evaluate(
            ROUND_TRIP,
            state,
        )
        assert result["same"] and result["notices"] == [], result

    holds()
    page.close()


def test_the_drawer_answers_why_and_how(show: Any) -> None:
    """The three questions of a new reader."""
    page = show("states")
    page.fill("#limit-value", "50")
    page.keyboard.press("Enter")
    assert "At 50 tok/s/user of median interactivity or more, B200 · vLLM leads: " in page.inner_text("#answer")
    page.locator("#points tbody tr.dominated").first.click()
    until(page, "document.querySelector('#drawer').textContent.includes('Run this point again')")
    text = page.inner_text("#drawer")
    assert "Dominated by" in text and "Show it →" in text and "ridgeline sweep benchmarks/sample.yaml" in text
    assert "marked where it differs from" in text and "not set" not in text  # its neighbour's recipe is known as well


def test_the_answer_speaks_of_every_series_until_somebody_chooses(browser: Any) -> None:
    """Four strong lines are drawn; a fifth of one point is ahead where the reader asks."""
    lines = [report.ladder(gpu, "vllm", strength=4.0) for gpu in ("b200", "gb200", "h200", "mi355x")]
    lone = report.ladder("h100", "vllm", strength=50.0)[-1:]
    server = serve(create_app(Context(Library([sample.shelf(sample.run("main", [*chain(*lines), *lone]))]))))
    page = browser.new_page()
    page.goto(server.base)
    page.wait_for_load_state("networkidle")
    assert page.locator(".srow[aria-pressed=true]").count() == 4
    page.fill("#limit-value", "1")
    page.keyboard.press("Enter")
    assert "H100 · vLLM leads" in page.inner_text("#answer") and "It is not drawn" in page.inner_text("#answer")
    page.click("#answer button")
    assert page.locator(".srow[aria-pressed=true]").count() == 5 and "not drawn" not in page.inner_text("#answer")
    for name in ("MI355X", "H100"):
        page.locator(".srow", has_text=name).click()
    assert "Hidden and ahead: H100 · vLLM" in page.inner_text("#answer")
    page.close()
    server.stop()


def test_a_box_on_the_plot_chooses_rows_and_stands_in_the_address(show: Any) -> None:
    page = show("states")
    rows, every = "document.querySelectorAll('#points tbody tr').length", "document.querySelectorAll('.pt').length"
    before = page.evaluate(rows)
    box = page.locator("#plot svg").bounding_box()
    left, right, top, bottom = box["x"] + 66, box["x"] + box["width"] - 90, box["y"] + 44, box["y"] + box["height"] - 60
    page.mouse.move(left + 2, top + 2)
    page.mouse.down()
    page.mouse.move((left + right) / 2, bottom - 2, steps=4)
    page.mouse.up()
    assert 0 < page.evaluate(rows) < before and "box=" in page.url
    assert page.locator("body.drawer-open").count() == 0  # the end of a drag opens no point
    inside = page.evaluate(rows)
    page.reload()
    page.wait_for_load_state("networkidle")
    assert page.evaluate(rows) == inside and page.evaluate(every) >= before
    page.locator("#unbox").click()
    assert page.evaluate(rows) == before and "box=" not in page.url


def test_repeats_are_drawn_with_their_range_and_the_drawer_says_it(browser: Any) -> None:
    ladder = report.ladder("b200", "vllm")
    points = []
    for n, by in enumerate((0.97, 1.0, 1.05)):
        for point in ladder:
            y = point.measures["throughput_per_gpu.total"]
            told = {**point.measures, "throughput_per_gpu.total": Measure(by * (y.value or 0), y.unit)}
            points.append(replace(point, id=f"{point.id}.{n}", measures=told))
    server = serve(create_app(Context(Library([sample.shelf(sample.run("thrice", points))]))))
    page = browser.new_page()
    page.goto(server.base)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.querySelectorAll('#plot .pt .bar').length") == len(ladder)
    page.locator("#points tbody tr").first.click()
    assert "Means of 3 repeats" in page.locator("#drawer").inner_text()
    assert " to " in page.locator("#drawer .range").first.inner_text()
    page.close()
    server.stop()


def test_the_picture_is_saved_with_its_question_and_what_was_not_measured(show: Any) -> None:
    page = show("states")
    with page.expect_download() as vector:
        page.locator("[data-picture=svg]").click()
    text = Path(vector.value.path()).read_text("utf-8")
    tree = ElementTree.fromstring(text)
    said = "".join(tree.itertext())
    assert "Ridgeline, data " in said and "no GPU took part" in said and "tok/s/user" in said
    assert "var(" not in text and "oklch" not in text and "color-mix" not in text  # every viewer knows the colours
    ground, title = (
        next(n.get("fill") or "" for n in tree.iter(f"{{http://www.w3.org/2000/svg}}{tag}")) for tag in ("rect", "text")
    )
    lightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in (ground, title)]
    assert lightness[0] > 3 * 240 and lightness[1] < 3 * 60  # ink on the page's own surface
    listed = page.evaluate("[...document.querySelectorAll('.srow[aria-pressed=true] .name')].map(n => n.textContent)")
    assert listed and all(name in said for name in listed)
    marks = [node for node in tree.iter() if node.get("data-i")]
    assert len(marks) == page.evaluate("document.querySelectorAll('#plot .pt').length") > 0
    with page.expect_download() as raster:
        page.locator("[data-picture=png]").click()
    data = Path(raster.value.path()).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width = int.from_bytes(data[16:20], "big")
    assert width == 2 * round(float(tree.get("width") or 0))


def test_the_copied_table_says_of_every_row_what_it_is(show: Any) -> None:
    page = show("states", "/?overlay=theirs")
    page.locator("#show-all").click()
    page.evaluate("navigator.clipboard.writeText = text => { globalThis.copied = text; return Promise.resolve(); }")
    page.locator("#csv").click()
    until(page, "'copied' in globalThis")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("copied"))))
    assert {row["source"] for row in rows} == {"measured", "emulated", "predicted"}
    marked = page.evaluate(
        "[...document.querySelectorAll('#points tbody tr')].map(row => ['measured', 'emulated', 'predicted']"
        ".find(word => [...row.querySelectorAll('.badge')].some(badge => badge.textContent === word)) ?? 'measured')"
    )
    assert Counter(marked) == Counter(row["source"] for row in rows)
    for row in rows:
        own = row["id"].removesuffix("~over")
        told = page.evaluate("id => fetch(`/api/v1/points/${id}`).then(answer => answer.json())", own)
        assert (told["source"], told["validity"]) == (row["source"], row["validity"])
        assert row["series"].split("~")[0].endswith(row["source"]) or row["source"] in row["series"]
        assert (row["unofficial_run"] != "") == ("~over" in row["id"])
    assert any(row["unofficial_run"] for row in rows)


def test_a_laid_over_run_is_unmistakable(show: Any) -> None:
    page = show("states", "/?overlay=theirs")
    assert "theirs" in page.inner_text(".banner.over") and "enters no official frontier" in page.inner_text(
        ".banner.over"
    )
    row = page.locator(".srow.overlaid")
    assert row.count() == 1 and "unofficial: theirs" in row.inner_text()
    assert "GB200" not in page.inner_text("#answer")
    number = row.get_attribute("data-s")
    assert page.locator(f".series[data-s='{number}'] .line").get_attribute("stroke-dasharray") == "5 3"
    assert "unofficial" in page.locator(".chart .tag").all_text_contents()
    page.click(".banner.over a")
    assert "overlay" not in page.url and page.locator(".srow.overlaid").count() == 0


def test_the_timeline_zooms_pans_opens_lanes_and_keeps_its_link(show: Any) -> None:
    page = show("ours")
    id = point_of(page)
    page = show("ours", f"/points/{id}")
    page.wait_for_selector("html[data-ready=panels]")
    assert page.locator(".panels canvas").count() == 6
    assert "60 requests" in page.inner_text(".readout")
    page.focus(".timeline")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    until(page, "location.search.includes('from=')")
    page.click("text=Subagents")
    assert "open=1" in page.url
    page.locator(".lanes-box").scroll_into_view_if_needed()
    box = page.locator(".lanes-box").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10)
    assert "in flight" in page.inner_text(".readout") and "KV use mean" in page.inner_text(".readout")
    span = page.inner_text("#time-span")
    other = show("ours", f"/points/{id}?{page.url.partition('?')[2]}")
    other.wait_for_selector("html[data-ready=panels]")
    assert other.inner_text("#time-span") == span
    page.focus(".timeline")
    page.keyboard.press("Home")
    until(page, "!location.search.includes('from=')")
    page.evaluate("document.querySelector('.timeline').blur()")


def test_a_request_can_be_chosen_and_linked(show: Any) -> None:
    page = show("ours")
    page = show("ours", f"/points/{point_of(page)}?request=10")
    page.wait_for_selector("#request dl")
    text = page.inner_text("#request")
    assert "timeout" in text and "not seen" in text and "session-1" in text


def test_logs_are_searched(show: Any) -> None:
    page = show("ours")
    page = show("ours", f"/points/{point_of(page)}")
    until(page, "document.querySelector('#log').textContent.includes('line 0')")
    page.fill("#log-q", "warning")
    until(page, "document.querySelector('#log').textContent.includes('the pool is small')")
    assert page.inner_text("#log-where") == "1 lines"


def test_a_server_that_is_gone_leaves_the_old_answer_and_says_so(browser: Any) -> None:
    server = serve(create_app(Context(Library([sample.every_state()]))))
    page = browser.new_page()
    page.goto(server.base)
    page.wait_for_selector(".chart .pt")
    marks = page.locator(".chart .pt").count()
    page.route("**/api/v1/chart**", lambda route: route.abort())
    page.click("[data-slot=x]")
    page.locator(".pop li", has_text="End-to-end latency, median").click()
    page.wait_for_selector("#failure:not([hidden])")
    assert "No answer from the server." in page.inner_text("#failure") and page.locator(".chart .pt").count() == marks
    page.unroute("**/api/v1/chart**")
    page.click("#failure button")
    page.wait_for_selector("#failure", state="hidden")
    assert "end-to-end latency" in page.inner_text("#question")
    page.close()
    server.stop()


def test_the_theme_stays_from_page_to_page(show: Any) -> None:
    page = show("states")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.goto(page.url + "runs")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_search_opens_with_a_key(show: Any) -> None:
    page = show("states")
    page.keyboard.press("/")
    page.keyboard.type("b200 TP4")
    page.keyboard.press("Enter")
    page.wait_for_url("**/points?q=*")
    assert all("b200" in text for text in page.locator("tbody td.first").all_inner_texts())


def test_hostile_strings_do_nothing(show: Any) -> None:
    page = show("hostile")
    base = page.url.rstrip("/")
    page.locator("#points tbody tr").first.click()
    page.wait_for_load_state("networkidle")
    assert HOSTILE in page.inner_text("#drawer")
    id = str(page.evaluate("fetch('/api/v1/points').then(r => r.json()).then(d => d.points[0].id)"))
    for path in [*PATHS, "/runs/one", f"/points/{id}", "/?overlay=two"]:
        page.goto(base + path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.hit") is None and page.locator("img").count() == 0, path


@pytest.mark.parametrize("width", [390, 1440])
def test_a_public_snapshot_is_shown_whole(show: Any, api: str, width: int) -> None:
    page = show(api, "/", width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(AUDIT) == []
    shown = page.locator(".srow[aria-pressed=true]").count()
    assert 1 <= shown <= 5
    assert "leads" in page.inner_text("#answer") and "Hidden and ahead" not in page.inner_text("#answer")
    for path in ("/runs", "/points", "/compare", "/gates", "/accuracy", "/cost"):
        page.goto(api + path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert all(page.evaluate(AUDIT) == [] for _ in themes(page)), path
