"""Every page and answer, from run folders, invented points and hostile ones."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.golden import ROOT
from tests.publish.report import sample as report
from tests.publish.web import sample
from tests.publish.web.client import Client, client

from ridgeline.core.point import Caution, Measure, Point
from ridgeline.publish.web.folders import FolderShelf
from ridgeline.publish.web.pages import PAGES
from ridgeline.results.frontier import Exclusion, frontier
from ridgeline.results.metrics import axis

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

HOSTILE = '<img src=x onerror="window.hit=1"></script><script>window.hit=1</script>\'"&{{7*7}}${7*7}=1+1'


class Elements(HTMLParser):
    """Every start tag with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Client:
    path = tmp_path_factory.mktemp("runs")
    sample.folder(path, "mine")
    return client(FolderShelf([path]))


@pytest.fixture(scope="module")
def invented() -> Client:
    return client(sample.every_state())


def first(of: Client, query: str = "") -> str:
    return str(of.get(f"/api/v1/points?q={query}").json()["points"][0]["id"])


def test_every_page_of_the_table_answers_in_the_frame(mine: Client) -> None:
    for page in PAGES:
        answer = mine.get(page.path)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html"), page.path
        links = [a["href"] for tag, a in Elements(answer.text).tags if tag == "a"]
        assert all(other.path in links for other in PAGES)
        assert f'aria-current="page" title="{page.title}' in answer.text.replace("&#39;", "'")


def test_pages_hold_no_inline_script_style_or_foreign_address(mine: Client) -> None:
    paths = [page.path for page in PAGES] + ["/runs/mine", f"/points/{first(mine)}", "/nothing"]
    for path in paths:
        for tag, attributes in Elements(mine.get(path).text).tags:
            assert "style" not in attributes and tag != "style", path
            assert not any(name.startswith("on") for name in attributes), path
            if tag == "script" and "src" not in attributes:
                assert attributes.get("type") == "application/json"
            for name in ("src", "href", "action"):
                assert (attributes.get(name) or "/").startswith(("/", "#")), (path, attributes)


def test_a_page_without_anything_says_what_to_do(tmp_path: Path) -> None:
    empty = client(FolderShelf([tmp_path]))
    for page in PAGES:
        assert empty.get(page.path).status_code == 200, page.path
    assert "ridgeline sweep" in empty.get("/runs").text
    assert "Two runs are needed" in empty.get("/compare").text
    assert empty.get("/api/v1/frontier").json()["series"] == []


def test_the_frontier_s_answer_has_units_witnesses_and_provenance(invented: Client) -> None:
    answer = invented.get("/api/v1/frontier?y=throughput_per_gpu.output").json()
    points, _ = report.every_state()
    found = frontier(points, axis("interactivity.p50"), axis("throughput_per_gpu.output"), mix_sources=True)
    assert sum(len(series["frontier"]) for series in answer["series"]) == len(found.members)
    assert answer["axes"]["y"] == {"measure": "throughput_per_gpu.output", "unit": "tok/s/GPU", "better": "higher"}
    assert answer["excluded_counts"] == found.excluded_counts
    assert answer["provenance"]["dataset_version"] and answer["provenance"]["code"].startswith("ridgeline ")
    one = answer["points"][answer["series"][0]["frontier"][0]["id"]]
    assert one["measures"]["interactivity.p50"]["unit"] == "tok/s/user" and one["source"] in one["series"]
    gone = [item for item in answer["excluded"] if item["code"] == "missing"]
    assert "Fewer than 20 requests" in gone[0]["reason"]


def test_an_answer_is_sent_once_for_each_version(mine: Client) -> None:
    for path in (
        "/api/v1/frontier",
        "/api/v1/runs",
        "/api/v1/chart",
        f"/api/v1/points/{first(mine)}",
        "/api/v1/export.csv",
    ):
        answer = mine.get(path)
        tag = answer.headers["etag"]
        again = mine.get(path, headers={"if-none-match": tag})
        assert again.status_code == 304 and again.content == b"", path
    assert mine.get("/api/v1/frontier?x=ttft.p50").headers["etag"] != mine.get("/api/v1/frontier").headers["etag"]


