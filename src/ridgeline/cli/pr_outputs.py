"""What `ridgeline pr gate` leaves: files, the comment and status on GitHub, and a runner's workflow commands."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem

if TYPE_CHECKING:
    from ridgeline.publish.forge.event import Event
    from ridgeline.publish.forge.github import GitHub
    from ridgeline.publish.gate.policy import GatePolicy
    from ridgeline.publish.gate.verdict import Gate


def with_fork(verdict: Gate, event: Event, hub: GitHub | None, policy: GatePolicy) -> Gate:
    """A maintainer's label on a fork: what the trusted sweep is started with, or why it is not."""
    from ridgeline.publish.gate.fork import dispatch

    applied = event.action == "labeled" and event.changed_label in policy.labels.sweeps
    if event.pull is None or not event.pull.fork or not applied:
        return verdict
    if hub is None:
        return replace(
            verdict, unlooked={**verdict.unlooked, "fork": "whether the sender may start a sweep is not known"}
        )
    now = hub.pull(event.pull.number) or event.pull
    return replace(verdict, fork=dispatch(event, now, hub.permission(event.sender), policy))


def server() -> str:
    """Where GitHub shows repositories, for links; a workflow says it in GITHUB_SERVER_URL."""
    told = os.environ.get("GITHUB_SERVER_URL", "")
    return told.rstrip("/") if re.fullmatch(r"https://[\w.:-]+/?", told) else "https://github.com"


def write(folder: Path, verdict: Gate, text: str) -> None:
    from ridgeline.publish.changelog.repository import write_atomically
    from ridgeline.publish.gate.comment import sign_off_comment
    from ridgeline.publish.gate.verdict import as_json

    folder.mkdir(parents=True, exist_ok=True)
    data = as_json(verdict)
    files = {
        "verdict.json": json.dumps(data, indent=1) + "\n",
        "comment.md": text,
        "annotations.json": json.dumps(data["annotations"], indent=1) + "\n",
    }
    if verdict.reminder is not None:
        files["reminder.md"] = verdict.reminder
    if verdict.sign_off is not None:
        files["sign-off.md"] = sign_off_comment(verdict.sign_off)
    for name, content in files.items():
        write_atomically(folder / name, content.encode())
    sys.stderr.write(f"written: {', '.join(files)} in {folder}\n")


class Picture(NamedTuple):
    """A frontier's picture as a file of a branch; `address`: where GitHub serves it."""

    branch: str
    path: str
    text: str
    address: str


def picture_of(verdict: Gate, branch: str) -> Picture | None:
    """The picture that was drawn beside the verdict, for a branch that holds nothing else; None when there is none. It
    is named by its content: what a cache keeps of it stays right. Raises InputError for a branch of another kind."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(?:/[\w-][\w.-]*)*", branch) or branch in ("main", "master"):
        raise InputError([Problem("must be a branch for pictures alone", key="--pictures", hint="ridgeline-pictures")])
    performance = verdict.performance
    if performance is None or performance.picture is None:
        return None
    text = Path(performance.picture).read_text(encoding="utf-8")
    path = f"{verdict.number}/{hashlib.sha256(text.encode()).hexdigest()[:16]}.svg"
    return Picture(branch, path, text, f"{server()}/{verdict.repository}/raw/{branch}/{path}")


def post(hub: GitHub, verdict: Gate, text: str, policy: GatePolicy, picture: Picture | None = None) -> None:
    """The gate's one comment with its picture, the reminder where it is due, and, once somebody signed, the sign-off's
    comment and status for this head."""
    from ridgeline.publish.gate import comment, signoff

    if verdict.number is None:
        return
    now = hub.pull(verdict.number)
    if now is None or now.head_sha != verdict.head:
        raise EnvironmentFailed("the head moved while it was judged; nothing was posted", hint="judge the newer commit")
    if picture is not None:
        about = f"Frontier of pull request {verdict.number} at {verdict.head[:12]}"
        hub.keep_file(picture.branch, picture.path, picture.text, about)
    if verdict.reminder is not None:
        hub.post_comment(verdict.number, verdict.reminder)
    hub.keep_comment(verdict.number, comment.MARKER, text)
    if verdict.sign_off is not None and verdict.sign_off.signer is not None:
        hub.keep_comment(verdict.number, signoff.marker(verdict.head), comment.sign_off_comment(verdict.sign_off))
        state = "success" if verdict.sign_off.verdict == "PASS" else "failure"
        hub.set_status(verdict.head, policy.sign_off.status, state, f"sign-off: {verdict.sign_off.verdict}")


def workflow_commands(annotations: list[dict[str, Any]]) -> str:
    """GitHub's `::error file=...::text` lines; values are escaped the way the runner reads them."""
    levels = {"failure": "error", "warning": "warning", "notice": "notice"}

    def data(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def attribute(text: str) -> str:
        return data(text).replace(":", "%3A").replace(",", "%2C")

    return "".join(
        f"::{levels[one['annotation_level']]} file={attribute(one['path'])},line={one['start_line']},"
        f"title={attribute(one['title'])}::{data(one['message'])}\n"
        for one in annotations
    )
