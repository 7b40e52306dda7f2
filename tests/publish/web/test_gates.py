"""The gates page with what `pr gate --json` really wrote, and a changelog as it lies in a repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.publish.changelog.texts import entry
from tests.publish.gate.test_new_user import REPOSITORY, User, propose, user
from tests.publish.web import sample
from tests.publish.web.client import Client, client

from ridgeline.publish.web import gatepage

pytestmark = pytest.mark.integration  # starts git

__all__ = ["user"]  # a fixture


def judged(user: User, event: Path, file: Path) -> dict[str, object]:
    code, said = user("pr gate --no-dry-run --json --event", event)
    data: dict[str, object] = json.loads(said[said.index("{") :])
    assert (code == 0) is data["ok"]
    file.write_text(json.dumps(data))
    return data


@pytest.fixture
def stored(user: User, tmp_path: Path) -> tuple[Client, dict[str, object], dict[str, object]]:
    """A change that may go on, the same without its changelog entry, and a file that is no judgement."""
    event = propose(user, tmp_path)
    fine = judged(user, event, tmp_path / "fine.json")
    user.repo.log.write_text(user.repo.log.read_text().rpartition("- config-keys")[0])
    user.repo.commit("forgot")
    payload = json.loads(event.read_text())
    payload["pull_request"]["head"]["sha"] = user.repo.git("rev-parse", "HEAD").strip()
    event.write_text(json.dumps(payload))
    shut = judged(user, event, tmp_path / "shut.json")
    (tmp_path / "other.json").write_text('{"format": "something"}')
    gates = {name: tmp_path / f"{name}.json" for name in ("fine", "shut", "other")}
    return client(sample.every_state(), gates=gates, changelogs={"log": user.repo.log}), fine, shut


def test_a_stored_judgement_is_shown_with_what_it_says(
    stored: tuple[Client, dict[str, object], dict[str, object]],
) -> None:
    served, fine, shut = stored
    assert fine["ok"] and not shut["ok"]
    text = served.get("/gates").text
    assert f"{REPOSITORY} #77" in text and "✓ open" in text and "✕ shut" in text and "✕ unreadable" in text
    rows = {row["name"]: row for row in served.get("/api/v1/gates").json()["gates"]}
    assert rows["fine"]["cells"] == 2 and rows["fine"]["head"] == str(fine["head"])[:12]
    assert rows["shut"]["blocking"] and all(one in _plain(text) for one in rows["shut"]["blocking"])
    for name, data in (("fine", fine), ("shut", shut)):
        assert len(rows[name]["not_proven"]) == len(data["not_proven"])  # type: ignore[arg-type]
        assert len(rows[name]["blocking"]) + len(rows[name]["remarks"]) == len(data["remarks"])  # type: ignore[arg-type]
    assert "is no stored judgement" in rows["other"]["wrong"]
    assert served.get("/api/v1/changelog").json()["entries"][-1]["where"].startswith("log:")


def test_what_is_not_proven_and_not_looked_at_is_neither_a_fault_nor_silent(tmp_path: Path) -> None:
    where = {"file": "a.yaml", "line": 3}
    remark = {"rule": "G9", "message": "the image is not known", "severity": "warning", "where": where}
    data = {
        "format": "ridgeline-gate/1", "ok": True, "repository": "acme/speed", "pull_request": None, "head": "f" * 40,
        "decision": {"why": "nothing changes a cell"}, "will_run": {"cells": [], "gpu_hours": None}, "remarks": [],
        "not_proven": [remark], "performance": None, "not_looked_at": {"performance": "no results were given"},
    }  # fmt: skip
    (tmp_path / "one.json").write_text(json.dumps(data))
    [row] = gatepage.gates({"one": tmp_path / "one.json"})
    assert row["ok"] and row["not_proven"] == ["a.yaml:3: the image is not known (G9)"] and row["blocking"] == []
    text = client(sample.every_state(), gates={"one": tmp_path / "one.json"}).get("/gates").text
    assert "1 not proven: neither a fault nor a pass" in text
    assert "performance not looked at: no results were given" in text


def test_a_changelog_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(entry("a-fp8-h200-vllm") + entry("b-fp8-h200-vllm"))
    bad.write_text("- config-keys: [\n")
    served = client(sample.every_state(), changelogs={"good": good, "bad": bad})
    found = served.get("/api/v1/changelog").json()
    assert [one["keys"] for one in found["entries"]] == [["b-fp8-h200-vllm"], ["a-fp8-h200-vllm"]]
    assert len(found["problems"]) == 1 and "bad" in found["problems"][0]
    assert 'class="wrong"' in served.get("/gates").text


def _plain(text: str) -> str:
    import html

    return html.unescape(text)
