"""The end of the comment: the change's results against the published line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.publish.changelog.repo import Repo
from tests.publish.changelog.texts import REPOSITORY
from tests.publish.forge.server import Hub
from tests.publish.gate.kit import ENTRY, Answers, pull_event, write_policy
from tests.publish.staging.runs import points, run

from ridgeline.cli.main import main
from ridgeline.core.point import Measure, Point

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

X, Y = "interactivity.p90", "throughput_per_gpu.total"


def made(*concurrencies: int, factor: float = 1.0) -> list[Point]:
    from dataclasses import replace

    found = []
    for one in points(*concurrencies):
        c = one.concurrency
        values = {X: 100.0 / c * factor, Y: 50.0 * c * factor, "itl.p50": 0.01 * c / factor, "ttft.p50": 0.2 / factor}
        measures = {name: Measure(value, "s" if "t" in name[:2] else "tok/s", n=500) for name, value in values.items()}
        found.append(replace(one, measures=measures, measured_at="2026-08-20T10:00:00+00:00"))
    return found


@pytest.fixture
def pull(repo: Repo) -> Repo:
    repo.branch("pull")
    repo.add(ENTRY)
    return repo


def gate(pull: Repo, folder: Path, *more: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    event = folder / "event.json"
    event.write_text(json.dumps(pull_event(pull)))
    options = ["--event", str(event), "--repo", str(pull.root), "--policy", str(write_policy(folder)), "--no-preflight"]
    out = folder / "out"
    assert main(["pr", "gate", *options, "--out", str(out), "--json", *more]) == 0
    capsys.readouterr()
    return json.loads((out / "verdict.json").read_text())["performance"], (out / "comment.md").read_text()


def test_the_comment_ends_with_the_comparison(pull: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "store")]
    published = run(tmp_path / "published", made(1, 2, 4))
    assert main(["stage", str(published), *store]) == 0 and main(["promote", "published", *store]) == 0
    change = run(tmp_path / "change", made(1, 2, 8, factor=0.5), created="2026-08-21T10:00:00+00:00")
    found, text = gate(
        pull, tmp_path, "--candidate", str(change), *store, "--dashboard", "http://127.0.0.1:8000/", capsys=capsys
    )
    assert found["verdict"] == "worse" and [round(one["change"], 9) for one in found["matched"]] == [-0.5, -0.5]
    assert len(found["unmatched"]) == 2  # concurrency 4 and 8 stand alone
    assert found["command"].startswith("ridgeline compare ") and str(change) in found["command"]
    assert found["overlay"] == "http://127.0.0.1:8000/?overlay=change" and "--overlay" in found["serve"]
    picture = Path(found["picture"])
    assert picture == tmp_path / "out/frontier.svg" and picture.read_text().startswith("<svg")
    assert ">published<" in picture.read_text() and ">this change<" in picture.read_text()
    assert "### Against the published line: **worse**" in text and "-50.0%" in text
    assert f"[Open as an unofficial overlay](<{found['overlay']}>)" in text

    # the address is answered by a dashboard that was started as told
    assert overlaid(store[1], change, found["overlay"]) == (["change"], [])
    assert main(["stage", str(change), *store]) == 0  # once the store has the run, its number there is asked for
    found, _ = gate(
        pull, tmp_path, "--candidate", str(change), *store, "--dashboard", "http://127.0.0.1:8000", capsys=capsys
    )
    assert "overlay=change" not in found["overlay"] and "--overlay" not in found["serve"]
    assert overlaid(store[1], None, found["overlay"]) == (["change"], [])

    words = found["command"].split()[1:]
    assert main(words) == 0 and capsys.readouterr().out.startswith("worse")


def overlaid(store: str, folder: Path | None, address: str) -> tuple[list[str], list[str]]:
    """(names of the runs laid over, notices) of a dashboard's answer to an address."""
    from urllib.parse import parse_qsl, urlsplit

    from ridgeline.cli.shelves import overlays
    from ridgeline.publish.web.chart import settle
    from ridgeline.publish.web.data import Library
    from ridgeline.publish.web.question import decode
    from ridgeline.publish.web.stored import shelves_of

    library = Library(shelves_of(store), overlays([folder] if folder else []))
    question, _ = decode(parse_qsl(urlsplit(address).query))
    asked = settle(library, question)
    return [name for _, name, _ in asked.overlays], [one for one in asked.notices if "lay over" in one]


def test_first_results_have_no_baseline(pull: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "store")]
    assert main(["stage", str(run(tmp_path / "x", made(1))), *store]) == 0
    found, text = gate(pull, tmp_path, "--candidate", str(tmp_path / "x"), *store, capsys=capsys)
    assert found["verdict"] == "no baseline" and "first results" in text and found["matched"] == []


def test_a_picture_may_be_served_elsewhere(pull: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "store")]
    assert main(["stage", str(run(tmp_path / "a", made(1, 2))), *store]) == 0 and main(["promote", "a", *store]) == 0
    change = str(run(tmp_path / "b", made(1, 2)))
    address = "https://example.org/frontier.svg"
    found, text = gate(pull, tmp_path, "--candidate", change, *store, "--picture", address, capsys=capsys)
    assert f"(<{address}>)" in text and found["verdict"] == "same"
    _, text = gate(pull, tmp_path, "--candidate", change, *store, "--picture", "javascript:alert(1)", capsys=capsys)
    assert "![" not in text and "`javascript:alert(1)`" in text
    words = ["pr", "gate", "--event", str(tmp_path / "event.json"), "--repo", str(pull.root), "--candidate", change]
    assert main([*words, *store, "--picture", address]) == 2 and "--out" in capsys.readouterr().err
    assert main([*words, *store, "--pictures", "p", "--out", str(tmp_path / "o")]) == 2
    assert "--post" in capsys.readouterr().err


def test_the_comment_shows_the_picture(
    pull: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Committed to a branch of its own, and shown from there."""
    store = ["--store", str(tmp_path / "store")]
    assert main(["stage", str(run(tmp_path / "a", made(1, 2))), *store]) == 0 and main(["promote", "a", *store]) == 0
    change = str(run(tmp_path / "b", made(1, 2, factor=2.0)))
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_secret")
    place = f"repos/{REPOSITORY}"
    hub = Hub(page=100)
    hub.answers = {f"{place}/{path}": one for path, one in Answers(pull_event(pull)["pull_request"]).by_path.items()}
    hub.made = {f"{place}/git/{kind}": {"sha": id * 40} for kind, id in (("trees", "a"), ("commits", "b"))}
    stop = hub.start()
    try:
        more = ["--candidate", change, *store, "--post", "--pictures", "pictures", "--api", hub.address]
        found, text = gate(pull, tmp_path, *more, capsys=capsys)
        with_main = ["--event", str(tmp_path / "event.json"), "--repo", str(pull.root), *more, "--pictures", "main"]
        assert main(["pr", "gate", "--no-preflight", "--out", str(tmp_path / "out"), *with_main]) == 2
    finally:
        stop()
    sent = {path.removeprefix(f"{place}/"): body for method, path, _, body in hub.seen if method == "POST"}
    (file,) = sent["git/trees"]["tree"]
    assert file["content"] == (tmp_path / "out/frontier.svg").read_text() and "base_tree" not in sent["git/trees"]
    assert sent["git/refs"] == {"ref": "refs/heads/pictures", "sha": "b" * 40} and sent["git/commits"]["parents"] == []
    assert found["picture"] == f"https://github.com/{REPOSITORY}/raw/pictures/{file['path']}"
    assert f"(<{found['picture']}>)" in text and text == sent["issues/77/comments"]["body"]
