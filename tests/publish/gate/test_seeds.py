"""What reviewers found in two real search spaces, found by the gate: exactly that, at its lines; then mended.

Nothing is known but what the repository holds: no earlier start, no dump of the engine's build. What that leaves open
is listed beside, and is no fault.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.publish.changelog.repo import ENVIRONMENT, Repo
from tests.publish.gate import seed
from tests.publish.gate.kit import pull_event, write_policy

from ridgeline.cli.main import main
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.dryrun import dry_run

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> None:
    try:
        dry_run(b"true", {})
    except EnvironmentFailed as error:
        pytest.skip(f"no sandbox here: {error}")


def gate(repo: Repo, folder: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> tuple[int, dict[str, Any]]:
    event = folder / "event.json"
    event.write_text(json.dumps(pull_event(repo, title=seed.TITLE, **changes)))
    command = ["pr", "gate", "--event", str(event), "--repo", str(repo.root), "--policy", str(write_policy(folder))]
    code = main([*command, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("space", seed.SPACES)
def test_the_five_faults_and_their_repair(
    space: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "repo").mkdir()
    repo = Repo(tmp_path / "repo")
    seed.start(repo)
    seed.propose(repo, space, good=False)
    text = seed.launch(good=False)

    code, verdict = gate(repo, tmp_path, capsys, body=seed.ENGLISH)

    faults = [one for one in verdict["remarks"] if one["severity"] == "blocking"]
    found = {(one["rule"], one["where"]["file"], one["where"]["line"]) for one in faults}
    assert code == 1 and not verdict["ok"] and len(faults) == 5
    assert found == {
        ("P04", "perf-changelog.yaml", seed.line_of(repo.log.read_text(), "PENDING")),
        ("P40", "description", None),
        ("M1", seed.PATH, seed.line_of(text, "--gpu-memory-utilization")),
        ("G1", seed.PATH, seed.line_of(text, "--compilation-config")),
        ("L01", seed.PATH, seed.line_of(text, "trap stop_server EXIT")),
    }
    said = {one["rule"]: one for one in faults}
    assert "259.20 GiB; free 256 GiB" in said["M1"]["arithmetic"]
    assert "4 tokens a sequence; largest captured size 32: 8 sequences" in said["G1"]["arithmetic"]
    assert "stop_cache" in said["L01"]["message"] and "PENDING" in said["P04"]["message"]
    assert "Chinese" in said["P40"]["message"]
    assert {one["path"] for one in verdict["annotations"]} == {"perf-changelog.yaml", seed.PATH}
    assert costs(verdict) and {one["severity"] for one in verdict["not_proven"]} == {"unknown"}

    seed.repair(repo)
    code, verdict = gate(repo, tmp_path, capsys, body=seed.BODY)
    assert (code, verdict["ok"]) == (0, True) and costs(verdict)
    assert verdict["decision"]["sweep"]
    assert len(verdict["will_run"]["cells"]) == {"2503": 8, "2540": 40}[space]


def costs(verdict: dict[str, Any]) -> bool:
    """Beside the faults stands only what these layouts cost with such builds: 32.42 GiB of padding a GPU."""
    others = [one for one in verdict["remarks"] if one["severity"] != "blocking"]
    return [(one["rule"], one["severity"], "32.42 GiB" in one["message"]) for one in others] == [
        ("M7", "warning", True)
    ]
