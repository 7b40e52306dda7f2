"""Settings that name code and files: the gate takes them from the base, and nothing of a change runs in its process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.publish.changelog.repo import ENVIRONMENT, Repo
from tests.publish.gate import seed
from tests.publish.gate.kit import pull_event, script, write_policy

from ridgeline.cli.main import main

pytestmark = pytest.mark.integration

OWN = "from ridgeline.recipes.dsv4_vllm import mi355x as start\n"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "repo").mkdir()
    repo = Repo(tmp_path / "repo")
    seed.start(repo)
    monkeypatch.chdir(repo.root)  # where a careless gate would look for what the settings name
    return repo


def starts_with(repo: Repo, line: str, **files: str) -> None:
    """Settings of the main branch with an override, and the files it names."""
    (repo.root / "ridgeline.yaml").write_text(f"{seed.SETTINGS}recipes:\n- {{ cells: '*', {line} }}\n")
    for name, text in files.items():
        script(repo, text, name)
    repo.commit("how cells start")


def judged(repo: Repo, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    event, policy = folder / "event.json", write_policy(folder)
    event.write_text(json.dumps(pull_event(repo, title=seed.TITLE, body=seed.BODY)))
    code = main(["pr", "gate", "--event", str(event), "--repo", str(repo.root), "--policy", str(policy), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (0 if found["ok"] else 1)
    return found


@pytest.mark.parametrize("inside", [True, False])
def test_a_recipe_of_the_change_never_runs(
    repo: Repo, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starts_with(repo, "recipe: 'tools/mine.py:start'", **{"tools/mine.py": OWN})
    seed.propose(repo, "2503", good=True)
    script(repo, f"open({str(tmp_path / 'PWNED')!r}, 'w')\n{OWN}", "tools/mine.py")
    repo.commit("my own code")
    monkeypatch.chdir(repo.root if inside else tmp_path)
    found = judged(repo, tmp_path, capsys)
    assert found["ok"] and found["will_run"]["cells"] and not (tmp_path / "PWNED").exists()
    assert {one["where"]["file"] for one in found["not_proven"]} == {"configs/amd-master.yaml"}  # the recipe counted


def test_facts_of_the_change_do_not_count(repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repo.root / "ridgeline.yaml").write_text(f"{seed.SETTINGS}models: {{ dsv4: facts/config.json }}\n")
    script(repo, "[]", "facts/config.json")
    repo.commit("facts")
    seed.propose(repo, "2503", good=True)
    script(repo, "\n\n{ a change's own idea", "facts/config.json")
    repo.commit("other facts")
    (unread,) = judged(repo, tmp_path, capsys)["not_proven"]
    assert unread["message"].startswith(
        f"`{seed.KEY}` was not checked: facts/config.json: must be"
    ) and "own idea" not in str(unread)


@pytest.mark.parametrize(
    ("line", "place", "rules"),
    [
        ("shell: benchmarks/go.sh", "benchmarks/go.sh", {"M1", "G1", "L01"}),
        ("shell: tools/go.sh", "tools/go.sh", set()),  # none of the policy's scripts: it is not known
        ("command: 'vllm serve $MODEL --port $PORT'", seed.PATH, {"L01"}),  # the script is linted, and starts nothing
    ],
)
def test_what_the_settings_start_is_what_is_judged(
    repo: Repo, line: str, place: str, rules: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts_with(repo, line, **{place: seed.launch(good=True)})
    repo.branch("pull")
    text = seed.config(seed.SPACES["2503"].tag, seed.SPACES["2503"].text)
    (repo.root / "configs/amd-master.yaml").write_text(text)
    script(repo, seed.launch(good=False), place)
    repo.add(seed.entry(seed.KEY, "XXX"))
    found = judged(repo, tmp_path, capsys)
    assert {one["rule"] for one in found["remarks"] if one["severity"] == "blocking"} == rules
    assert ("P0" in {one["rule"] for one in found["not_proven"]}) is ("M1" not in rules)


def test_our_own_recipe_adds_no_fault(repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a launch script our recipe starts the cells: the search spaces are sound under it."""
    for space in seed.SPACES:
        repo.switch("main")
        repo.git("branch", "-q", "-f", "-D", "pull") if repo.git("branch", "--list", "pull") else None
        repo.branch("pull")
        text = seed.config(seed.SPACES[space].tag, seed.SPACES[space].text)
        (repo.root / "configs/amd-master.yaml").write_text(text)
        repo.add(seed.entry(seed.KEY, "PENDING"))
        found = judged(repo, tmp_path, capsys)
        blocking = [one for one in found["remarks"] if one["severity"] == "blocking"]
        assert [(one["rule"], one["where"]["file"]) for one in blocking] == [("P04", "perf-changelog.yaml")]
