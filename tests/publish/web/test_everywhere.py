"""What holds on every page and in every answer: sources are told, unknown settings noticed, validators sent."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.golden import ROOT
from tests.publish.report import sample as report
from tests.publish.staging.runs import points as store_points
from tests.publish.staging.runs import run as store_run
from tests.publish.web import sample
from tests.publish.web.client import Client, client
from tests.publish.web.test_pages import HOSTILE, Elements, first, hostile_point
from tests.publish.web.test_value import score, sheet

from ridgeline.cli.serve import given
from ridgeline.core.point import Source
from ridgeline.publish.staging import moves
from ridgeline.publish.web.folders import FolderShelf
from ridgeline.publish.web.pages import PAGES
from ridgeline.publish.web.stored import Kept, StoreShelf
from ridgeline.results.runfolder import RunFolder
from ridgeline.results.store import Store
from ridgeline.trace.synth import quickstart_trace

pytestmark = pytest.mark.integration  # takes seconds of processor time
UNMEASURED = (Source.EMULATED, Source.PREDICTED)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A server with everything that answers may be about: a run folder, a config, a trace."""
    path = tmp_path_factory.mktemp("runs")
    sample.folder(path, "mine")
    sample.folder(path, "yours")
    told = given([ROOT / "benchmarks/quickstart.yaml"], [quickstart_trace()], None, None, [], None)
    return client(FolderShelf([path]), **vars(told))


def asked(path: str, of: Client) -> str:
    """A path of the description with its parts filled in."""
    parts = {
        "address": first(of, "mine c1"), "number": "10", "id": "mine", "a": "mine", "b": "yours", "name": "engine.log",
        "config": "quickstart.yaml",
    }  # fmt: skip
    if path.startswith("/api/v1/traces/"):
        parts["name"] = quickstart_trace().name
    if path.endswith("/logs/{name}"):
        log = re.search(r"<option>([^<]+)</option>", of.get(f"/points/{parts['address']}").text)
        parts["name"] = log[1] if log else ""
    return path.format(**parts) + ("?q=SELECT 1 FROM points" if path.endswith("/sql") else "")


