"""A pull request for tests: a real repository, a payload by GitHub's documented schema, and recorded answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.publish.changelog.repo import Repo
from tests.publish.changelog.texts import REPOSITORY, entry

from ridgeline.publish.gate.policy import GatePolicy, inferencex_policy

TITLE = "Measure the new engine / 测量新的引擎"
BODY = """\
This measures the new engine on the usual fleet, with the usual settings.

## 中文

本次改动在常用机器上测量新的引擎，设置不变。
"""
ENTRY = entry("new")
SCRIPT = "benchmarks/single_node/new_fp8_h1.sh"


def policy(**changes: Any) -> GatePolicy:
    """InferenceX's policy for the repository of the tests."""
    from dataclasses import replace

    return replace(inferencex_policy(), repository=REPOSITORY, **changes)


def pull_json(repo: Repo, **changes: Any) -> dict[str, Any]:
    """A pull request as the REST API and events write it, for the branch that is checked out against `main`."""
    head = repo.git("rev-parse", "HEAD").strip()
    base = repo.git("rev-parse", "main").strip()
    pull: dict[str, Any] = {
        "number": 77,
        "state": "open",
        "title": TITLE,
        "body": BODY,
        "draft": False,
        "merged": False,
        "merged_at": None,
        "merge_commit_sha": "c" * 40,
        "user": {"login": "someone", "type": "User"},
        "labels": [{"id": 1, "name": "full-sweep-fail-fast", "color": "ededed"}],
        "base": {"ref": "main", "sha": base, "repo": {"full_name": REPOSITORY, "fork": False}},
        "head": {"ref": "pull", "sha": head, "repo": {"full_name": REPOSITORY, "fork": False}},
    }
    return pull | changes


def pull_event(repo: Repo, action: str = "synchronize", **changes: Any) -> dict[str, Any]:
    """The payload of a `pull_request` event."""
    return {
        "action": action,
        "number": 77,
        "pull_request": pull_json(repo, **changes),
        "repository": {"id": 5, "full_name": REPOSITORY, "private": False},
        "sender": {"login": "someone", "type": "User"},
    }


def comment_json(body: str, *, id: int = 900, author: str = "boss", association: str = "MEMBER") -> dict[str, Any]:
    return {
        "id": id,
        "body": body,
        "user": {"login": author, "type": "User"},
        "author_association": association,
        "created_at": f"2026-08-20T10:00:{id % 60:02d}Z",
    }


def comment_event(body: str, **changes: Any) -> dict[str, Any]:
    """The payload of an `issue_comment` event on a pull request."""
    return {
        "action": "created",
        "issue": {"number": 77, "pull_request": {"url": "x"}, "labels": []},
        "comment": comment_json(body, **changes),
        "repository": {"full_name": REPOSITORY},
        "sender": {"login": changes.get("author", "boss")},
    }


def run_json(id: int, sha: str, **changes: Any) -> dict[str, Any]:
    """A workflow run."""
    run: dict[str, Any] = {
        "id": id,
        "run_attempt": 1,
        "event": "pull_request",
        "status": "completed",
        "conclusion": "success",
        "path": ".github/workflows/run-sweep.yml",
        "head_sha": sha,
        "head_branch": "pull",
        "created_at": f"2026-08-20T08:00:{id % 60:02d}Z",
        "html_url": f"https://github.com/{REPOSITORY}/actions/runs/{id}",
        "pull_requests": [],
    }
    return run | changes


def artifact_json(name: str, *, id: int = 1, expired: bool = False, expires_at: str = "2099-01-01T00:00:00Z") -> Any:
    return {"id": id, "name": name, "expired": expired, "expires_at": expires_at, "size_in_bytes": 10}


class Answers:
    """Recorded answers of the API, by path below the repository."""

    def __init__(self, pull: dict[str, Any], *, commits: list[str] | None = None) -> None:
        head, number = pull["head"]["sha"], pull["number"]
        self.by_path: dict[str, Any] = {
            f"pulls/{number}": pull,
            f"pulls/{number}/commits": [{"sha": sha} for sha in commits or [head]],
            f"issues/{number}/comments": [],
            f"issues/{number}/events": [
                {"event": "labeled", "label": {"name": "full-sweep-fail-fast"}, "created_at": "2026-08-20T07:00:00Z"}
            ],
            "actions/workflows/run-sweep.yml/runs": {"workflow_runs": []},
            "collaborators/boss/permission": {"permission": "write", "role_name": "maintain"},
            f"commits/{head}/check-runs": {"check_runs": []},
        }

    def add_run(self, run: dict[str, Any], *names: str, **artifact: Any) -> None:
        self.by_path["actions/workflows/run-sweep.yml/runs"]["workflow_runs"].append(run)
        self.by_path[f"actions/runs/{run['id']}"] = run
        names = names or ("results_bmk", "eval_results_all", "changelog-metadata")
        found = [artifact_json(name, id=index, **artifact) for index, name in enumerate(names, 1)]
        self.by_path[f"actions/runs/{run['id']}/artifacts"] = {"artifacts": found}
        jobs = [("single-node 1k1k / tp4", "success"), ("eval / tp4", "success")]
        self.by_path[f"actions/runs/{run['id']}/jobs"] = {
            "jobs": [
                {"name": name, "conclusion": conclusion, "steps": [{"name": "run", "conclusion": conclusion}]}
                for name, conclusion in jobs
            ]
        }

    def comment(self, *comments: dict[str, Any], number: int = 77) -> None:
        self.by_path[f"issues/{number}/comments"] += comments

    def record(self, folder: Path) -> Path:
        """Write them where `Recorded` finds them."""
        for path, answer in self.by_path.items():
            file = folder / "repos" / REPOSITORY / f"{path}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(answer))
        return folder


def script(repo: Repo, text: str, path: str = SCRIPT) -> None:
    """Write a file of the work tree."""
    file = repo.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def write_policy(folder: Path) -> Path:
    """InferenceX's policy for the repository of the tests, as a file."""
    from importlib.resources import files

    text = (files("ridgeline.publish.gate") / "data" / "inferencex.yaml").read_text()
    file = folder / "policy.yaml"
    file.write_text(text.replace("repository: SemiAnalysisAI/InferenceX", f"repository: {REPOSITORY}"))
    return file
