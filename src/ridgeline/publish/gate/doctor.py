"""Why a pull request cannot be merged with reuse right now, and the next command. Reads only."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ridgeline.core.errors import AnswerIsNo, InputError, RidgelineError
from ridgeline.publish.changelog.contract import strict
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.merging import canonicalize, resolve
from ridgeline.publish.changelog.repository import Repository
from ridgeline.publish.forge.event import Comment, PullRequest
from ridgeline.publish.forge.github import GitHub, WorkflowRun
from ridgeline.publish.gate import signoff
from ridgeline.publish.gate.decision import sweep_labels
from ridgeline.publish.gate.policy import GatePolicy, matches
from ridgeline.publish.reuse import merge
from ridgeline.publish.reuse.source import choose_for_reuse, label_faults
from ridgeline.publish.reuse.words import authorisation

_GAP = re.compile(r"^\| (\d{1,2}) \| ([^|\n]{1,200}) \| \*\*(no|human)\*\* \|", re.MULTILINE)  # a row of the sign-off
SOON = datetime.timedelta(days=3)


class Diagnosis(NamedTuple):
    """One thing looked at. `well` None: it could not be looked at. `next`: a command, or what to do."""

    about: str
    well: bool | None
    said: str
    next: str | None = None


def examine(
    number: int,
    github: GitHub,
    policy: GatePolicy,
    now: datetime.datetime,
    repository: Repository | None = None,
    *,
    bot: str = "github-actions[bot]",
) -> tuple[Diagnosis, ...]:
    """Everything that stands between the pull request and a merge with reuse, in the order in which to mend it.
    Raises InputError when the pull request does not exist."""
    pull = github.pull(number)
    if pull is None:
        raise InputError(f"{github.repository} has no pull request {number}")
    if pull.merged or pull.state != "open":
        return (Diagnosis("state", False, "it is merged already" if pull.merged else "it is closed"),)
    comments = github.comments(number)
    asked = authorisation(comments, policy)
    found = [*_state(pull), *_labels(pull, policy)]
    pinned = asked.run if asked else None
    runs = merge.candidates(pinned, pull, github, policy)
    choice = choose_for_reuse(pinned, runs, github.artifacts, github.commits(number), policy)
    if choice.run is None:
        again = f"take the sweep label off and put `{policy.labels.recommended}` on"
        found.append(Diagnosis("source run", False, "; ".join(choice.why), again))
    else:
        found += _source(choice.run, pull, github, policy, now)
    if asked:
        found.append(Diagnosis("authorisation", True, f"comment {asked.comment.id} by {asked.comment.author}"))
    else:
        said = f"nobody who may wrote `{policy.commands.reuse}`"
        pin = f" {choice.run.id}" if choice.run else ""
        found.append(Diagnosis("authorisation", False, said, f"comment `{policy.commands.reuse}{pin}`"))
    found += _sign_off(pull, comments, policy, bot)
    found += _checks(pull, github)
    found.append(_changelog(repository, pull, policy))
    return tuple(found)


def verdict(found: Sequence[Diagnosis]) -> tuple[bool, str | None]:
    """Whether nothing stands in the way, and the first next step."""
    wrong = [one for one in found if one.well is False]
    return not wrong, next((one.next for one in wrong if one.next), None)


def _state(pull: PullRequest) -> Iterator[Diagnosis]:
    if pull.draft:
        yield Diagnosis("state", False, "it is a draft", "mark it ready for review")
    elif pull.fork:
        yield Diagnosis(
            "state", False, "it comes from a fork: its runs are not reused", "push the branch to the repository"
        )
    else:
        yield Diagnosis("state", True, "open and ready")


def _labels(pull: PullRequest, policy: GatePolicy) -> Iterator[Diagnosis]:
    faults = label_faults(pull, policy)
    on = sweep_labels(pull.labels, policy)
    if len(on) > 1:
        faults.append(f"more than one sweep label: {', '.join(on)}")
    if faults:
        following = f"keep exactly one label, `{policy.labels.recommended}` for one"
        yield Diagnosis("labels", False, "; ".join(faults), following)
    else:
        yield Diagnosis("labels", True, f"`{on[0]}`")


def _source(
    run: WorkflowRun, pull: PullRequest, github: GitHub, policy: GatePolicy, now: datetime.datetime
) -> Iterator[Diagnosis]:
    behind = "" if run.head_sha == pull.head_sha else f"; the head has moved since ({pull.head_sha[:12]})"
    yield Diagnosis("source run", True, f"run {run.id}, attempt {run.attempt}, of {run.head_sha[:12]}{behind}")
    artifacts = [one for one in github.artifacts(run.id) if not one.expired]
    results = [one for one in artifacts if matches(one.name, policy.runs.results)]
    times = [time for one in results if (time := _time(one.expires_at)) is not None]
    again = "merge before, or sweep again"
    if times and min(times) <= now:
        yield Diagnosis("artifacts", False, f"they expired at {min(times).isoformat()}", "sweep again")
    elif times and min(times) - now < SOON:
        yield Diagnosis("artifacts", None, f"they expire at {min(times).isoformat()}", again)
    else:
        yield Diagnosis("artifacts", True, f"{len(results)} with results")
    evals = [one for one in artifacts if one.name.startswith("eval_results")]
    if evals:
        yield Diagnosis("evaluations", True, f"`{evals[0].name}`")
    else:
        yield Diagnosis("evaluations", False, f"run {run.id} has no evaluation results", "sweep again with `all-evals`")


def _sign_off(pull: PullRequest, comments: Sequence[Comment], policy: GatePolicy, bot: str) -> Iterator[Diagnosis]:
    if signoff.status(comments, pull.head_sha, bot) == "success":
        yield Diagnosis("sign-off", True, f"passed for {pull.head_sha[:12]}")
        return
    mine = signoff.of_head(comments, pull.head_sha, bot)
    gaps = _GAP.findall(mine.body) if mine else []
    if gaps:
        said = "; ".join(f"{number}. {question} ({state})" for number, question, state in gaps)
        yield Diagnosis("sign-off", False, f"open for {pull.head_sha[:12]}: {said}", "settle these, and sign again")
        return
    said = f"none that passes for {pull.head_sha[:12]}; a new commit needs a new one"
    yield Diagnosis("sign-off", False, said, f"a code owner comments the template, `{policy.sign_off.phrase}`")


def _checks(pull: PullRequest, github: GitHub) -> Iterator[Diagnosis]:
    checks = github.checks(pull.head_sha)
    bad = [one.name for one in checks if one.conclusion not in (None, "success", "skipped", "neutral")]
    waiting = [one.name for one in checks if one.status != "completed"]
    if bad:
        yield Diagnosis("checks", False, f"{len(bad)} failed: {', '.join(sorted(bad)[:5])}", "mend or repeat them")
    elif waiting:
        yield Diagnosis("checks", False, f"{len(waiting)} are running: {', '.join(sorted(waiting)[:5])}", "wait")
    else:
        yield Diagnosis("checks", True, f"{len(checks)} passed")


def _changelog(repository: Repository | None, pull: PullRequest, policy: GatePolicy) -> Diagnosis:
    """Whether merging would need work on the changelog, computed from commits alone."""
    prepare = f"ridgeline changelog prepare-merge --pr {pull.number} --main origin/{pull.base_ref} --commit"
    if repository is None:
        return Diagnosis("changelog", None, "no checkout was given", "give one with --repo")
    file, links = policy.paths.changelog, Links.of(pull.number, policy.repository)
    try:
        main, head = repository.commit(pull.base_sha), repository.commit(pull.head_sha)
        fork = repository.fork_point(head, main)
        base, ours, theirs = (repository.read(one, file) for one in (fork, head, main))
    except RidgelineError as error:
        return Diagnosis("changelog", None, error.message, "fetch the whole history and the head")
    try:
        ready = canonicalize(theirs, ours, links, file) if base == theirs else resolve(base, ours, theirs, links, file)
        strict(theirs, ready, links, file)
    except AnswerIsNo as refused:
        return Diagnosis(
            "changelog", False, refused.message.splitlines()[0], "mend the entry; `ridgeline changelog validate`"
        )
    if base != theirs:
        return Diagnosis("changelog", False, "main has newer entries; the conflict resolves by itself", prepare)
    if ready != ours:
        return Diagnosis("changelog", False, "links are placeholders still", prepare)
    return Diagnosis("changelog", True, "ready as it is")


def _time(text: str) -> datetime.datetime | None:
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
