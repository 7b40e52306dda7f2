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
from tests.publish.gate.kit import ENTRY, Answers, comment_event, comment_json, pull_event, pull_json, run_json
from tests.publish.reuse.bundle import Bundle

from ridgeline.cli import changelog, pr, reuse, stage
from ridgeline.cli.main import VERBS

ROOT = Path(__file__).parents[3]
ACTION = ROOT / ".github/actions/ridgeline-gate/action.yml"
SETUP = ROOT / ".github/actions/setup/action.yml"
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


@pytest.mark.parametrize("file", [ACTION, SETUP, *WORKFLOWS, GUIDE], ids=lambda file: file.name)
def test_every_command_exists(file: Path) -> None:
    texts = [file.read_text()] if file.suffix == ".md" else [step.get("run", "") for step in steps(file)]
    found = [words for text in texts for words in commands(text)]
    assert found or file.name in ("gate.yml", "compare.yml", "action.yml")
    for words in found:
        if words[1] not in APPS:
            assert words[1] in VERBS
            continue
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known_options(words), words
    for option in re.findall(r"OPTIONS\+?=\((--[a-z-]+)", "\n".join(texts)):
        assert option in known_options(["ridgeline", "pr", "gate"])


@pytest.mark.parametrize("file", [ACTION, SETUP, *WORKFLOWS], ids=lambda file: file.name)
def test_no_text_of_others_is_part_of_a_script(file: Path) -> None:
    for step in steps(file):
        for expression in re.findall(r"\$\{\{\s*(.*?)\s*\}\}", step.get("run", "")):
            assert OURS.match(expression), f"{file.name}: {expression} inside a script"


