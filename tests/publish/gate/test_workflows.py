"""The shipped action, workflows and guide: every command they give exists, and no text of others can become one."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from tests.publish.changelog.repo import Repo
from tests.publish.changelog.texts import REPOSITORY
from tests.publish.forge.server import Hub
from tests.publish.gate.kit import ENTRY, Answers, pull_event, write_policy

from ridgeline.cli import changelog, pr, reuse, stage

ROOT = Path(__file__).parents[3]
ACTION = ROOT / ".github/actions/ridgeline-gate/action.yml"
WORKFLOWS = sorted((ROOT / "docs/examples/workflows").glob("*.yml"))
GUIDE = ROOT / "docs/guides/pull-requests.md"
APPS: dict[str, typer.Typer] = {
    "pr": pr.app,
    "reuse": reuse.app,
    "stage": stage.staging,
    "promote": stage.promoting,
    "withdraw": stage.withdrawing,
    "changelog": changelog.app,
}
# Values that only GitHub itself or this repository chooses.
OURS = re.compile(r"^(github\.(token|repository)|needs\.\S+|steps\.\S+)$")


def steps(file: Path) -> Iterator[dict[str, Any]]:
    data = yaml.safe_load(file.read_text())
    if "runs" in data:
        yield from data["runs"]["steps"]
    for job in (data.get("jobs") or {}).values():
        yield from job["steps"]


def commands(text: str) -> Iterator[list[str]]:
    """Words of every `ridgeline ...` command in a script or a guide."""
    text = text.replace("\\\n", " ")
    for line in text.split("\n"):
        for match in re.finditer(r"(?:^\s*|&& |\$\()(ridgeline [a-z][^|>&`]*)", line):
            yield shlex.split(match[1].split(" || ")[0], comments=True)


def known_options(words: list[str]) -> set[str]:
    app = APPS[words[1]]
    command = typer.main.get_command(app)
    nested = getattr(command, "commands", None)
    if nested:
        assert words[2] in nested, f"no verb {' '.join(words[:3])}"
        command = nested[words[2]]
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("file", [ACTION, *WORKFLOWS, GUIDE], ids=lambda file: file.name)
def test_every_command_exists(file: Path) -> None:
    texts = [file.read_text()] if file.suffix == ".md" else [step.get("run", "") for step in steps(file)]
    found = [words for text in texts for words in commands(text)]
    assert found or file.name == "gate.yml"
    for words in found:
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known_options(words), words
    for option in re.findall(r"OPTIONS\+?=\((--[a-z-]+)", "\n".join(texts)):
        assert option in known_options(["ridgeline", "pr", "gate"])


@pytest.mark.parametrize("file", [ACTION, *WORKFLOWS], ids=lambda file: file.name)
def test_no_text_of_others_is_part_of_a_script(file: Path) -> None:
    for step in steps(file):
        for expression in re.findall(r"\$\{\{\s*(.*?)\s*\}\}", step.get("run", "")):
            assert OURS.match(expression), f"{file.name}: {expression} inside a script"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_say_what_they_may(file: Path) -> None:
    data = yaml.safe_load(file.read_text())
    assert data["permissions"] and "write-all" not in str(data["permissions"])
    assert all(job.get("timeout-minutes") for job in data["jobs"].values())
    checkouts = [step for step in steps(file) if "checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    if "pull_request_target" in data[True]:  # YAML 1.1 reads `on` as true
        assert all("ref" not in step["with"] for step in checkouts)  # nothing of the fork is checked out


def test_the_action_gives_what_it_says() -> None:
    data = yaml.safe_load(ACTION.read_text())
    script = next(step["run"] for step in data["runs"]["steps"] if step.get("id") == "gate")
    assert {f"{name}=" for name in data["outputs"]} <= set(re.findall(r"\b\w+=", script))
    used = set(re.findall(r"inputs\.([a-z-]+)", ACTION.read_text()))
    assert used == set(data["inputs"])


@pytest.mark.integration
def test_the_action_runs(repo: Repo, tmp_path: Path) -> None:
    """The script of the action itself, with a server on loopback in GitHub's place."""
    repo.branch("pull")
    repo.add(ENTRY)
    payload = pull_event(repo)
    hub = Hub(page=100)
    stop = hub.start()
    try:
        found = Answers(payload["pull_request"])
        hub.answers = {f"repos/{REPOSITORY}/{path}": answer for path, answer in found.by_path.items()}
        event, output, summary = (tmp_path / name for name in ("event.json", "output", "summary"))
        event.write_text(json.dumps(payload))
        script = next(step["run"] for step in steps(ACTION) if step.get("id") == "gate")
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_API_URL": hub.address,
            "GITHUB_TOKEN": "ghs_secret",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "RUNNER_TEMP": str(tmp_path),
            "POLICY": str(write_policy(tmp_path)),
            "SETTINGS": "",
            "DRY_RUN": "true",
            "POST": "true",
            "CANDIDATE": "",
            "STORE": "",
            "DASHBOARD": "",
        }
        done = subprocess.run(["bash", "-c", script], cwd=repo.root, env=environment, capture_output=True, text=True)
    finally:
        stop()
    assert done.returncode == 0, done.stderr
    verdict = tmp_path / "ridgeline-gate/verdict.json"
    assert output.read_text() == f"ok=true\nsweep=true\nverdict={verdict}\n"
    assert summary.read_text() == (tmp_path / "ridgeline-gate/comment.md").read_text()
    assert [method for method, *_ in hub.seen].count("POST") == 1
    assert "ghs_secret" not in done.stdout + done.stderr + verdict.read_text() + summary.read_text()
