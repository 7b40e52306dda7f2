"""What the verbs of `ridgeline pr` read: the policy, settings, the event, GitHub, and everything around a change.

Policy and settings of a change are read at its base, so that it cannot choose what it is judged by.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.where import Where

if TYPE_CHECKING:
    from ridgeline.publish.changelog.repository import Repository
    from ridgeline.publish.forge.event import Comment, Event
    from ridgeline.publish.forge.github import GitHub, JobRun
    from ridgeline.publish.gate.judge import Preflight, Surroundings
    from ridgeline.publish.gate.policy import GatePolicy
    from ridgeline.spec.settings import Settings

_ORIGIN = re.compile(r"(?:[\w+]+://[^/]+/|[^/:]+:)([\w.-]+/[\w.-]+?)(?:\.git)?/?")
SETTINGS, POLICY = "ridgeline.yaml", "ridgeline-gate.yaml"


def policy_of(path: Path | None) -> GatePolicy:
    """The policy given, else the working directory's, else InferenceX's for the repository we are in: a workflow says
    which, or the remote `origin` does."""
    from ridgeline.publish.changelog.repository import Repository
    from ridgeline.publish.gate.policy import inferencex_policy, load_gate_policy

    found = path or (Path(POLICY) if Path(POLICY).is_file() else None)
    if found is not None:
        return load_gate_policy(found)
    here = os.environ.get("GITHUB_REPOSITORY")
    if here:
        return replace(inferencex_policy(), repository=repository_name(here, "GITHUB_REPOSITORY"))
    try:
        here = origin(Repository.at(Path()))
    except InputError:
        here = None  # not inside of a repository
    return replace(inferencex_policy(), repository=here) if here else inferencex_policy()


def origin(place: Repository) -> str | None:
    """ORGANISATION/NAME of the remote `origin`, None where there is none."""
    told = place.git("config", "--get", "remote.origin.url", accept=(0, 1)).stdout.decode("utf-8", "replace").strip()
    match = _ORIGIN.fullmatch(told)
    return match[1] if match else None


def policy_at_base(path: Path | None, event: Event, place: Repository) -> GatePolicy:
    """The policy given, else that of the change's base, else InferenceX's for the event's repository."""
    from ridgeline.publish.gate.policy import from_document, inferencex_policy, load_gate_policy
    from ridgeline.spec.tree import parse

    if path is not None:
        return load_gate_policy(path)
    data = _at_base([POLICY], event, place).get(POLICY)
    if data is not None:
        return from_document(parse(data, POLICY))
    return replace(inferencex_policy(), repository=event.repository)


def settings_of(path: Path | None, event: Event, place: Repository, folder: Path) -> Settings:
    """The settings given, else those of the change's base, else the built-in ones. The files that the base's settings
    name (recipes, scripts, models) are taken from the base as well and written below `folder`, an empty one: a recipe
    is code, and none of the change's may run in this process. Raises InputError."""
    from ridgeline.spec import settings
    from ridgeline.spec.tree import parse

    data = None if path is not None else _at_base([SETTINGS], event, place).get(SETTINGS)
    if data is None:
        return settings.load_settings(path)
    found = settings.from_document(parse(data, SETTINGS))
    files = [str(path) for path in found.models.values()]
    files += [one.recipe.rpartition(":")[0] for one in found.recipes if one.kind == "recipe"]
    files += [one.recipe for one in found.recipes if one.kind == "shell"]
    files = [name for name in files if not Path(name).is_absolute()]
    for name, content in _at_base(files, event, place).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    models = {name: folder / model for name, model in found.models.items()}
    return replace(found, file=str(folder / SETTINGS), models=models)


def _at_base(names: Sequence[str], event: Event, place: Repository) -> dict[str, bytes]:
    """Those files that exist before the change; after a push to the main branch, as they were pushed. Raises InputError
    for a name that leads out of the repository."""
    from ridgeline.publish.gate.change import files_at

    told = event.pull.base_sha if event.pull is not None else event.after
    if told is None or not names:
        return {}
    try:
        commit = place.commit(told)
    except InputError:
        return {}  # the commit is not here, which the judgement says better
    return files_at(place, commit, names)


def today() -> datetime.date:
    return datetime.datetime.now(tz=datetime.UTC).date()


def event_from(path: Path) -> Event:
    """The event of a payload's file. Raises InputError."""
    from ridgeline.publish.forge.event import MAX_BYTES, read_event

    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError([Problem(f"cannot be read: {error.strerror or error}", Where(str(path)))]) from error
    return read_event(data, str(path))


