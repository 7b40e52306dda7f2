"""Commands in comments: what is asked, whether it may be, and the answer. Nothing is started or written here.

In: a comment event and GitHub (or its recorded answers). Out: a `Reply`; for staging also what to dispatch.
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from ridgeline.publish.forge.event import Event, PullRequest
from ridgeline.publish.forge.github import GitHub
from ridgeline.publish.gate.policy import GatePolicy
from ridgeline.publish.gate.text import code, plain
from ridgeline.publish.reuse import merge
from ridgeline.publish.reuse.source import Choice, choose_for_reuse, choose_for_staging, label_faults
from ridgeline.publish.reuse.words import may_reuse, reuse_line, stage_body


class Reply(NamedTuple):
    """`command`: reuse, stage, or None for a comment that asks nothing. Not `accepted`: `why` has every reason."""

    command: str | None
    accepted: bool
    why: tuple[str, ...] = ()
    run: int | None = None
    attempt: int | None = None
    dispatch: dict[str, Any] | None = None
    head: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "why": list(self.why)}


def handle(event: Event, github: GitHub, policy: GatePolicy, today: datetime.date) -> Reply:
    """Judge the command in a comment event. Only new comments command; edits do not."""
    comment = event.comment
    if event.kind != "issue_comment" or comment is None or event.number is None or event.action != "created":
        return Reply(None, False, ("not a new comment on a pull request",))
    addressed, well_formed, pinned = stage_body(comment.body, policy.commands.stage)
    if addressed:
        return _stage(event, github, policy, well_formed, pinned, today)
    asked, pinned = reuse_line(comment.body, policy.commands.reuse)
    if asked:
        return _reuse(event, github, policy, pinned)
    return Reply(None, False, ("the comment holds no command",))


def reply_text(reply: Reply, policy: GatePolicy) -> str:
    """The answer as a comment."""
    word = {"reuse": policy.commands.reuse, "stage": policy.commands.stage}.get(reply.command or "", "")
    if not reply.accepted:
        reasons = "\n".join(f"- {plain(one)}" for one in reply.why)
        return f"{code(word)} is refused:\n\n{reasons}\n"
    if reply.command == "stage":
        return f"Run {reply.run} (attempt {reply.attempt}) will be staged.\n"
    return (
        f"Reuse is authorised: at merge, run {reply.run} (attempt {reply.attempt}) stands in for a sweep. "
        "Nothing starts now.\n"
    )


def _reuse(event: Event, github: GitHub, policy: GatePolicy, pinned: int | None) -> Reply:
    assert event.comment is not None and event.number is not None
    if not may_reuse(event.comment, policy):
        allowed = ", ".join(policy.commands.associations)
        return Reply("reuse", False, (f"the author is {event.comment.association or 'NONE'}; {allowed} may",))
    pull = github.pull(event.number)
    if pull is None:
        return Reply("reuse", False, ("the pull request is not there",))
    faults = label_faults(pull, policy)
    if pull.fork:
        faults.append("runs of forks are not reused")
    runs = merge.candidates(pinned, pull, github, policy)
    choice = choose_for_reuse(pinned, runs, github.artifacts, github.commits(pull.number), policy)
    return _answer("reuse", faults, choice, pull, github)


def _stage(
    event: Event, github: GitHub, policy: GatePolicy, well_formed: bool, pinned: int | None, today: datetime.date
) -> Reply:
    assert event.comment is not None and event.number is not None
    if not well_formed:
        usage = f"the whole comment must be `{policy.commands.stage}` or `{policy.commands.stage} RUN`, a run's number"
        return Reply("stage", False, (usage,))
    permission = github.permission(event.comment.author)
    if permission not in policy.commands.permissions:
        needed = " or ".join(policy.commands.permissions)
        return Reply("stage", False, (f"permission is `{permission}`; {needed} is needed",))
    pull = github.pull(event.number)
    if pull is None:
        return Reply("stage", False, ("the pull request is not there",))
    full = policy.full_sweeps
    faults = [] if set(full) & set(pull.labels) else [f"no full-sweep label; put one of {', '.join(full)} on it"]
    runs = merge.candidates(pinned, pull, github, policy)
    commits, history = github.commits(pull.number), github.label_events(pull.number)
    choice = choose_for_staging(pinned, runs, github.artifacts, pull, commits, history, policy)
    reply = _answer("stage", faults, choice, pull, github)
    if not reply.accepted:
        return reply
    return reply._replace(
        dispatch={
            "repository": event.repository,
            "pr-number": pull.number,
            "run-id": reply.run,
            "run-attempt": reply.attempt,
            "date": today.isoformat(),
            "requester": event.comment.author,
            "comment-id": event.comment.id,
        }
    )


def _answer(command: str, faults: list[str], choice: Choice, pull: PullRequest, github: GitHub) -> Reply:
    if choice.run is None:
        return Reply(command, False, (*faults, *choice.why), head=pull.head_sha)
    if faults:
        return Reply(command, False, tuple(faults), head=pull.head_sha)
    again = github.pull(pull.number)
    if again is None or again.head_sha != pull.head_sha:
        return Reply(command, False, ("the head moved while this was judged; comment again",), head=pull.head_sha)
    return Reply(command, True, (), choice.run.id, choice.run.attempt, head=pull.head_sha)
