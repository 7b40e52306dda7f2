"""A GitHub event payload → a frozen `Event`. The payload is hostile: every field is checked, nothing is trusted.

In: bytes as GitHub writes them into the event file. Out: the few fields the gate uses, bounded in size, or an
`InputError` that names every field of the wrong kind. Commit ids must be hexadecimal, numbers whole and positive: these
are the only values that ever reach git or an address; texts are data to look at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

MAX_BYTES = 25 * 1024 * 1024  # GitHub's own limit for a payload
MAX_TEXT = 262_144  # GitHub cuts bodies at 65,536 characters of up to 4 bytes
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98})(?:\[bot\])?")


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request as an event or GitHub's API tells it. `head_repository` None: the fork is gone. `merge_sha`: the
    trial merge, None while GitHub has made none."""

    number: int
    title: str
    body: str
    author: str
    state: str
    draft: bool
    merged: bool
    labels: tuple[str, ...]
    base_ref: str
    base_sha: str
    base_repository: str
    head_ref: str
    head_sha: str
    head_repository: str | None
    merge_sha: str | None = None

    @property
    def fork(self) -> bool:
        """Whether the branch lies in another repository."""
        return self.head_repository is None or self.head_repository.lower() != self.base_repository.lower()


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment. `association`: GitHub's word for how the author belongs to the repository. `at`: ISO time."""

    id: int
    body: str
    author: str
    association: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """`kind`: pull_request, push, issue_comment, pull_request_review or pull_request_review_comment. For a push,
    `before` and `after` are commits; for a comment on an issue `pull` is unknown and `number` says which."""

    kind: str
    action: str
    repository: str
    sender: str
    number: int | None = None
    pull: PullRequest | None = None
    changed_label: str | None = None
    comment: Comment | None = None
    labels: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
    ref: str | None = None


def read_event(data: bytes, file: str = "event") -> Event:
    """The event behind a payload. Raises InputError with every field that is missing or of the wrong kind."""
    return event_of(read_json(data, file), file)


def read_json(data: bytes, file: str) -> Any:
    """JSON from outside, bounded in size and depth. Raises InputError."""
    if len(data) > MAX_BYTES:
        raise InputError([Problem(f"{len(data)} bytes are more than the {MAX_BYTES} GitHub sends", Where(file))])
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError as error:
        raise InputError([Problem("nested too deeply", Where(file))]) from error
    except ValueError as error:  # of the decoder, of UTF-8, of numbers with too many digits
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        what = str(getattr(error, "msg", error)).splitlines()[0][:200]
        raise InputError([Problem(f"not JSON: {what}", Where(file, line, column))]) from error


def event_of(payload: Any, file: str = "event") -> Event:
    """The event of a parsed payload. Raises InputError."""
    read = Reader(payload, file)
    kind = _kind(read.root)
    repository = read.repository("repository", "full_name")
    sender = read.text("sender", "login", optional=True)
    event = Event(kind, read.text("action", optional=True), repository, sender)
    if kind == "push":
        event = Event(
            kind,
            "push",
            repository,
            sender,
            before=read.sha("before"),
            after=read.sha("after"),
            ref=read.text("ref"),
        )
    elif kind == "issue_comment":
        event = Event(
            kind,
            event.action,
            repository,
            sender,
            number=read.whole("issue", "number"),
            comment=comment_of(read, "comment"),
            labels=read.labels("issue", "labels"),
        )
    elif kind:
        pull = pull_of(read, "pull_request")
        changed = read.text("label", "name", optional=True) or None
        source = {"pull_request_review": "review", "pull_request_review_comment": "comment"}.get(kind)
        event = Event(
            kind,
            event.action,
            repository,
            sender,
            number=pull.number,
            pull=pull,
            changed_label=changed,
            comment=comment_of(read, source) if source else None,
            labels=pull.labels,
        )
    else:
        read.wrong((), "neither a pull request, a push nor a comment on a pull request")
    read.finish()
    return event


def pull_of(read: Reader, *path: str) -> PullRequest:
    """The pull request below `path`."""
    head = read.at(*path, "head", "repo")
    return PullRequest(
        number=read.whole(*path, "number"),
        title=read.text(*path, "title"),
        body=read.text(*path, "body", optional=True),
        author=read.text(*path, "user", "login", optional=True),
        state=read.text(*path, "state"),
        draft=read.flag(*path, "draft"),
        merged=read.flag(*path, "merged") or bool(read.at(*path, "merged_at")),
        labels=read.labels(*path, "labels"),
        base_ref=read.text(*path, "base", "ref"),
        base_sha=read.sha(*path, "base", "sha"),
        base_repository=read.repository(*path, "base", "repo", "full_name"),
        head_ref=read.text(*path, "head", "ref"),
        head_sha=read.sha(*path, "head", "sha"),
        head_repository=None if head is None else read.repository(*path, "head", "repo", "full_name"),
        merge_sha=read.sha(*path, "merge_commit_sha") if read.at(*path, "merge_commit_sha") is not None else None,
    )


