"""What is read from GitHub, as frozen values, and the few things written to it.

Fields are read by GitHub's documented schema and checked like an event's: an answer that does not fit is a failure of
the environment, never a guess.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.publish.forge.event import Comment, PullRequest, Reader, comment_of, pull_of
from ridgeline.publish.forge.transport import Transport

T = TypeVar("T")
_NAME = r"[A-Za-z0-9_.-]{1,100}"
_COMMENT = re.compile(
    rf"https://[\w.-]+/(?P<repository>{_NAME}/{_NAME})/(?:pull|issues)/(?P<number>[1-9]\d{{0,15}})(?:/files)?"
    r"#(?P<kind>issuecomment-|pullrequestreview-|discussion_r)(?P<id>[1-9]\d{0,18})"
)
_TEAM = re.compile(rf"{_NAME}/{_NAME}")
_FILE = re.compile(
    rf"https://github\.com/(?P<repository>{_NAME}/{_NAME})/(?:blob|raw)/"
    r"(?P<ref>[\w.-]{1,100})/(?P<path>[\w./-]{1,400})"
)
_PULL = re.compile(
    rf"https://github\.com/(?P<repository>{_NAME}/{_NAME})/pull/(?P<number>[1-9]\d{{0,15}})(?:/files)?/?"
)
_MOST_FILES = 20


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """A run of a workflow. `conclusion` None while it runs. `pulls`: pull requests it is listed under."""

    id: int
    attempt: int
    event: str
    status: str
    conclusion: str | None
    path: str
    head_sha: str
    head_branch: str
    created_at: str
    url: str
    pulls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact of a run."""

    id: int
    name: str
    expired: bool
    expires_at: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """A label put on (`labeled`) or taken off (`unlabeled`) at an ISO time."""

    action: str
    label: str
    at: str


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job of a run. `steps`: whether any step of it was really executed."""

    name: str
    conclusion: str | None
    steps: bool


@dataclass(frozen=True, slots=True)
class CheckRun:
    """A check on a commit."""

    name: str
    status: str
    conclusion: str | None


class GitHub:
    """One repository (`organisation/name`, already checked) behind a transport."""

    def __init__(self, transport: Transport, repository: str) -> None:
        self._transport = transport
        self.repository = repository

    def pull(self, number: int) -> PullRequest | None:
        answer = self._transport.one(self._path(f"pulls/{number}"))
        if answer is None:
            return None
        return _read(answer, lambda read: pull_of(read))

    def commits(self, number: int) -> tuple[str, ...]:
        """Commit ids of a pull request, oldest first."""
        items = self._transport.pages(self._path(f"pulls/{number}/commits"))
        return tuple(_read(item, lambda read: read.sha("sha")) for item in items)

    def comments(self, number: int) -> tuple[Comment, ...]:
        """Comments of the conversation, oldest first."""
        items = self._transport.pages(self._path(f"issues/{number}/comments"))
        return tuple(_read(item, lambda read: comment_of(read)) for item in items)

    def reviews(self, number: int) -> tuple[Comment, ...]:
        """Reviews and the comments on lines that belong to them: people sign off there as well."""
        found = []
        for place in ("reviews", "comments"):
            items = self._transport.pages(self._path(f"pulls/{number}/{place}"))
            found += [_read(item, lambda read: comment_of(read)) for item in items]
        return tuple(found)

    def comment_at(self, address: str) -> tuple[int, Comment] | None:
        """(pull request, comment) behind the address of a comment, a review or a comment on a line, as GitHub shows it;
        None when nothing is there. Raises InputError for another address or repository."""
        match = _COMMENT.fullmatch(address)
        if match is None or match["repository"].lower() != self.repository.lower():
            hint = (
                f"https://github.com/{self.repository}/pull/NUMBER#issuecomment-ID, a review's or an inline comment's"
            )
            raise InputError([Problem("is not a comment's address", key="--comment", hint=hint)])
        number, id = int(match["number"]), match["id"]
        place = {
            "issuecomment-": f"issues/comments/{id}",
            "pullrequestreview-": f"pulls/{number}/reviews/{id}",
            "discussion_r": f"pulls/comments/{id}",
        }[match["kind"]]
        answer = self._transport.one(self._path(place))
        return None if answer is None else (number, _read(answer, lambda read: comment_of(read)))

    def member(self, team: str, login: str) -> bool | None:
        """Whether an account belongs to a team (`organisation/name`). None when the token may not see the team."""
        if not _TEAM.fullmatch(team) or not _TEAM.fullmatch(f"x/{login}"):
            return None
        organisation, name = team.split("/")
        place = f"orgs/{organisation}/teams/{name}"
        try:
            answer = self._transport.one(f"{place}/memberships/{login}")
            if answer is None:  # nobody of it, or a team that is hidden from us
                return False if self._transport.one(place) is not None else None
        except EnvironmentFailed:  # the usual token of a workflow may not read teams
            return None
        return _read(answer, lambda read: read.text("state")) == "active"

    def document(self, address: str) -> str | None:
        """The text behind an address on GitHub: a file's, or that of a merged pull request's files. None for others."""
        match = _FILE.fullmatch(address)
        if ".." in address:
            return None
        if match:
            return self._contents(match["repository"], match["path"], match["ref"])
        match = _PULL.fullmatch(address)
        if match is None:
            return None
        place = f"repos/{match['repository']}/pulls/{match['number']}"
        answer = self._transport.one(place)
        if answer is None:
            return None
        pull = _read(answer, lambda read: pull_of(read))
        if not pull.merged or pull.merge_sha is None:
            return None
        names = [item.get("filename") for item in self._transport.pages(f"{place}/files") if isinstance(item, dict)]
        texts = [self._contents(match["repository"], str(name), pull.merge_sha) for name in names[:_MOST_FILES]]
        return "\n".join(text for text in texts if text) or None

    def _contents(self, repository: str, path: str, ref: str) -> str | None:
        answer = self._transport.one(f"repos/{repository}/contents/{quote(path)}", ref=ref)
        if not isinstance(answer, dict) or answer.get("encoding") != "base64":
            return None
        try:
            return base64.b64decode(_read(answer, lambda read: read.text("content"))).decode("utf-8", "replace")
        except ValueError:
            return None

    def label_events(self, number: int) -> tuple[LabelEvent, ...]:
        """When labels came and went, oldest first."""
        items = self._transport.pages(self._path(f"issues/{number}/events"))
        return tuple(
            _read(one, lambda read: LabelEvent(read.text("event"), read.text("label", "name"), read.text("created_at")))
            for one in items
            if isinstance(one, dict) and one.get("event") in ("labeled", "unlabeled")
        )

    def pulls_of(self, commit: str) -> tuple[PullRequest, ...]:
        """Pull requests that a commit belongs to. They come without `merged`; a merge time stands for it."""
        items = self._transport.pages(self._path(f"commits/{commit}/pulls"))
        return tuple(_read(item, lambda read: pull_of(read)) for item in items)

    def runs(self, branch: str, workflow: str) -> tuple[WorkflowRun, ...]:
        """Completed pull-request runs of a workflow (its path) on a branch, newest first."""
        name = quote(workflow.rsplit("/", 1)[-1], safe="")
        items = self._transport.pages(
            self._path(f"actions/workflows/{name}/runs"),
            "workflow_runs",
            branch=branch,
            event="pull_request",
            status="completed",
        )
        found = [_read(item, _run) for item in items]
        return tuple(sorted(found, key=lambda run: (run.created_at, run.id), reverse=True))

    def run(self, number: int) -> WorkflowRun | None:
        answer = self._transport.one(self._path(f"actions/runs/{number}"))
        return None if answer is None else _read(answer, _run)

    def artifacts(self, run: int) -> tuple[Artifact, ...]:
        items = self._transport.pages(self._path(f"actions/runs/{run}/artifacts"), "artifacts")
        return tuple(_read(item, _artifact) for item in items)

    def jobs(self, run: int) -> tuple[JobRun, ...]:
        """Jobs of a run's latest attempt."""
        items = self._transport.pages(self._path(f"actions/runs/{run}/jobs"), "jobs")
        return tuple(_read(item, _job) for item in items)

    def checks(self, commit: str) -> tuple[CheckRun, ...]:
        items = self._transport.pages(self._path(f"commits/{commit}/check-runs"), "check_runs")
        return tuple(
            _read(
                one,
                lambda read: CheckRun(
                    read.text("name"), read.text("status"), read.text("conclusion", optional=True) or None
                ),
            )
            for one in items
        )

    def permission(self, login: str) -> str:
        """`admin`, `maintain`, `write`, `triage`, `read` or `none`."""
        answer = self._transport.one(self._path(f"collaborators/{quote(login, safe='')}/permission"))
        if answer is None:
            return "none"
        return _read(answer, lambda read: read.text("role_name", optional=True) or read.text("permission"))

    # Writing

    def post_comment(self, number: int, body: str) -> None:
        self._transport.send("POST", self._path(f"issues/{number}/comments"), {"body": body})

    def update_comment(self, comment: int, body: str) -> None:
        self._transport.send("PATCH", self._path(f"issues/comments/{comment}"), {"body": body})

    def keep_comment(self, number: int, marker: str, body: str, *, author: str | None = None) -> None:
        """One comment that begins with `marker`: the newest one is rewritten, else one is posted. Only comments of
        `author`, or of bots, count: anyone may write a marker, and a bot may quote one."""
        mine = [
            one
            for one in self.comments(number)
            if one.body.startswith(marker) and (one.author == author if author else one.author.endswith("[bot]"))
        ]
        if mine:
            self.update_comment(mine[-1].id, body)
        else:
            self.post_comment(number, body)

    def set_status(self, commit: str, context: str, state: str, description: str) -> None:
        """A commit status; `state` is success, failure or pending."""
        body = {"state": state, "context": context, "description": description[:140]}
        self._transport.send("POST", self._path(f"statuses/{commit}"), body)

    def keep_file(self, branch: str, path: str, text: str, message: str) -> None:
        """One commit that adds a file to a branch, which is made without a history when it is not there. Nothing is
        committed when the branch holds the file already."""
        tip = self._transport.one(self._path(f"git/ref/heads/{branch}"))
        parents = [] if tip is None else [_read(tip, lambda read: read.sha("object", "sha"))]
        tree: dict[str, Any] = {"tree": [{"path": path, "mode": "100644", "type": "blob", "content": text}]}
        for parent in parents:
            commit = self._transport.one(self._path(f"git/commits/{parent}"))
            tree["base_tree"] = _read(commit, lambda read: read.sha("tree", "sha"))
        made = self._made("trees", tree)
        if made == tree.get("base_tree"):
            return
        commit = self._made("commits", {"message": message, "tree": made, "parents": parents})
        if parents:
            self._transport.send("PATCH", self._path(f"git/refs/heads/{branch}"), {"sha": commit})
        else:
            self._transport.send("POST", self._path("git/refs"), {"ref": f"refs/heads/{branch}", "sha": commit})

    def _made(self, kind: str, body: dict[str, Any]) -> str:
        """The id of a git object that was made."""
        return _read(self._transport.send("POST", self._path(f"git/{kind}"), body), lambda read: read.sha("sha"))

    def dispatch(self, workflow: str, ref: str, inputs: dict[str, str]) -> None:
        """Start a workflow that is started by hand."""
        name = quote(workflow.rsplit("/", 1)[-1], safe="")
        self._transport.send("POST", self._path(f"actions/workflows/{name}/dispatches"), {"ref": ref, "inputs": inputs})

    def _path(self, rest: str) -> str:
        return f"repos/{self.repository}/{rest}"


