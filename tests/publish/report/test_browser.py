"""The report in a real browser: what a reader does with pointer, keys and links. Needs Debian's Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.publish.report import sample

from ridgeline.core.point import Caution, Measure
from ridgeline.publish.charts.tokens import colours
from ridgeline.publish.report import render_picture, write_report

pytestmark = pytest.mark.integration
AUDIT = Path(__file__).with_name("audit.js").read_text(encoding="utf-8")
LINES = "gs => gs.map(g => [g.dataset.s, g.querySelector('.line').getAttribute('stroke')])"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = '<img src=x onerror="window.hit=1"></script><script>window.hit=1</script>\'"&'


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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    points, failed = sample.every_state()
    zero = [
        sample.point(sample.cell("h200", "vllm", 2, c), measures={"throughput_per_gpu.total": Measure(y, "tok/s/GPU")})
        for c, y in ((1, 0.0), (2, 10.0), (4, 30.0))
    ]
    cell = sample.cell("h200", "vllm", 2, 1)
    benchmark = replace(cell.benchmark, key=HOSTILE, model=HOSTILE, image=HOSTILE, framework=HOSTILE, runner=HOSTILE)
    bad = sample.point(replace(cell, benchmark=benchmark), cautions=(Caution(HOSTILE, HOSTILE, HOSTILE),))
    runs: dict[str, tuple[list[Any], list[Any]]] = {
        "all": (points, failed),
        "emulated": (sample.emulated_points(), []),
        "zero": (zero, []),
        "single": ([sample.point(sample.cell("h200", "vllm", 2, 4))], []),
        "hostile": ([bad], [sample.Exclusion(HOSTILE, HOSTILE, HOSTILE, HOSTILE)]),
        "empty": ([], failed),
    }
    return {
        name: write_report(listed, gone, header=sample.HEADER, out=folder / f"{name}.html")
        for name, (listed, gone) in runs.items()
    }


@pytest.fixture
def show(browser: Any, files: dict[str, Path]) -> Iterator[Any]:
    """Open a report; afterwards no script failed, nothing was refused by the policy, nothing left the machine."""
    said: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")

    def go(name: str, link: str = "", width: int = 1440, theme: str = "light") -> Any:
        page = context.new_page()
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 900})
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else said.append(asked.url))
        page.goto(f"file://{files[name]}{link}")
        page.wait_for_selector("#points tbody tr" if name != "empty" else "#empty")
        return page

    yield go
    context.close()
    assert said == []


def middle(node: Any) -> tuple[float, float]:
    box = node.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def frontier_mark(page: Any, number: int) -> Any:
    return page.locator(".chart .pt.on").nth(number)


def test_the_page_opens_with_question_answer_plot_and_table(show: Any) -> None:
    page = show("all")
    question = page.inner_text("#question")
    assert question.startswith("Show total throughput per GPU against median interactivity for Example/Model-A")
    assert page.inner_text("#answer").startswith(
        "At 60 tok/s/user of median interactivity or more, B200 · vLLM leads: "
    )
    assert "B300" not in page.inner_text("#answer")  # emulated: in no sentence beside measured ones
    plotted = page.locator(".chart .pt").count()
    assert plotted == page.locator("#points tbody tr").count() == 54
    assert page.locator(".srow").count() == 5


def test_every_point_is_plotted_hidden_or_counted_as_left_out(show: Any) -> None:
    page = show("all", "#hide=none")
    points, failed = sample.every_state()
    left_out = page.inner_text("#left-out summary b")
    assert left_out.strip() == "4 not plotted:"
    assert page.locator(".chart .pt").count() + 4 == len(points) + len(failed)
    page.click("#left-out summary")
    text = page.inner_text("#left-out ul")
    for reason in ("38 % of the requests failed", "Fewer than 20 requests finished", "the KV pool holds 0.31 M tokens"):
        assert reason in text


def test_hover_lights_mark_and_row_both_ways(show: Any) -> None:
    page = show("all")
    mark = frontier_mark(page, 3)
    number = mark.get_attribute("data-i")
    page.mouse.move(*middle(mark))
    assert page.locator("#points tr.hot").get_attribute("data-i") == number
    tip = page.inner_text(".tip.on")
    assert "tok/s/GPU" in tip and "on it" in tip and len(tip.splitlines()) <= 8
    page.mouse.move(5, 5)
    assert page.locator("#points tr.hot").count() == 0
    row = page.locator("#points tbody tr").nth(4)
    row.hover()
    assert page.locator(".chart .pt.hot").get_attribute("data-i") == row.get_attribute("data-i")


def test_click_opens_the_point_and_walks_to_what_dominates_it(show: Any) -> None:
    page = show("all")
    row = page.locator("#points tbody tr.dominated").first
    row.click()
    drawer = page.locator("#drawer")
    assert "Dominated by" in drawer.inner_text()
    assert "ridgeline sweep benchmarks/sample.yaml --trace 'two words.jsonl' --cells model-a-" in drawer.inner_text()
    first = page.url
    page.click(".verdict")
    assert page.url != first and "on frontier" in drawer.inner_text()
    page.keyboard.press("Escape")
    assert not page.evaluate("document.body.classList.contains('drawer-open')")
    assert "p=" not in page.url


def test_a_degraded_point_says_why_it_is_on_no_frontier(show: Any) -> None:
    page = show("all")
    page.mouse.click(*middle(page.locator(".chart .pt.degraded").first))
    text = page.inner_text("#drawer")
    assert "⊘ degraded" in text and "the log shows 32" in text and "never enters a frontier" in text


def test_a_missing_value_gives_its_reason_in_the_drawer(show: Any) -> None:
    page = show("all", "#x=ttft.p50&sort=c:up")
    points, _ = sample.every_state()
    gone = next(point for point in points if point.value("interactivity.p50") is None)
    page.goto(page.url + f"&p={gone.id}&x=interactivity.p50")
    assert "Fewer than 20 requests finished in the window." in page.inner_text("#drawer")
    assert "not measured" in page.inner_text("#drawer")


def test_headers_sort_and_say_so(show: Any) -> None:
    page = show("all")
    page.click("[data-column=c]")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Conc.")
    page.click("[data-column=c]")
    assert page.locator("th[aria-sort=ascending]").count() == 1
    column = [int(text) for text in page.locator("#points tbody td:nth-child(3)").all_inner_texts()]
    assert column == sorted(column)
    assert page.evaluate("document.activeElement.dataset.column") == "c"


def test_axes_switch_with_their_frontier_and_formula(show: Any) -> None:
    page = show("all")
    before = page.locator("#points").inner_text()
    page.click("[data-slot=x]")
    page.locator(".pop li", has_text="End-to-end latency, median").hover()
    assert "last chunk with generated content" in page.inner_text(".formula")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.slot") == "x"
    page.click("[data-slot=x]")
    page.locator(".pop li", has_text="End-to-end latency, median").click()
    assert "x=e2e_latency.p50" in page.url
    assert page.inner_text("#answer").startswith("At 20 s of median end-to-end latency or less")
    assert page.locator(".chart .better").get_attribute("text-anchor") == "start"
    assert page.locator("#points").inner_text() != before


def test_the_link_brings_the_view_back(show: Any) -> None:
    page = show("all")
    page.click("[data-slot=y]")
    page.locator(".pop li", has_text="Output throughput per GPU").click()
    page.click("[data-log=y]")
    page.locator(".srow").nth(1).click()
    page.click("[data-rows=frontier]")
    page.click("[data-column=c]")
    page.click("[data-step='1']")
    page.locator("#points tbody tr").nth(2).click()
    link = page.url.partition("#")[2]
    assert all(f"{name}=" in link for name in ("y", "log", "hide", "rows", "sort", "limit", "p"))
    other = show("all", f"#{link}")
    assert other.url.partition("#")[2] == link
    for part in ("#question", "#answer", "#series", "#points", "#drawer"):
        assert other.inner_text(part) == page.inner_text(part), part
    assert not other.is_visible("#notice")


def test_a_plain_view_has_a_plain_link(show: Any) -> None:
    page = show("all")
    assert "#" not in page.url
    page.click("[data-log=y]")
    page.click("[data-log=y]")
    assert "#" not in page.url


def test_what_a_link_asks_in_vain_is_said(show: Any) -> None:
    page = show("all", "#colour=red&x=nonsense&limit=-3&log=y")
    notice = page.inner_text("#notice")
    assert "“colour”" in notice and "“nonsense”" in notice and "“-3”" in notice and "log" not in notice
    page.click("#notice button")
    assert not page.is_visible("#notice")


def test_keys_walk_the_plot_and_each_step_is_spoken(show: Any) -> None:
    page = show("all")
    page.focus("#plot")
    page.keyboard.press("ArrowRight")
    first = page.inner_text("#spoken")
    page.keyboard.press("ArrowRight")
    second = page.inner_text("#spoken")
    assert first and second and first != second and "tok/s/GPU" in second
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#spoken").split(",")[0] != second.split(",")[0]
    page.keyboard.press("Enter")
    assert page.evaluate("document.body.classList.contains('drawer-open')")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "plot"


def test_keys_walk_the_table(show: Any) -> None:
    page = show("all")
    page.locator("#points tbody tr").first.focus()
    page.keyboard.press("ArrowDown")
    number = page.evaluate("document.activeElement.dataset.i")
    assert number == page.locator("#points tbody tr").nth(1).get_attribute("data-i")
    assert page.locator(".chart .pt.hot").get_attribute("data-i") == number
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.i") == number


def test_the_limit_is_a_slider_and_never_interpolates(show: Any) -> None:
    page = show("all")
    page.focus(".limit-handle")
    page.keyboard.press("PageUp")
    assert "limit=" in page.url and page.evaluate("document.activeElement.getAttribute('role')") == "slider"
    value = page.locator(".srow .val").first.inner_text().splitlines()[0]
    assert value in page.locator("#points tbody td:nth-child(5)").all_inner_texts()
    page.keyboard.press("End")
    assert "No measured point reaches" in page.inner_text("#answer")


def test_hiding_a_series_moves_no_colour(show: Any) -> None:
    page = show("all")
    before = page.locator(".chart .series").evaluate_all(LINES)
    page.locator(".srow").first.click()
    after = page.locator(".chart .series").evaluate_all(LINES)
    assert len(after) == len(before) - 1 and all(pair in before for pair in after)
    assert page.locator(".srow").count() == 5
    assert page.locator(".srow").first.get_attribute("aria-pressed") == "false"


def test_emulated_is_unmistakable_and_never_leads_unasked(show: Any) -> None:
    page = show("emulated")
    assert page.inner_text("#answer").startswith("No point here is measured. emulated at ")
    assert "No GPU took part in this run" in page.inner_text(".banner")
    assert page.locator(".chart .ribbon").count() == 2
    assert page.locator(".chart .tag").count() == 2
    assert page.locator("#points tr.unmeasured").count() == page.locator("#points tbody tr").count()
    assert "from emulated points" in page.inner_text("#question")


def test_workloads_are_chosen_in_the_sentence(show: Any) -> None:
    page = show("emulated")
    page.click("[data-slot=on]")
    page.locator(".pop li", has_text="recorded agent sessions").click()
    assert "p90 interactivity" in page.inner_text("#question") and "on=agentic" in page.url
    assert page.locator(".srow").count() == 1


def test_a_logarithmic_axis_counts_what_it_drops(show: Any) -> None:
    page = show("zero")
    assert page.locator(".chart .pt").count() == 3
    page.click("[data-log=y]")
    assert page.locator(".chart .pt").count() == 2
    assert "1 at zero on a logarithmic axis" in page.inner_text("#left-out summary")


def test_hostile_strings_do_nothing(show: Any) -> None:
    page = show("hostile")
    page.mouse.click(*middle(frontier_mark(page, 0)))
    page.click("#left-out summary")
    page.click("[data-slot=x]")
    assert page.evaluate("window.hit") is None
    assert HOSTILE in page.inner_text("#drawer") and HOSTILE in page.inner_text("#left-out")
    assert page.locator("#drawer img, #points img, #left-out img").count() == 0


def test_a_run_without_points_says_what_failed(show: Any) -> None:
    page = show("empty")
    assert page.inner_text("#question") == "This run has no point yet."
    assert "No cell of this run has finished." in page.inner_text("#empty")
    assert page.inner_text("#left-out summary").strip().startswith("2 not plotted: 2 failed")


@pytest.mark.parametrize("name", ["all", "emulated", "empty"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1000, 1440])
def test_nothing_scrolls_sideways_and_no_text_is_too_small_or_pale(
    show: Any, name: str, theme: str, width: int
) -> None:
    page = show(name, width=width, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(AUDIT) == []
    if name != "empty":
        page.locator("#points tbody tr").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(AUDIT) == []


def test_the_picture_needs_no_page(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "frontier.svg"
    file.write_text(render_picture(sample.emulated_points(), header=sample.HEADER), encoding="utf-8")
    page = browser.new_page(color_scheme="dark")
    page.goto(f"file://{file}")
    red, green, blue = (int(colours()["surface"].dark[at : at + 2], 16) for at in (1, 3, 5))
    fill = page.evaluate("getComputedStyle(document.querySelector('.paper')).fill")
    assert fill == f"rgb({red}, {green}, {blue})"
    boxes = "[...document.querySelectorAll('text')].map(t => t.getBBox()).map(b => [b.x, b.x + b.width])"
    widths = page.evaluate(boxes)
    assert all(left >= 0 and right <= 960 for left, right in widths)
    page.close()


def test_without_scripts_there_are_a_picture_and_a_table(browser: Any, files: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{files['emulated']}")
    assert page.locator("noscript img").count() == 1 and page.locator("noscript img").is_visible()
    assert page.locator("#points tbody tr").count() == len(sample.emulated_points())
    assert not page.locator("#plot").is_visible() and not page.locator("#csv").is_visible()
    context.close()


@pytest.mark.parametrize("axis", ["interactivity.p50", "e2e_latency.p50"])
def test_the_first_limit_is_one_that_somebody_reaches(show: Any, axis: str) -> None:
    page = show("single", f"#x={axis}")
    assert "leads" in page.inner_text("#answer")
    assert page.locator(".srow .val").inner_text().endswith("TP2 · c4")
