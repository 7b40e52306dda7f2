"""A store behind the pages: what it gives equals what the run folder gives."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.publish.web import sample
from tests.publish.web.client import Client, client

from ridgeline.core.point import Measure
from ridgeline.publish.web.folders import FolderShelf
from ridgeline.publish.web.stored import Kept, StoreShelf, shelves_of, slim
from ridgeline.results.formats import POINT
from ridgeline.results.store import Store


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "runs").mkdir()
    sample.folder(tmp_path / "runs", "mine")
    with Store.open(tmp_path / "store") as store:
        store.add_path(tmp_path / "runs" / "mine")
    return tmp_path / "runs", tmp_path / "store"


def shown(path: Path) -> Client:
    return client(*shelves_of(str(path)))


def test_a_store_and_its_run_folder_give_the_same_chart(stored: tuple[Path, Path]) -> None:
    folder, store = stored
    ours = client(FolderShelf([folder])).get("/api/v1/frontier").json()
    theirs = shown(store).get("/api/v1/frontier?channel=local").json()
    assert theirs["axes"] == ours["axes"] and len(theirs["points"]) == len(ours["points"]) == 3

    def plain(answer: dict[str, object]) -> list[tuple[object, ...]]:
        points = answer["points"].values()  # type: ignore[attr-defined]
        return sorted((p["name"], p["source"], str(p["measures"]), p["validity"]) for p in points)

    assert plain(theirs) == plain(ours)


def test_a_point_brings_its_requests_proof_and_deployment(stored: tuple[Path, Path]) -> None:
    client = shown(stored[1])
    id = client.get("/api/v1/points?q=c1&channel=local").json()["points"][0]["id"]
    page = client.get(f"/points/{id}").text
    assert "contradicted" in page and "a.yaml:7" in page
    assert "ridgeline sweep a.yaml --cells" in page  # how to get it again
    run = client.get("/api/v1/runs?channel=local").json()["runs"][0]
    assert run["command"] == "ridgeline sweep a.yaml" and "Run all of it again" in client.get(f"/runs/{run['id']}").text
    assert client.get(f"/api/v1/points/{id}/timeline").status_code == 200
    assert {p["key"] for p in client.get(f"/api/v1/points/{id}/server-metrics").json()["panels"]} >= {"kv", "ttft"}
    assert client.get("/api/v1/points/none").status_code == 404


def test_channels_follow_the_store_and_so_does_the_version(stored: tuple[Path, Path]) -> None:
    path = stored[1]
    client = shown(path)
    before = client.get("/api/v1/version").json()["channels"]
    assert client.get("/api/v1/frontier").json()["question"]["channel"] == "local"
    with Store.open(path) as store:
        [run] = store.runs("local")
        store.move(run["id"], "staging")
    after = client.get("/api/v1/version").json()["channels"]
    assert after != before
    assert client.get("/api/v1/runs?channel=local").json()["runs"] == []
    [moved] = client.get("/api/v1/runs?channel=staging").json()["runs"]
    assert moved["points"] == 3 and moved["failed"] == 1
    assert client.get("/api/v1/frontier").json()["question"]["channel"] == "staging"
    assert client.get(f"/runs/{run['id']}").status_code == 200


def test_every_page_answers_from_a_store(stored: tuple[Path, Path]) -> None:
    from ridgeline.publish.web.pages import PAGES

    client = shown(stored[1])
    for page in PAGES:
        assert client.get(f"{page.path}?channel=local").status_code == 200, page.path
    counted = client.get("/api/v1/sql?channel=local&q=SELECT count(*) FROM requests").json()
    assert counted["rows"] == [[60]]


def test_a_slim_point_is_the_point_with_fewer_measures(stored: tuple[Path, Path]) -> None:
    import msgspec

    [one, *_] = FolderShelf([stored[0]]).snapshot().held[0].points
    body = msgspec.json.encode(msgspec.json.decode(POINT.encode(one))["body"])
    found = slim(body, one.id, frozenset({"ttft.p50", "tpot.p99"}))
    told = {name: Measure(m.value, m.unit, m.n, m.reason) for name, m in found.measures.items()}
    assert told == {name: one.measures[name] for name in ("ttft.p50", "tpot.p99")}
    assert slim(body, one.id, frozenset()).measures == {}
    for name in ("name", "line", "series", "source", "facts", "validity", "cautions", "concurrency", "gpus"):
        assert getattr(found, name) == getattr(one, name), name


def test_what_was_read_is_kept_for_its_version_only(stored: tuple[Path, Path]) -> None:
    with Store.open(stored[1]) as store:
        shelf = StoreShelf(Kept(store), "local")
        assert shelf.runs() is shelf.runs()
        first = shelf.runs()
        store.move(first[0].id, "published" if first[0].sources == ("measured",) else "staging")
        assert shelf.runs() == ()


def test_a_statement_finds_the_same_in_a_store_and_in_a_folder(stored: tuple[Path, Path]) -> None:
    def asked(client: Client, q: str) -> object:
        answer = client.get(f"/api/v1/sql?channel=local&q={q}").json()
        return answer["columns"], answer["types"], answer["rows"]

    folder, store = client(FolderShelf([stored[0]])), shown(stored[1])
    points = "SELECT * EXCLUDE (id, run) FROM points ORDER BY ALL"
    measures = "SELECT p.name, m.* EXCLUDE (point) FROM measures m JOIN points p ON p.id = m.point ORDER BY ALL"
    runs = "SELECT runs.name, points.name FROM points JOIN runs ON runs.id = points.run ORDER BY ALL"
    for q in (points, measures, runs):
        assert asked(folder, q) == asked(store, q)


def test_an_answer_is_made_once_even_if_several_ask(tmp_path: Path) -> None:
    made: list[str] = []
    began, may_end = threading.Event(), threading.Event()

    def slow() -> str:
        began.set()
        may_end.wait(10)
        made.append("x")
        return "x"

    with Store.open(tmp_path / "store") as store, ThreadPoolExecutor(2) as pool:
        kept = Kept(store)
        first = pool.submit(kept.get, ("a",), slow)
        began.wait(10)
        second = pool.submit(kept.get, ("a",), slow)
        may_end.set()
        assert first.result(10) == second.result(10) == "x" and made == ["x"]
        with pytest.raises(ZeroDivisionError):
            kept.get(("b",), lambda: 1 // 0)
        assert kept.get(("b",), lambda: 2) == 2, "who fails keeps nobody out"
