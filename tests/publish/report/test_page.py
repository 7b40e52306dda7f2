from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.publish.report import sample

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.point import Caution
from ridgeline.publish.report import render_report, write_report, write_run_report
from ridgeline.publish.report.page import safe_json
from ridgeline.results.runfolder import RunFolder

HOSTILE = """</script><script>alert(1)</script><img src=x onerror="alert(2)">'"&--><!--"""
VOID = {"meta", "link", "img", "br", "input", "path", "circle", "rect"}


class Page(HTMLParser):
    """A strict enough reading: tags must close in order; text and attributes are kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def cells(self) -> list[str]:
        return [text for tag, text in self.texts if tag == "td"]


@pytest.fixture(scope="module")
def html() -> str:
    points, failed = sample.every_state()
    return render_report(points, failed, header=sample.HEADER)


def hostile_html() -> str:
    cell = sample.cell("h200", "vllm", 2, 1)
    benchmark = replace(cell.benchmark, key=HOSTILE, model=HOSTILE, image=HOSTILE, precision=HOSTILE, framework=HOSTILE)
    point = sample.point(replace(cell, benchmark=benchmark), cautions=(Caution(HOSTILE, HOSTILE, HOSTILE),))
    header = replace(sample.HEADER, name=HOSTILE, command=(HOSTILE,), settings={HOSTILE: HOSTILE})
    return render_report([point], [sample.Exclusion(HOSTILE, HOSTILE, HOSTILE, HOSTILE)], header=header)


def embedded(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_page_is_well_formed_and_refers_to_nothing_outside(html: str) -> None:
    page = Page(html)
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "srcset", "poster", "data"):
            value = attributes.get(name, "")
            assert not value or value.startswith("data:"), f"<{tag} {name}>"
    assert not re.search(r"@import|url\((?!#)", re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1])  # type: ignore[index]
    assert set(re.findall(r"https?://[^\"'\s<>]+", html)) <= {"http://www.w3.org/2000/svg"}


def test_the_policy_lets_in_exactly_what_is_inlined(html: str) -> None:
    page = Page(html)
    [policy] = [meta["content"] for meta in page.of("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy

    def named(kind: str, text: str) -> bool:
        return f"{kind} 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy

    assert named("style-src", re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1])  # type: ignore[index]
    assert named("script-src", re.search(r'<script type="module">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    assert not any(name == "style" or name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_every_point_is_in_the_data_and_in_the_plain_table(html: str) -> None:
    points, failed = sample.every_state()
    data, cells = embedded(html), Page(html).cells()
    assert [point["id"] for point in data["points"]] == [point.id for point in points]
    assert [point.name for point in points] == cells[::4]
    assert len(data["absent"]) == len(failed)
    assert cells.count("not measured") == 1


def test_hostile_strings_stay_strings() -> None:
    html = hostile_html()
    page = Page(html)
    assert len(page.of("script")) == 2
    assert [attributes["src"][:5] for attributes in page.of("img")] == ["data:"]
    data = embedded(html)
    assert data["points"][0]["cautions"][0]["message"] == HOSTILE
    assert data["models"] == [HOSTILE]
    assert any(HOSTILE in text for tag, text in page.texts if tag == "title")


def test_hostile_strings_stay_strings_in_the_picture() -> None:
    [image] = Page(hostile_html()).of("img")
    svg = base64.b64decode(image["src"].partition(",")[2]).decode()
    assert "<script" not in svg and "<img" not in svg


def test_json_in_a_page_cannot_leave_its_element() -> None:
    text = safe_json({HOSTILE: ["\u2028", "é", "<", ">", "&"]})
    assert not set("<>&") & set(text) and text.isascii()
    assert json.loads(text) == {HOSTILE: ["\u2028", "é", "<", ">", "&"]}


def test_a_run_without_measured_points_says_so_first() -> None:
    emulated = render_report(sample.emulated_points(), [], header=sample.HEADER)
    assert 'class="banner hatch"' in emulated and "No GPU took part in this run" in emulated


def test_a_run_with_measured_points_has_no_such_banner(html: str) -> None:
    assert 'class="banner' not in html


def test_a_run_without_points_has_a_page() -> None:
    _, failed = sample.every_state()
    html = render_report([], failed, header=sample.HEADER)
    Page(html)
    assert "This run has no point yet." in html
    assert len(embedded(html)["absent"]) == len(failed)


def test_the_same_run_gives_the_same_bytes(html: str) -> None:
    points, failed = sample.every_state()
    assert render_report(points, failed, header=sample.HEADER) == html


def test_the_page_says_what_the_run_was(html: str) -> None:
    cells = [text for tag, text in Page(html).texts if tag in ("dd", "pre")]
    assert "sample sessions" in cells
    assert any(text.startswith("ridgeline sweep benchmarks/sample.yaml") for text in cells)


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    out = write_report(sample.emulated_points(), [], header=sample.HEADER, out=tmp_path / "deep" / "r.html")
    assert out.read_text(encoding="utf-8").endswith("</html>")
    assert [path.name for path in out.parent.iterdir()] == ["r.html"]
    with pytest.raises(EnvironmentFailed, match="cannot write"):
        write_report([], [], header=sample.HEADER, out=out / "below-a-file.html")


def test_a_run_folder_becomes_its_report(tmp_path: Path) -> None:
    cell = sample.cell("h200", "emulated", 2, 4)
    with RunFolder.create_or_open(tmp_path / "run", sample.HEADER) as run:
        run.write_cell(cell, sample.point(cell, sample.Source.EMULATED), None, None)
        run.write_failure(sample.cell("h200", "emulated", 2, 8), "f" * 64, "launch", "the port is taken")
    out = write_run_report(RunFolder.open(tmp_path / "run"))
    assert out == tmp_path / "run" / "report.html"
    data = embedded(out.read_text(encoding="utf-8"))
    assert len(data["points"]) == 1
    assert [(item["what"], item["name"], item["reason"]) for item in data["absent"]] == [
        (cell.line, "c8", "launch: the port is taken")
    ]