def test_every_answer_has_a_validator_a_description_and_is_not_sent_twice(full: Client) -> None:
    described = full.get("/api/openapi.json").json()["paths"]
    reads = [path for path, item in described.items() if "get" in item and not path.endswith("/health")]
    assert len(reads) > 20
    for path in reads:
        assert len(described[path]["get"]["description"]) > 20, path
        answer = full.get(asked(path, full))
        assert answer.status_code == 200, (path, answer.text)
        again = full.get(asked(path, full), headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304 and again.content == b"", path


def test_no_page_passes_over_a_setting_it_does_not_know(full: Client) -> None:
    script = ("/", "/points/")  # their scripts say it (test_browser)
    for path in [*(page.path for page in PAGES), "/runs/mine"]:
        text = full.get(f"{path}?zzz=1&channel=moon").text
        if path not in script:
            assert "“zzz” is not a setting of this page" in text, path
        assert "moon" in text, path
        assert "Left out of the link" not in full.get(path).text, path
    for page in PAGES:
        known = "&".join(f"{key}=" for key in page.keys if key != "start")
        assert "is not a setting" not in full.get(f"{page.path}?{known}").text, page.path


@pytest.mark.parametrize("source", UNMEASURED)
def test_what_was_not_measured_says_so_in_every_view_and_export(source: Source) -> None:
    cells = [report.cell("h200", "vllm", 2, c) for c in (1, 2, 4, 8)]
    every = [report.point(cell, source) for cell in cells]
    scored = [score("m/TP8", 0.9, source=str(source))]
    again = sample.scaled(every, 1.1, "2026-07-07T00:00:00+00:00")
    shown = client(
        sample.shelf(sample.run("one", every, evaluations=scored),
            sample.run("two", again, at="2026-08-08T00:00:00+00:00"),),
        prices=sheet({"h200": 2.0}),
    )  # fmt: skip
    id = first(shown)
    for path in ("/", "/runs", "/runs/one", "/points", f"/points/{id}", "/compare", "/gates", "/cost", "/accuracy"):
        text = shown.get(path).text
        assert re.search(rf'class="badge hatch">\s*{source}', text), path
    for path in ("/runs/one", "/points", "/compare", "/gates", "/cost", "/accuracy"):
        assert shown.get(path).text.count('class="unmeasured"') >= 1, path
    assert "leads" not in shown.get("/cost").text and "is cheapest" not in shown.get("/cost").text
    rows = list(csv.DictReader(io.StringIO(shown.get("/api/v1/export.csv").text)))
    assert {row["source"] for row in rows} == {str(source)} and all(str(source) in row["series"] for row in rows)
    table = pq.read_table(io.BytesIO(shown.get("/api/v1/export.parquet").content))
    assert set(table.column("source").to_pylist()) == {str(source)}
    answer = shown.get("/api/v1/frontier").json()
    assert {one["source"] for one in answer["points"].values()} == {str(source)}
    assert all(key["source"] == str(source) for key in shown.get("/api/v1/power").json()["rows"])
    assert {one["source"] for one in shown.get("/api/v1/points").json()["points"]} == {str(source)}
    assert shown.get(f"/api/v1/points/{id}").json()["source"] == str(source)
    assert shown.get("/api/v1/evals").json()["evaluations"][0]["source"] == str(source)
    assert shown.get("/api/v1/sql?q=SELECT DISTINCT source FROM points").json()["rows"] == [[str(source)]]
    assert f"({source}: no GPU took part)" in shown.get("/gates").text
    assert shown.get("/api/v1/gates").json()["recent"][0]["sources"] == [str(source)]
    matched = shown.get("/api/v1/runs/one/compare/two").json()
    assert str(source) in json.dumps(matched)


def test_hostile_strings_stay_strings_on_the_pages_of_value_gates_and_moves(tmp_path: Path) -> None:
    every = [hostile_point(report.point(report.cell("h200", "vllm", 2, c))) for c in (1, 2)]
    told = score(HOSTILE, 0.5, task=HOSTILE, source=HOSTILE)
    scored = [{**told, "metric": HOSTILE, "measured_at": HOSTILE}]
    header = replace(sample.HEADER, name=HOSTILE)
    gate = {
        "ok": False, "repository": HOSTILE, "pull_request": HOSTILE, "head": HOSTILE, "decision": {"why": HOSTILE},
        "will_run": {"cells": [], "gpu_hours": None}, "sign_off": {"verdict": HOSTILE},
        "remarks": [{"rule": HOSTILE, "severity": "blocking", "message": HOSTILE, "where": {"file": HOSTILE}}],
        "not_proven": [{"message": HOSTILE}], "not_looked_at": {HOSTILE: HOSTILE},
        "performance": {"verdict": HOSTILE, "sentence": HOSTILE},
    }  # fmt: skip
    (tmp_path / "gate.json").write_text(json.dumps(gate))
    (tmp_path / "log.yaml").write_text(
        f"- config-keys: [{json.dumps(HOSTILE)}]\n  description: [{json.dumps(HOSTILE)}]\n"
    )
    with Store.open(tmp_path / "store") as store:
        (id,) = store.add_path(store_run(tmp_path / "a", store_points(1))).runs
        moves.stage(store, id, who=HOSTILE, note=HOSTILE)
        shelves = [StoreShelf(Kept(store), channel) for channel in ("published", "staging", "local")]  # type: ignore[arg-type]
        shown = client(
            sample.shelf(sample.held("one", header, every, evaluations=scored)),
            *shelves,
            gates={HOSTILE: tmp_path / "gate.json"},
            changelogs={HOSTILE: tmp_path / "log.yaml"},
        )
        paths = ("/accuracy?channel=local", "/cost?channel=local", "/gates", "/runs?channel=staging", f"/runs/{id}")
        for path in (*paths, *(f"{path.split('?')[0]}?q={HOSTILE}&{HOSTILE}={HOSTILE}" for path in paths)):
            text = shown.get(path).text
            tags = Elements(text).tags
            assert not any(tag == "img" for tag, _ in tags), path
            assert not any(tag == "script" and "src" not in a and "type" not in a for tag, a in tags), path
            assert not any(name.startswith("on") for _, a in tags for name in a), path
        for path in paths:
            assert HOSTILE[:40] in html.unescape(shown.get(path).text), path


def test_moves_between_channels_have_their_receipts_on_the_pages(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        (id,) = store.add_path(store_run(tmp_path / "a", store_points(1, 2))).runs
        shown = client(*(StoreShelf(Kept(store), channel) for channel in ("published", "staging", "local")))  # type: ignore[arg-type]
        moves.stage(store, id, who="ann", note="looks fine")
        receipt = moves.promote(store, id, who="bob")
        [came] = shown.get("/api/v1/receipts?channel=published").json()["receipts"]
        assert (came["run"], came["before"], came["who"], came["digest"]) == (id, "staging", "bob", receipt.digest)
        text = shown.get("/runs?channel=published").text
        assert "from staging by bob" in text and (receipt.digest or "")[:12] in text and f'href="/runs/{id}"' in text
        assert "looks fine" in shown.get("/runs?channel=staging").text  # it came, and it left
        assert "by ann: looks fine" in shown.get(f"/runs/{id}").text
        moves.withdraw(store, id, who="eve", note="wrong clocks")
        gone = shown.get("/runs?channel=published").text
        assert "✕ withdrawn</span> from published by eve: wrong clocks" in gone and f'href="/runs/{id}"' not in gone
        assert [one.channel for one in moves.receipts(store, id)][-3:] == ["staging", "published", "withdrawn"]
    assert "Moves between channels" not in client(sample.every_state()).get("/runs").text


def test_an_evaluation_of_a_sweep_is_shown_and_what_is_damaged_hides_nothing(tmp_path: Path) -> None:
    sample.folder(tmp_path, "mine")
    shelf = FolderShelf([tmp_path])
    before = shelf.version()
    told = {"name": "a/agentic/TP2/c8", "task": "gsm8k", "metric": "em", "score": 0.9, "stderr": 0.01, "samples": 7}
    for name, body in (("eval_a", {**told, "concurrency": 8, "source": "emulated"}), ("eval_b", {"no": 1})):
        place = tmp_path / "mine/evals" / name
        place.mkdir(parents=True)
        (place / "evaluation.json").write_text(json.dumps(body))
    fresh = FolderShelf([tmp_path])
    assert fresh.version() != before
    [row] = client(fresh).get("/api/v1/evals").json()["evaluations"]
    assert (row["line"], row["score"], row["n"], row["source"]) == ("a/agentic/TP2", 0.9, 7, "emulated")
    assert "some of them emulated" in client(fresh).get("/accuracy").text
    with Store.open(tmp_path / "store") as store:
        (tmp_path / "mine/evals/eval_b/evaluation.json").unlink()
        told = {**json.loads((tmp_path / "mine/evals/eval_a/evaluation.json").read_text()), "status": "passed"}
        (tmp_path / "mine/evals/eval_a/evaluation.json").write_text(json.dumps(told))
        store.add_path(tmp_path / "mine")
        [kept] = client(StoreShelf(Kept(store), "local")).get("/api/v1/evals").json()["evaluations"]
        assert {name: kept[name] for name in ("line", "score", "n", "source")} == {
            name: row[name] for name in ("line", "score", "n", "source")
        }


def test_a_channel_can_be_laid_over_and_the_published_one_cannot() -> None:
    shelves = [
        sample.shelf(sample.run(name, report.ladder(hardware, "vllm")), channel=channel)  # type: ignore[arg-type]
        for name, hardware, channel in (("wait", "b200", "staging"), ("out", "mi355x", "published"))
    ]
    shown = client(*shelves)
    data = shown.get("/api/v1/chart?channel=published&overlay=staging").json()
    laid = [series for series in data["series"] if series["overlay"]]
    assert [series["overlay"] for series in laid] == ["staging channel"] and "b200" in laid[0]["key"]
    assert all(
        "~over" not in point for point in shown.get("/api/v1/export.csv?channel=published&overlay=staging").text.split()
    )
    assert "enters no official frontier" in shown.get("/?channel=published&overlay=staging").text
    assert "the staging channel</option>" in shown.get("/?channel=published").text
    vain = shown.get("/api/v1/chart?channel=staging&overlay=published").json()
    assert vain["notices"] == ["there is no run “published” to lay over"] and vain["overlays"] == []


def test_a_trace_is_named_and_not_where_it_lay() -> None:
    one = replace(
        report.point(report.cell("h200", "vllm", 2, 1)), provenance={"trace": "/home/me/t.jsonl", "trace_digest": "ab"}
    )
    shown = client(sample.shelf(sample.run("one", [one])))
    id = first(shown)
    for path in (f"/points/{id}", f"/api/v1/points/{id}", f"/api/v1/points/{id}/card"):
        text = shown.get(path).text
        assert "t.jsonl" in text and "/home/me" not in text and "ab" in text, path


def test_runs_are_searched_and_come_in_pages() -> None:
    cell = report.cell("h200", "vllm", 2, 1)
    many = [
        sample.run(f"night-{n:03}", [report.point(cell)], at=f"2026-01-01T00:{n % 60:02}:00+00:00") for n in range(130)
    ]
    shown = client(sample.shelf(*many))
    assert shown.get("/runs").text.count('class="first"><a') == 100 and "1 to 100 of 130" in shown.get("/runs").text
    assert "101 to 130 of 130" in shown.get("/runs?start=100").text
    assert shown.get("/runs?q=night-007").text.count('class="first"><a') == 1
    assert "No run holds all these words" in shown.get("/runs?q=day").text


def test_a_store_s_search_and_tables_are_those_of_its_run_folder(tmp_path: Path) -> None:
    sample.folder(tmp_path / "runs", "mine") if (tmp_path / "runs").mkdir() is None else None
    with Store.open(tmp_path / "store") as store:
        store.add_path(RunFolder.open(tmp_path / "runs/mine").path)
        ours, theirs = client(FolderShelf([tmp_path / "runs"])), client(StoreShelf(Kept(store), "local"))
        for words in ("", "c1", "emulated c4", "zzz", "mine h200"):
            names = [
                sorted(point["name"] for point in one.get(f"/api/v1/points?q={words}").json()["points"])
                for one in (ours, theirs)
            ]
            assert names[0] == names[1], words
        for sql in (
            "SELECT name, source, validity, concurrency, arm, reasons FROM points ORDER BY ALL",
            "SELECT measure, value, unit, n, reason FROM measures ORDER BY ALL LIMIT 500",
            "SELECT count(*), min(sent_ns) FROM requests",
            "SELECT name, points, failed FROM runs",
        ):
            rows: list[Any] = [one.get(f"/api/v1/sql?q={sql}").json()["rows"] for one in (ours, theirs)]
            assert rows[0] == rows[1] and rows[0], sql