WRITER = """
import sys
from pathlib import Path
from tests.publish.report import sample as report
from ridgeline.results.runfolder import RunFolder
path = Path(sys.argv[1])
with RunFolder.create_or_open(path, RunFolder.open(path).header) as folder:
    cell = report.cell("h200", "emulated", 2, 8, scenario=report.AGENTIC)
    folder.write_cell(cell, report.point(cell), None, None)
    print("written", flush=True)
    sys.stdin.read()
"""


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Another process holds the run's lock (a process does not see its own) and has written a cell."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as writer:
        assert writer.stdout is not None and writer.stdin is not None
        assert writer.stdout.readline() == "written\n"
        try:
            yield
        finally:
            writer.stdin.close()


def test_a_new_cell_makes_a_new_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.publish.web.folders.LOOK_AGAIN_S", 0.0)
    sample.folder(tmp_path, "mine")
    shown = client(FolderShelf([tmp_path]))
    before, tag = shown.get("/api/v1/version").json(), shown.get("/api/v1/runs").headers["etag"]
    assert shown.get("/api/v1/version").json() == before
    with written_to(tmp_path / "mine"):
        [row] = shown.get("/api/v1/runs").json()["runs"]
        assert row["live"] and row["points"] == 4
    assert shown.get("/api/v1/version").json()["version"] != before["version"]
    assert shown.get("/api/v1/runs", headers={"if-none-match": tag}).status_code == 200
    assert shown.get("/api/v1/runs").json()["runs"][0]["live"] is False


def test_a_running_sweep_says_where_it_is(tmp_path: Path) -> None:
    sample.folder(tmp_path, "mine")
    with written_to(tmp_path / "mine"):
        live = tmp_path / "mine" / ".live"
        live.mkdir()
        progress = {"phase": "profiling", "done": 1234, "in_flight": 7}
        cells = [
            {"name": "a/8k1k/TP2/c1", "run_key": "k", "state": "done"},
            {"name": "a/8k1k/TP2/c2", "run_key": "l", "state": "replay", "progress": progress},
            {"name": "a/8k1k/TP2/c4", "run_key": "m", "state": "waiting"},
        ]
        (live / "state.json").write_text(json.dumps({"pid": 1, "cells": cells, "over": False}))
        page = client(FolderShelf([tmp_path])).get("/runs").text
    assert "a/8k1k/TP2/c2: profiling, 1,234 requests done, 7 in flight" in page and "1 of 3 cells" in page


def test_a_damaged_cell_is_named_and_hides_nothing(tmp_path: Path) -> None:
    sample.folder(tmp_path, "mine")
    cells = sorted((tmp_path / "mine" / "cells").iterdir())
    (cells[0] / "point.json").write_text("{")
    run = client(FolderShelf([tmp_path])).get("/api/v1/runs/mine").json()
    assert len(run["points"]) == 2
    assert {failure["layer"] for failure in run["failures"]} == {"start", "unreadable"}


def test_a_point_s_page_says_everything_that_is_stored(mine: Client) -> None:
    id = first(mine, "c1")
    page = mine.get(f"/points/{id}").text
    for text in (
        "contradicted",
        "unproven",
        "900 (engine.log:12)",
        "--tp",
        "a.yaml:7",
        "ridgeline sweep a.yaml --cells",
        "engine.log",
    ):
        assert text in page, text
    answer = mine.get(f"/api/v1/points/{id}").json()
    assert answer["measures"]["ttft.p50"]["unit"] == "s" and answer["source"] == "emulated"
    missing = answer["measures"]["tpot.p99"]
    assert missing["value"] is None and missing["reason"] == "100 samples: a p99 needs 500"


