"""Somebody with a repository of their own and nothing but the guide: every verb, from the first policy to a receipt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.publish.changelog.repo import CONFIG, ENVIRONMENT, Repo
from tests.publish.changelog.texts import entry
from tests.publish.gate.kit import Answers, comment_event, comment_json, pull_event, run_json
from tests.publish.staging.runs import points, run

from ridgeline.cli.main import main

pytestmark = pytest.mark.integration

REPOSITORY = "acme/speed"
IMAGE, NEXT = "vllm/vllm-openai:v0.25.1", "vllm/vllm-openai:v0.26.0"


class User:
    """A work tree, and commands typed in it."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.repo, self.root, self.capture = Repo(root), root, capture

    def __call__(self, line: str, *more: object) -> tuple[int, str]:
        """(exit code, everything that was printed)."""
        code = main([*line.split(), *map(str, more)])
        said = self.capture.readouterr()
        return code, said.out + said.err


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ACTOR"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "speed"
    (root / "configs").mkdir(parents=True)
    monkeypatch.chdir(root)
    user = User(root, capsys)
    config = CONFIG.format(key="qwen3").replace("acme/engine:1", IMAGE).replace("acme/qwen3", "Qwen/Qwen3-8B")
    config = config.replace("runner: h1", "runner: h200").replace("precision: fp8", "precision: bf16")
    config = config.replace("tp: 4, conc-list: [8, 16, 32]", "tp: 1, conc-list: [4, 16]")
    (root / "configs/nvidia-master.yaml").write_text(config.replace("qwen3:\n", "qwen3-bf16-h200-vllm:\n"))
    (root / "configs/runners.yaml").write_text("labels:\n  h200: [h200-0]\n")
    user.repo.log.write_text(entry("qwen3-bf16-h200-vllm", f"https://github.com/{REPOSITORY}/pull/1"))
    _, policy = user("pr policy")
    policy = policy.replace("SemiAnalysisAI/InferenceX\n", f"{REPOSITORY}\n").replace("title: true", "title: false")
    (root / "ridgeline-gate.yaml").write_text(policy.replace("body: true", "body: false"))
    user.repo.git("init", "-q", "-b", "main", "--template=")
    user.repo.commit("start")
    return user


def propose(user: User, place: Path) -> Path:
    """The change, and the event that GitHub would send for it."""
    user.repo.branch("pull")
    config = user.root / "configs/nvidia-master.yaml"
    config.write_text(config.read_text().replace(IMAGE, NEXT))
    user.repo.add(entry("qwen3-bf16-h200-vllm"))
    payload = pull_event(user.repo, title="vLLM 0.26", body="One language is enough here.")
    payload["repository"]["full_name"] = REPOSITORY
    for side in ("base", "head"):
        payload["pull_request"][side]["repo"]["full_name"] = REPOSITORY
    file = place / "event.json"
    file.write_text(json.dumps(payload))
    return file


def test_from_a_policy_to_a_merge(user: User, tmp_path: Path) -> None:
    event = propose(user, tmp_path)
    assert user("check configs/nvidia-master.yaml --runner-config configs/runners.yaml")[0] == 0
    assert user("changelog validate --base main --pr 77")[0] == 0
    code, said = user("pr gate --no-dry-run --event", event)
    assert code == 0 and "## Benchmark gate: open" in said and "Nothing to mend." in said, said
    assert f"https://github.com/{REPOSITORY}/blob/" in said and "generic_vllm.py" not in said

    head = user.repo.git("rev-parse", "HEAD").strip()
    found = Answers(json.loads(event.read_text())["pull_request"])
    found.add_run(run_json(500, head))
    facts = tmp_path / "facts"
    for path, answer in found.by_path.items():
        file = facts / "repos" / REPOSITORY / f"{path}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(answer))
    code, said = user("pr doctor 77 --repo . --facts", facts)
    assert code == 1 and "next: comment `/reuse-sweep-run 500`" in said, said
    asked = comment_event("/reuse-sweep-run 500")
    asked["repository"]["full_name"] = REPOSITORY
    (tmp_path / "comment.json").write_text(json.dumps(asked))
    code, said = user("pr command --event", tmp_path / "comment.json", "--facts", facts)
    assert code == 0 and "run 500 (attempt 1) stands in" in said
    (facts / "repos" / REPOSITORY / "issues/77/comments.json").write_text(
        json.dumps([comment_json("/reuse-sweep-run 500")])
    )
    code, said = user("pr doctor 77 --repo . --facts", facts)
    assert "ok  authorisation" in said and "no  sign-off" in said and "changelog prepare-merge --pr 77" in said

    assert user("changelog prepare-merge --pr 77 --main main --commit") == (
        0,
        "wrote perf-changelog.yaml\ncommitted the links\nperf-changelog.yaml: 1 entry added\nnext: push\n",
    )
    assert f"pr-link: https://github.com/{REPOSITORY}/pull/77\n" in user.repo.log.read_text()
    code, said = user("changelog prepare-merge --pr 77 --main main --commit")
    assert code == 0 and "already prepared" in said


def test_a_change_cannot_choose_its_judge(user: User, tmp_path: Path) -> None:
    propose(user, tmp_path)
    policy = user.root / "ridgeline-gate.yaml"
    policy.write_text(policy.read_text().replace("floating-tags: [latest,", "floating-tags: ["))
    (user.root / "ridgeline.yaml").write_text(
        "waivers:\n- { rule: P11, cells: '*', reason: mine, until: 2099-01-01 }\n"
    )
    config = user.root / "configs/nvidia-master.yaml"
    config.write_text(config.read_text().replace(NEXT, "vllm/vllm-openai:latest"))
    user.repo.commit("my own rules")
    payload = json.loads((tmp_path / "event.json").read_text())
    payload["pull_request"]["head"]["sha"] = user.repo.git("rev-parse", "HEAD").strip()
    (tmp_path / "event.json").write_text(json.dumps(payload))
    code, said = user("pr gate --no-preflight --event", tmp_path / "event.json")
    assert code == 1 and "P11 image-immutable" in said


def test_staging_and_publishing(user: User, tmp_path: Path) -> None:
    first, second = run(tmp_path / "first", points(1, 2)), run(tmp_path / "second", points(4))
    assert user("stage", first, "--note", "look")[0] == 0
    code, said = user("stage", second)
    assert code == 0 and "local -> staging" in said
    code, said = user("promote first --note approved")
    assert code == 0 and "staging -> published" in said and "2 points" in said
    assert user("promote first --verify")[1] == "first: as its receipt says\n"
    code, said = user("withdraw first")
    assert code == 1 and "--note" in said
    code, said = user("withdraw first --note", "wrong image")
    assert code == 0 and "published -> withdrawn" in said
    code, said = user("promote first")
    assert code == 1 and "was withdrawn" in said and "ridgeline stage" in said
    assert "staging" in user("results list")[1]  # the second one was left alone all the while