def repository_name(name: str, option: str = "--repository") -> str:
    """ORGANISATION/NAME, checked."""
    from ridgeline.publish.forge.event import Reader

    read = Reader({"repository": name}, option)
    found = read.repository("repository")
    read.finish()
    return found


@contextmanager
def forge(repository: str, facts: Path | None, api: str) -> Iterator[GitHub]:
    """GitHub, from recorded answers or over HTTP."""
    from ridgeline.publish.forge.github import GitHub

    if facts is not None:
        from ridgeline.publish.forge.transport import Recorded

        yield GitHub(Recorded(facts), repository)
        return
    from ridgeline.publish.forge.http import GitHubApi, Token

    transport = GitHubApi(Token.from_environment(), api)
    try:
        yield GitHub(transport, repository)
    finally:
        transport.close()


def event_of_comment(address: str, hub: GitHub) -> Event:
    """The event that a comment's address stands for: a sign-off that is judged by hand."""
    from ridgeline.publish.forge.event import Event

    found = hub.comment_at(address)
    if found is None:
        raise InputError([Problem("there is no such comment", key="--comment")])
    number, comment = found
    return Event("issue_comment", "created", hub.repository, comment.author, number=number, comment=comment)


def repository_of(address: str) -> str:
    """The repository of a comment's address."""
    from urllib.parse import urlsplit

    return repository_name("/".join(urlsplit(address).path.split("/")[1:3]), "--comment")


def with_pull(event: Event, hub: GitHub | None) -> Event:
    """An event of a comment lacks the pull request; GitHub has it. For others the head must not have moved."""
    if event.kind == "push" or event.number is None:
        return event
    if event.pull is None:
        if hub is None:
            hint = "give recorded answers with --facts, or --online"
            raise InputError([Problem("an event of a comment does not hold the pull request", hint=hint)])
        pull = hub.pull(event.number)
        if pull is None:
            raise InputError([Problem(f"{event.repository} has no pull request {event.number}")])
        return replace(event, pull=pull, labels=pull.labels)
    now = hub.pull(event.number) if hub is not None else None
    if now is not None and now.head_sha != event.pull.head_sha:
        moved = f"{event.pull.head_sha[:12]} to {now.head_sha[:12]}"
        raise EnvironmentFailed(
            f"the head moved since this event ({moved})", hint="the event of the newer commit is judged instead"
        )
    return event


def surroundings(
    event: Event, hub: GitHub | None, policy: GatePolicy, evals: Path | None, preflight: Preflight | None
) -> Surroundings:
    from ridgeline.cli import gate_preflight
    from ridgeline.publish.gate.judge import Surroundings
    from ridgeline.publish.reuse.words import authorisation
    from ridgeline.spec.policy import default_policy

    missing = {}
    comments = commits = jobs = None
    signatures: list[Comment] = []
    if hub is not None and event.pull is not None:
        comments, commits = hub.comments(event.pull.number), hub.commits(event.pull.number)
        signatures = [*comments, *hub.reviews(event.pull.number)]
        jobs = _jobs(hub, event, commits, policy)
    elif event.kind != "push":
        missing["GitHub"] = "comments and runs were not asked for (--facts or --online)"
    if preflight is None:
        missing["preflight"] = "left out by --no-preflight"
    around = Surroundings(
        today=today(),
        priority=default_policy(),
        preflight=preflight,
        comments=comments,
        signatures=signatures,
        commits=commits,
        jobs=jobs,
        evals=None if evals is None else _eval_rows(evals),
        reuse_authorised=authorisation(comments, policy) is not None if comments is not None else False,
        golden=gate_preflight.golden_lengths,
        missing=missing,
    )
    return around if hub is None else replace(around, document=hub.document, member=hub.member)


def _jobs(hub: GitHub, event: Event, commits: Sequence[str], policy: GatePolicy) -> dict[str, list[JobRun]]:
    """Jobs of the sweeps of commits that are still in the pull request."""
    assert event.pull is not None
    found: dict[str, list[JobRun]] = {}
    for run in hub.runs(event.pull.head_ref, policy.runs.workflow)[:20]:
        if run.head_sha in commits:
            found.setdefault(run.head_sha, []).extend(hub.jobs(run.id))
    return found


def _eval_rows(path: Path) -> list[dict[str, Any]]:
    from ridgeline.publish.forge.event import read_json

    try:
        data = read_json(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError([Problem(f"cannot be read: {error.strerror or error}", Where(str(path)))]) from error
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise InputError([Problem("must be a list of objects", Where(str(path)))])
    return data