def test_requests_server_metrics_and_logs_of_a_point(mine: Client) -> None:
    id = first(mine, "c1")
    table = pq.read_table(io.BytesIO(mine.get(f"/api/v1/points/{id}/requests").content))
    assert table.num_rows == 60
    one = mine.get(f"/api/v1/points/{id}/requests/10").json()
    assert one["outcome"] == "timeout" and one["ttft_s"] is None and one["lag_s"] == 0.05
    assert mine.get(f"/api/v1/points/{id}/requests/999").status_code == 404
    panels = {panel["key"] for panel in mine.get(f"/api/v1/points/{id}/server-metrics").json()["panels"]}
    assert panels == {"kv", "running", "hit", "tokens", "ttft", "flight"}
    log = mine.get(f"/api/v1/points/{id}/logs/engine.log?start=990").json()
    assert log["lines"][0] == [990, "line 990: all is well"] and not log["more"]
    found = mine.get(f"/api/v1/points/{id}/logs/engine.log?q=warning").json()["lines"]
    assert found == [[1000, "WARNING the pool is small"]]
    assert len(mine.get(f"/api/v1/points/{id}/logs/engine.log?q=line").json()["lines"]) == 50
    assert mine.get(f"/api/v1/points/{id}/logs/..%2fpoint.json").status_code == 404
    other = first(mine, "c4")
    assert mine.get(f"/api/v1/points/{other}/timeline").status_code == 404
    assert "No requests are stored" in mine.get(f"/points/{other}").text


def test_exports_tell_missing_from_zero_and_name_the_source(invented: Client) -> None:
    rows = list(csv.DictReader(io.StringIO(invented.get("/api/v1/export.csv").text)))
    points, _ = report.every_state()
    assert len(rows) == sum(len(point.measures) for point in points)
    gone = [row for row in rows if row["measure"] == "tpot.p99"]
    assert all(row["value"] == "" and row["reason"] for row in gone)
    zero = [row for row in rows if row["measure"] == "error_rate"]
    assert all(row["value"] == "0.0" and not row["reason"] for row in zero)
    assert {row["source"] for row in rows} == {"measured", "emulated", "predicted"}
    table = pq.read_table(io.BytesIO(invented.get("/api/v1/export.parquet").content))
    assert table.num_rows == len(rows) and table.column("value").null_count == sum(row["value"] == "" for row in rows)


def test_exports_never_hold_a_laid_over_run() -> None:
    over = sample.shelf(sample.run("theirs", report.ladder("gb200", "vllm")))
    shown = client(sample.every_state(), overlays=(over,))
    assert "gb200" not in shown.get("/api/v1/export.csv?overlay=theirs").text
    assert "gb200" in shown.get("/api/v1/chart?overlay=theirs").text


def test_two_runs_are_compared_with_verdicts_and_changes() -> None:
    points = report.ladder("h200", "vllm")
    worse = [
        replace(p, provenance={"engine_version": "1.3.0"})
        for p in sample.scaled(points, 0.8, "2026-06-01T00:00:00+00:00")
    ]
    old, new = sample.run("old", points), sample.run("new", worse, at="2026-06-01T00:00:00+00:00")
    shown = client(sample.shelf(old, new))
    page = shown.get("/compare").text
    assert "B is <b>worse</b>" in page and "1.2.3 → <b>1.3.0</b>" in page and "−20.0 %" in page
    answer = shown.get("/api/v1/runs/old/compare/new").json()
    assert answer["verdict"] == "worse" and len(answer["points"]) == len(points)
    assert "Yes: the last run is worse" in shown.get("/gates").text
    swapped = shown.get("/compare?a=new&b=old").text
    assert "B is <b>better</b>" in swapped
    assert "“verdict” has no value “bad” here" in shown.get("/compare?verdict=bad").text
    assert shown.get("/api/v1/runs/old/compare/none").status_code == 404


def test_channels_are_kept_apart() -> None:
    shelves = [
        sample.shelf(sample.run(name, report.ladder(hardware, "vllm")), channel=channel)
        for name, hardware, channel in (
            ("mine", "h200", "local"),
            ("wait", "b200", "staging"),
            ("out", "mi355x", "published"),
        )
    ]
    shown = client(*shelves)
    usual = shown.get("/api/v1/frontier").json()
    assert usual["question"]["channel"] == "published"
    assert all("mi355x" in series["key"] for series in usual["series"])
    staged = shown.get("/api/v1/frontier?channel=staging").json()
    assert all("b200" in series["key"] for series in staged["series"])
    assert "wait for somebody" in shown.get("/?channel=staging").text
    assert 'aria-current="true">Staging' in shown.get("/?channel=staging").text


