"""The reminder: once, for changes of the benchmarks, in the policy's words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.publish.changelog.repo import Repo
from tests.publish.changelog.texts import REPOSITORY
from tests.publish.forge.server import Hub
from tests.publish.gate.kit import ENTRY, Answers, comment_json, policy, pull_event, write_policy

from ridgeline.cli.main import main
from ridgeline.publish.forge.event import Comment
from ridgeline.publish.gate.policy import Reminder
from ridgeline.publish.gate.reminder import MARKER, due
from ridgeline.publish.gate.rules.language import two_languages

POLICY = policy()
LOG = ["perf-changelog.yaml"]


def said(author: str, body: str = f"{MARKER}\nhello") -> Comment:
    return Comment(1, body, author, "NONE")


@pytest.mark.parametrize("action", ["opened", "reopened", "ready_for_review", "review_requested"])
@pytest.mark.parametrize("file", ["configs/amd-master.yaml", "benchmarks/single_node/x.sh", "perf-changelog.yaml"])
def test_it_is_due_when_benchmarks_come_up(action: str, file: str) -> None:
    text = due(action, ["README.md", file], [], POLICY)
    assert text is not None and text.startswith(MARKER) and "`full-sweep-fail-fast`" in text and "{" not in text
    assert not list(two_languages("标题 and title", text, "someone", POLICY))  # it keeps the rule that it stands beside


def test_it_is_not_due() -> None:
    assert due("synchronize", LOG, [], POLICY) is None
    assert due("opened", ["README.md", "utils/benchmarks.py"], [], POLICY) is None
    assert due("opened", LOG, [], replace(POLICY, reminder=None)) is None


def test_it_is_said_once_however_many_comments_follow() -> None:
    others = [said("someone", "words")] * 300
    assert due("reopened", LOG, [said("github-actions[bot]"), *others], POLICY) is None
    assert due("reopened", LOG, [said("someone"), *others], POLICY) is not None  # a contributor cannot silence it
    assert due("reopened", LOG, None, POLICY) is not None  # nobody could look


def test_its_words_are_the_policys() -> None:
    own = Reminder(actions=("opened",), paths=("*",), text="Use `{label}`.\n")
    assert due("opened", ["x"], [], replace(POLICY, reminder=own)) == f"{MARKER}\nUse `full-sweep-fail-fast`.\n"


@pytest.mark.integration
def test_the_gate_posts_it_once(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.branch("pull")
    repo.add(ENTRY)
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_secret")
    payload = pull_event(repo, "opened")
    (tmp_path / "event.json").write_text(json.dumps(payload))
    found = Answers(payload["pull_request"])
    hub = Hub(page=100)
    hub.answers = {f"repos/{REPOSITORY}/{path}": answer for path, answer in found.by_path.items()}
    stop = hub.start()
    words = ["pr", "gate", "--event", str(tmp_path / "event.json"), "--repo", str(repo.root), "--no-preflight"]
    words += ["--policy", str(write_policy(tmp_path)), "--post", "--api", hub.address, "--out", str(tmp_path / "out")]
    try:
        assert main(words) == 0
        posted = [body["body"] for method, _, _, body in hub.seen if method == "POST"]
        assert len(posted) == 2 and posted[0] == (tmp_path / "out/reminder.md").read_text()
        found.comment(*(comment_json(text, id=901 + n, author="github-actions[bot]") for n, text in enumerate(posted)))
        hub.seen.clear()
        assert main(words) == 0
        assert [method for method, *_ in hub.seen if method != "GET"] == ["PATCH"]  # only the gate's own comment again
    finally:
        stop()
    assert "ghs_secret" not in "".join(capsys.readouterr())