@pytest.mark.parametrize("file", [ACTION, SETUP, *WORKFLOWS], ids=lambda file: file.name)
def test_no_file_of_a_checkout_is_a_module(file: Path) -> None:
    """Without -I, python takes a `json.py` of the working directory, which may be the change's, for its own."""
    started = re.findall(
        r"python3?\b(?!-)( -I)?", "\n".join(step.get("run", "") for step in steps(file)).replace("PYTHON", "")
    )
    assert all(started), file.name


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_say_what_they_may(file: Path) -> None:
    data = yaml.safe_load(file.read_text())
    assert data["permissions"] and "write-all" not in str(data["permissions"])
    assert all(job.get("timeout-minutes") for job in data["jobs"].values())
    checkouts = [step for step in steps(file) if "checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    for step in steps(file):
        place = step.get("uses", "")
        assert not place.startswith("./") or (ROOT / place.removeprefix("./.ridgeline/") / "action.yml").is_file()
        assert re.match(r"actions/[a-z-]+@v\d|\./\.ridgeline/", place) or not place
    if "pull_request_target" in data[True]:  # YAML 1.1 reads `on` as true
        assert all("ref" not in step["with"] for step in checkouts)  # nothing of the fork is checked out


def test_the_action_gives_what_it_says() -> None:
    data = yaml.safe_load(ACTION.read_text())
    script = next(step["run"] for step in data["runs"]["steps"] if step.get("id") == "gate")
    assert {f"{name}=" for name in data["outputs"]} <= set(re.findall(r"\b\w+=", script))
    used = set(re.findall(r"inputs\.([a-z-]+)", ACTION.read_text()))
    assert used == set(data["inputs"])


# The scripts themselves, as a runner starts them, with a server on loopback in GitHub's place.


class Runner:
    """Runs the script of a step in a folder. `values`: what the expressions of its environment stand for."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.folder, self.hub = folder, hub
        self.output, self.summary = folder / "output", folder / "summary"
        tools = folder / "tools"
        tools.mkdir()
        for name in ("gh", "pip"):  # what would reach outside only notes its words
            (tools / name).write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.txt\ncat >> {folder}/{name}.in\n')
            (tools / name).chmod(0o755)
        self.path = f"{tools}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(
        self, step: dict[str, Any], event: Path, values: dict[str, str], cwd: Path
    ) -> subprocess.CompletedProcess[str]:
        told = {}
        for name, text in (step.get("env") or {}).items():
            told[name] = re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda found: values[found[1]], str(text))
        environment = {
            "PATH": self.path,
            "HOME": str(self.folder),
            "GITHUB_API_URL": self.hub.address,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_ACTION_PATH": str(SETUP.parent),
            "RUNNER_TEMP": str(self.folder),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **told,
        }
        script = re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda found: values[found[1]], step["run"])
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    hub = Hub(page=100)
    stop = hub.start()
    yield Runner(tmp_path, hub)
    stop()


def serve(hub: Hub, found: Answers) -> None:
    hub.answers = {f"repos/{REPOSITORY}/{path}": answer for path, answer in found.by_path.items()}


def event(folder: Path, payload: dict[str, Any]) -> Path:
    file = folder / "event.json"
    file.write_text(json.dumps(payload))
    return file


def own(file: str) -> list[dict[str, Any]]:
    """The steps with a script of a workflow."""
    return [step for step in steps(ROOT / "docs/examples/workflows" / file) if "run" in step]


TOKEN = {"github.token": "ghs_secret"}


@pytest.mark.integration
def test_the_action_runs(repo: Repo, tmp_path: Path, runner: Runner) -> None:
    repo.branch("pull")
    repo.add(ENTRY)
    payload = pull_event(repo)
    serve(runner.hub, Answers(payload["pull_request"]))
    install, judge = (step for step in steps(ACTION) if "run" in step)
    defaults = {
        f"inputs.{name}": one.get("default", "") for name, one in yaml.safe_load(ACTION.read_text())["inputs"].items()
    }
    values = {**defaults, "inputs.post": "true", "inputs.token": "ghs_secret", "inputs.repo": str(repo.root)}
    happened = event(tmp_path, payload)
    assert runner.run(install, happened, values, tmp_path).returncode == 0
    done = runner.run(judge, happened, values, tmp_path)
    assert done.returncode == 0, done.stderr
    verdict = tmp_path / "ridgeline-gate/verdict.json"
    assert runner.output.read_text() == f"folder={verdict.parent}\nok=true\nsweep=true\nverdict={verdict}\n"
    assert runner.summary.read_text() == (tmp_path / "ridgeline-gate/comment.md").read_text()
    assert [method for method, *_ in runner.hub.seen].count("POST") == 1
    assert "ghs_secret" not in done.stdout + done.stderr + verdict.read_text() + runner.summary.read_text()


@pytest.mark.integration
def test_the_setup_installs_its_own_checkout_or_what_is_told(tmp_path: Path, runner: Runner) -> None:
    (step,) = steps(SETUP)
    there = runner.run(step, tmp_path / "none", {"inputs.install": ""}, tmp_path)
    assert there.returncode == 0 and there.stdout.startswith("ridgeline ")  # it is a command already
    python = tmp_path / "tools/python3"
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/python.txt\n')
    python.chmod(0o755)
    assert runner.run(step, tmp_path / "none", {"inputs.install": "ridgeline==1; rm -rf x"}, tmp_path).returncode == 0
    assert (tmp_path / "python.txt").read_text() == "-I -m pip install --quiet ridgeline==1; rm -rf x\n"
    (tmp_path / "python.txt").unlink()
    runner.path = f"{tmp_path / 'tools'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    runner.run(step, tmp_path / "none", {"inputs.install": ""}, tmp_path)
    place = Path((tmp_path / "python.txt").read_text().split()[-1])
    assert place.resolve() == ROOT and (place / "pyproject.toml").is_file()


@pytest.mark.integration
def test_commands_are_answered_and_staging_reports_back(repo: Repo, tmp_path: Path, runner: Runner) -> None:
    repo.branch("pull")
    head = repo.add(ENTRY)
    found = Answers(pull_json(repo))
    found.add_run(run_json(500, head))
    serve(runner.hub, found)
    (step,) = own("commands.yml")
    done = runner.run(step, event(tmp_path, comment_event("/stage-results")), TOKEN, repo.root)
    assert done.returncode == 0, done.stderr
    comment, dispatched = (body for method, _, _, body in runner.hub.seen if method == "POST")
    assert "Run 500 (attempt 1) will be staged" in comment["body"]

    inputs = {f"inputs.{name}": value for name, value in dispatched["inputs"].items()}
    place = tmp_path / "work"
    place.mkdir()
    Bundle(place / "artifacts")
    stage, report = own("stage.yml")
    stage["run"] += '\necho "$REQUESTER, $NOTE"'
    values = {**TOKEN, **inputs, "toJSON(inputs)": json.dumps(dispatched["inputs"]), "steps.stage.outcome": "success"}
    done = runner.run(stage, tmp_path / "event.json", values, place)
    assert "boss, pull request 77, run 500, attempt 1" in done.stdout, done.stderr
    receipt = json.loads((place / "receipt.json").read_text())
    assert receipt[0]["channel"] == "staging" and receipt[0]["who"] == "boss" and receipt[0]["points"] == 5
    acknowledged = comment_json(comment["body"], id=901, author="github-actions[bot]")
    runner.hub.answers[f"repos/{REPOSITORY}/issues/77/comments"] = [acknowledged]
    assert runner.run(report, tmp_path / "event.json", values, place).returncode == 0
    method, path, _, body = runner.hub.seen[-1]
    assert (method, path.rsplit("/", 1)[1]) == ("PATCH", "901") and "attempt 1) of" in body["body"]
    assert "is done" in body["body"]


@pytest.mark.integration
def test_a_merge_takes_the_run_it_was_told_to(repo: Repo, tmp_path: Path, runner: Runner) -> None:
    repo.branch("pull")
    head = repo.add(ENTRY)
    base = repo.git("rev-parse", "main").strip()
    found = Answers(pull_json(repo, merged=True, merged_at="2026-08-20T12:00:00Z", state="closed"))
    found.add_run(run_json(500, head))
    found.comment(comment_json("/reuse-sweep-run"))
    found.by_path[f"commits/{head}/pulls"] = [found.by_path["pulls/77"]]
    serve(runner.hub, found)
    push = {"ref": "refs/heads/main", "before": base, "after": head, "repository": {"full_name": REPOSITORY}}
    reuse, gate, publish = own("merge.yml")
    for step in (reuse, gate):
        done = runner.run(step, event(tmp_path, push), TOKEN, repo.root)
        assert done.returncode == 0, done.stderr
    lines = dict(line.split("=", 1) for line in runner.output.read_text().splitlines())
    assert (lines["enabled"], lines["source-run-id"]) == ("true", "500")
    assert json.loads((repo.root / "gate/verdict.json").read_text())["will_run"]["cells"]

    place = tmp_path / "work"
    place.mkdir()
    Bundle(place / "artifacts")
    done = runner.run(publish, tmp_path / "event.json", TOKEN, place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "staging -> published" in done.stdout and "as its receipt says" in done.stdout


@pytest.mark.integration
def test_a_label_on_a_fork_starts_the_trusted_sweep(repo: Repo, tmp_path: Path, runner: Runner) -> None:
    repo.branch("pull")
    repo.add(ENTRY)
    payload = pull_event(repo, "labeled") | {"label": {"name": "full-sweep-fail-fast"}, "sender": {"login": "boss"}}
    payload["pull_request"]["head"]["repo"] = {"full_name": "guest/bench"}
    serve(runner.hub, Answers(payload["pull_request"]))
    _, step = own("fork.yml")
    done = runner.run(step, event(tmp_path, payload), TOKEN, repo.root)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "gh.txt").read_text().split()[:3] == ["workflow", "run", "fork-sweep.yml"]
    told = json.loads((tmp_path / "gh.in").read_text())
    assert told["merge-sha"] == "c" * 40 and told["reusable"] == "false" and told["fail-fast"] == "true"

    runner.hub.answers[f"repos/{REPOSITORY}/collaborators/boss/permission"] = {
        "permission": "read",
        "role_name": "read",
    }
    refused = runner.run(step, tmp_path / "event.json", TOKEN, repo.root)
    assert refused.returncode == 1 and "permission is `read`" in refused.stderr