def hostile_point(point: Point) -> Point:
    measures = {
        **point.measures,
        f"x{HOSTILE}": Measure(None, HOSTILE, reason=HOSTILE),
        "power.avg_power_w": Measure(1.0, HOSTILE),
    }
    facts = {
        name: HOSTILE if isinstance(value, str) and name != "scenario" else value for name, value in point.facts.items()
    }
    return replace(
        point,
        name=f"{HOSTILE}/a/b/c1",
        line=f"{HOSTILE}/a/b",
        series=HOSTILE,
        facts={**facts, HOSTILE: HOSTILE},
        measures=measures,
        reasons=(HOSTILE,),
        cautions=(Caution(HOSTILE, HOSTILE, HOSTILE),),
        measured_at=HOSTILE,
        provenance={HOSTILE: HOSTILE, "image": HOSTILE},
    )


def hostile() -> Client:
    points = [hostile_point(report.point(report.cell("h200", "vllm", 2, c))) for c in (1, 2)]
    header = replace(
        sample.HEADER, name=HOSTILE, command=(HOSTILE, HOSTILE), settings={HOSTILE: HOSTILE}, host={HOSTILE: HOSTILE}
    )
    entry = {"date": HOSTILE, "description": HOSTILE, "config_keys": [HOSTILE], "link": "javascript:window.hit=1"}
    failed = [Exclusion(HOSTILE, HOSTILE, HOSTILE, HOSTILE)]
    one = sample.held("one", header, points, failed, changelog=[entry], url="javascript:window.hit=1")
    later = replace(header, created_at="2026-09-09T00:00:00+00:00", name=f"two {HOSTILE}")
    two = sample.held("two", later, [replace(p, provenance={"image": "other"}) for p in points], failed)
    return client(sample.shelf(one, two))


def test_hostile_strings_stay_strings_on_every_page() -> None:
    shown = hostile()
    id = first(shown)
    paths = [page.path for page in PAGES] + [
        "/runs/one",
        f"/points/{id}",
        f"/points?q={HOSTILE}",
        f"/data?q=SELECT '{HOSTILE}'",
    ]
    for path in paths:
        text = shown.get(path).text
        tags = Elements(text).tags
        assert not any(tag == "img" for tag, _ in tags), path
        assert not any(tag == "script" and "src" not in a and a.get("type") != "application/json" for tag, a in tags), (
            path
        )
        assert not any((a.get("href") or "").startswith("javascript:") for _, a in tags), path
        assert not any(name.startswith("on") for _, a in tags for name in a), path
        assert "49" not in text or "{{7*7}}" in text or "7*7" not in text, path


def test_a_spreadsheet_takes_no_text_for_a_formula() -> None:
    point = replace(report.point(report.cell("h200", "vllm", 2, 1)), name="=cmd()/a/b/c1")
    text = client(sample.shelf(sample.run("r", [point]))).get("/api/v1/export.csv").text
    assert ",'=cmd()/a/b/c1," in text and ",=cmd()" not in text


def test_the_interface_is_described(mine: Client) -> None:
    described = mine.get("/api/openapi.json").json()
    for path in (
        "frontier",
        "points",
        "points/{address}",
        "points/{address}/timeline",
        "runs",
        "runs/{a}/compare/{b}",
        "sql",
        "export.csv",
        "export.parquet",
        "metrics",
        "health",
        "version",
        "changelog",
        "gates",
        "traces",
    ):
        assert f"/api/v1/{path}" in described["paths"], path
    assert all(op.get("description") for item in described["paths"].values() for op in item.values())
    metrics = mine.get("/api/v1/metrics").json()
    assert metrics["ttft"]["unit"] == "s" and metrics["ttft"]["formula"]


def test_errors_are_sentences_in_the_form_that_was_asked_for(mine: Client) -> None:
    assert mine.get("/api/v1/points/none").json() == {
        "error": "There is no such point here. It may lie in a channel this server does not show."
    }
    page = mine.get("/points/none")
    assert page.status_code == 404 and "There is no such point here." in page.text and 'class="rail"' in page.text
    assert mine.get("/api/v1/points?count=99999").status_code == 400


def test_words_search_points(invented: Client) -> None:
    every = invented.get("/api/v1/points").json()["total"]
    some: Any = invented.get("/api/v1/points?q=b200 TP4").json()
    assert 0 < some["total"] < every and all("b200" in p["name"] and "TP4" in p["name"] for p in some["points"])
    assert "No point holds all these words" in invented.get("/points?q=zzz").text
