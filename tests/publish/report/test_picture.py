from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from tests.publish.report import sample

from ridgeline.core.errors import AnswerIsNo, InputError
from ridgeline.publish.charts.data import page_data
from ridgeline.publish.charts.tokens import colours
from ridgeline.publish.report import render_picture

SVG = "{http://www.w3.org/2000/svg}"


def draw(points: Any, **more: Any) -> ElementTree.Element:
    return ElementTree.fromstring(render_picture(points, header=sample.HEADER, **more))


def classes(root: ElementTree.Element) -> list[set[str]]:
    return [set((node.get("class") or "").split()) for node in root.iter()]


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def test_every_plotted_point_has_a_mark_and_every_series_a_line_and_a_name() -> None:
    points, _ = sample.every_state()
    root = draw(points)
    page = page_data(points, [], header=sample.HEADER)
    plotted = [
        p
        for p in page["points"]
        if p["validity"] != "invalid" and {"interactivity.p50", "throughput_per_gpu.total"} <= p["v"].keys()
    ]
    marks = [c for c in classes(root) if c & {"mark", "hollow"}]
    assert len(marks) == len(plotted)
    assert sum("line" in c for c in classes(root)) == len(page["series"])
    assert {series["name"] for series in page["series"]} <= set(texts(root))


def test_what_is_not_measured_is_hatched_hollow_and_named() -> None:
    root = draw(sample.emulated_points())
    found = classes(root)
    assert sum("ribbon" in c for c in found) == 2
    assert texts(root).count("emulated") == 2
    assert not any("mark" in c for c in found)
    assert any("28 emulated points" in text for text in texts(root))


def test_measured_lines_have_no_hatch() -> None:
    found = classes(draw(sample.ladder("h200", "vllm")))
    assert not any(c & {"ribbon", "dots", "tag"} for c in found)


def test_everything_stays_inside_the_paper() -> None:
    points, _ = sample.every_state()
    root = draw(points, x="ttft.p90")
    for node in root.iter(f"{SVG}text"):
        assert 0 <= float(node.get("x", 0)) <= 960 and 0 <= float(node.get("y", 0)) <= 540


@pytest.mark.parametrize(("x", "corner"), [("interactivity.p50", "end"), ("e2e_latency.p50", "start")])
def test_the_good_corner_follows_the_axes(x: str, corner: str) -> None:
    root = draw(sample.ladder("h200", "vllm"), x=x)
    [hint] = [node for node in root.iter(f"{SVG}text") if node.get("class") == "better"]
    assert hint.get("text-anchor") == corner


def test_colours_are_the_tokens_in_both_themes() -> None:
    svg = render_picture(sample.ladder("h200", "vllm"), header=sample.HEADER)
    light, dark = svg.split("@media (prefers-color-scheme:dark)")
    known = {value for pair in colours().values() for value in pair}
    assert colours()["surface"].light in light and colours()["surface"].dark in dark
    used = set(re.findall(r"(?:stroke|[^e]\{fill):(#[0-9a-f]{6})", re.sub(r"\.name\.t\d+\{[^}]*\}", "", svg)))
    assert used <= known


def test_a_measure_that_is_not_offered_is_refused_with_the_choice() -> None:
    with pytest.raises(InputError, match=r"interactivity\.p50"):
        draw(sample.ladder("h200", "vllm"), x="wall_colour")


def test_nothing_to_draw_is_an_answer() -> None:
    with pytest.raises(AnswerIsNo, match="no point"):
        draw([])