def comment_of(read: Reader, *path: str) -> Comment:
    """The comment or review below `path`."""
    return Comment(
        id=read.whole(*path, "id"),
        body=read.text(*path, "body", optional=True),
        author=read.text(*path, "user", "login", optional=True),
        association=read.text(*path, "author_association", optional=True),
        at=read.text(*path, "created_at", optional=True) or read.text(*path, "submitted_at", optional=True),
    )


class Reader:
    """Reads fields of plain JSON data by path and collects what is wrong; `finish` raises it, all at once."""

    def __init__(self, root: Any, file: str) -> None:
        self.root = root if isinstance(root, dict) else {}
        self.file = file
        self.problems: list[Problem] = []
        if not isinstance(root, dict):
            self.wrong((), "must be an object")

    def at(self, *path: str) -> Any:
        """The value at `path`; None where a part is missing or no object."""
        value: Any = self.root
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def text(self, *path: str, optional: bool = False) -> str:
        """A text; for optional ones a missing value or null is empty."""
        value = self.at(*path)
        if value is None and optional:
            return ""
        if not isinstance(value, str):
            self.wrong(path, "must be text")
            return ""
        if len(value) > MAX_TEXT:
            self.wrong(path, f"{len(value)} characters are more than GitHub keeps")
            return ""
        return value.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be written anywhere

    def whole(self, *path: str) -> int:
        """A whole number above 0 that fits 64 bits."""
        value = self.at(*path)
        if value.__class__ is not int or not 0 < value < 2**63:
            self.wrong(path, "must be a whole number above 0")
            return 0
        return int(value)

    def flag(self, *path: str) -> bool:
        """True or false; a missing value is false."""
        value = self.at(*path)
        if value is not None and value.__class__ is not bool:
            self.wrong(path, "must be true or false")
        return value is True

    def sha(self, *path: str) -> str:
        """A full commit id."""
        return self._shaped(path, _SHA, "must be a full commit id (40 or 64 hexadecimal digits)")

    def repository(self, *path: str) -> str:
        """ORGANISATION/NAME."""
        return self._shaped(path, _REPOSITORY, "must be a repository, organisation/name")

    def login(self, *path: str) -> str:
        """An account's name."""
        return self._shaped(path, _LOGIN, "must be an account's name")

    def labels(self, *path: str) -> tuple[str, ...]:
        """Names of a list of label objects, at most 100, as GitHub allows."""
        value = self.at(*path)
        if value is None:
            return ()
        names = [one.get("name") if isinstance(one, dict) else None for one in value] if isinstance(value, list) else []
        if not isinstance(value, list) or not all(isinstance(name, str) and len(name) <= 100 for name in names):
            self.wrong(path, "must be a list of labels with names of at most 100 characters")
            return ()
        if len(names) > 100:
            self.wrong(path, f"{len(names)} labels are more than GitHub allows")
            return ()
        return tuple(str(name) for name in names)

    def wrong(self, path: tuple[str, ...], message: str) -> None:
        """Note a problem at `path`."""
        self.problems.append(Problem(message, Where(self.file), ".".join(path) or None))

    def finish(self) -> None:
        """Raise InputError when anything was wrong."""
        if self.problems:
            raise InputError(self.problems)

    def _shaped(self, path: tuple[str, ...], shape: re.Pattern[str], message: str) -> str:
        value = self.at(*path)
        if not isinstance(value, str) or not shape.fullmatch(value) or ".." in value:
            self.wrong(path, message)
            return ""
        return value


def _kind(payload: Mapping[str, Any]) -> str:
    """The payload does not say what it is; its shape does. Empty when it is nothing we know."""
    if isinstance(payload.get("issue"), dict):
        on_pull = isinstance(payload["issue"].get("pull_request"), dict)
        return "issue_comment" if on_pull and isinstance(payload.get("comment"), dict) else ""
    if isinstance(payload.get("pull_request"), dict):
        if isinstance(payload.get("review"), dict):
            return "pull_request_review"
        return "pull_request_review_comment" if isinstance(payload.get("comment"), dict) else "pull_request"
    return "push" if "before" in payload and "after" in payload else ""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")