def _run(read: Reader) -> WorkflowRun:
    listed = read.at("pull_requests")
    numbers = [one.get("number") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return WorkflowRun(
        id=read.whole("id"),
        attempt=read.whole("run_attempt") if read.at("run_attempt") is not None else 1,
        event=read.text("event"),
        status=read.text("status"),
        conclusion=read.text("conclusion", optional=True) or None,
        path=read.text("path").partition("@")[0],
        head_sha=read.sha("head_sha"),
        head_branch=read.text("head_branch", optional=True),
        created_at=read.text("created_at"),
        url=read.text("html_url", optional=True),
        pulls=tuple(number for number in numbers if isinstance(number, int)),
    )


def _artifact(read: Reader) -> Artifact:
    size = read.at("size_in_bytes")
    return Artifact(
        id=read.whole("id"),
        name=read.text("name"),
        expired=read.flag("expired"),
        expires_at=read.text("expires_at", optional=True),
        size=size if isinstance(size, int) else 0,
    )


def _job(read: Reader) -> JobRun:
    steps: Any = read.at("steps")
    executed = isinstance(steps, list) and any(
        isinstance(step, dict) and step.get("conclusion") == "success" for step in steps
    )
    return JobRun(read.text("name"), read.text("conclusion", optional=True) or None, executed)


def _read(answer: Any, make: Callable[[Reader], T]) -> T:
    read = Reader(answer, "GitHub's answer")
    value = make(read)
    try:
        read.finish()
    except InputError as error:
        raise EnvironmentFailed(f"GitHub answered something unexpected: {error}") from error
    return value


def newest_first(comments: Iterable[Comment]) -> list[Comment]:
    """Comments by time, then id, newest first."""
    return sorted(comments, key=lambda one: (one.at, one.id), reverse=True)
