"""`ridgeline pr`: judge a pull request, answer commands in its comments, say what keeps it from being merged.

Everything works from files: an event payload, a checkout, and recorded answers of GitHub (`--facts`). With a token in
GITHUB_TOKEN, `--online` asks GitHub itself, and `--post` writes the one comment that the gate keeps.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.cli.stores import DATA_HELP, STORE_HELP
from ridgeline.cli.typed import run_app
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.where import Where

if TYPE_CHECKING:
    from ridgeline.publish.changelog.repository import Repository
    from ridgeline.publish.forge.event import Event
    from ridgeline.publish.forge.github import GitHub, JobRun
    from ridgeline.publish.gate.judge import Preflight, Surroundings
    from ridgeline.publish.gate.policy import GatePolicy
    from ridgeline.publish.gate.verdict import Gate
    from ridgeline.spec.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=__doc__)

EventFile = Annotated[Path, typer.Option(metavar="EVENT.json", help="Event payload, as GitHub writes it.")]
Repo = Annotated[Path, typer.Option(help="A directory inside the checkout; base and head must be in it.")]
PolicyFile = Annotated[Path | None, typer.Option("--policy", help="Gate policy. Default: InferenceX's.")]
FactsDir = Annotated[Path | None, typer.Option("--facts", metavar="FOLDER", help="Recorded answers of GitHub's API.")]
Api = Annotated[str, typer.Option(envvar="GITHUB_API_URL", help="Root of GitHub's API.")]
Online = Annotated[bool, typer.Option("--online", help="Ask GitHub (token in GITHUB_TOKEN) for what the event lacks.")]
Post = Annotated[bool, typer.Option("--post", help="Write to GitHub: the comment, the status, what a command starts.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="ridgeline.yaml: fleets, models, waivers. Default: the base's own.")
]
Paths = Annotated[list[Path] | None, typer.Option(help="Earlier starts, JSON lines, repeatable.")]
SETTINGS = "ridgeline.yaml"
GITHUB_API = "https://api.github.com"


def run(argv: list[str]) -> int:
    return run_app(app, "pr", argv)


@app.command("gate")
def gate(
    event: Annotated[
        Path | None, typer.Option(metavar="EVENT.json", help="Event payload, as GitHub writes it.")
    ] = None,
    comment_at: Annotated[
        str | None, typer.Option("--comment", metavar="URL", help="In place of an event: the comment that signs off.")
    ] = None,
    repo: Repo = Path(),
    policy: PolicyFile = None,
    settings: SettingsFile = None,
    observations: Paths = None,
    dumps: Annotated[list[Path] | None, typer.Option(help="Build dumps, repeatable.")] = None,
    tables: Annotated[list[Path] | None, typer.Option(help="Kernel tuning tables, repeatable.")] = None,
    golden: Annotated[list[Path] | None, typer.Option(help="Golden acceptance lengths, repeatable.")] = None,
    facts: FactsDir = None,
    online: Online = False,
    api: Api = GITHUB_API,
    evals: Annotated[Path | None, typer.Option(help="Evaluations as JSON rows: task, score, image.")] = None,
    candidate: Annotated[
        str | None, typer.Option(metavar="RUN", help="Results of the change: compared with the published line.")
    ] = None,
    store: Annotated[str | None, typer.Option("--store", metavar="STORE", help=STORE_HELP)] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help=DATA_HELP)] = None,
    dashboard: Annotated[str | None, typer.Option(metavar="URL", help="A running dashboard, for the overlay.")] = None,
    picture: Annotated[str | None, typer.Option(metavar="URL", help="Where OUT/frontier.svg will be served.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run/--no-dry-run", help="Launch scripts run in the sandbox: cells are checked as they start."
        ),
    ] = True,
    no_preflight: Annotated[bool, typer.Option("--no-preflight", help="Leave cells and scripts unchecked.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write verdict, comment and annotations.")] = None,
    github: Annotated[bool, typer.Option("--github", help="Print annotations as workflow commands on stderr.")] = False,
    post: Post = False,
    as_json: Json = False,
) -> int:
    """Judge the pull request of an event: what runs, what is wrong, the sign-off. Exit 1 when the gate stays shut.

    The Markdown comment goes to stdout, or the JSON verdict with --json.
    """
    from ridgeline.cli import gate_performance, gate_preflight
    from ridgeline.publish.changelog.repository import Repository
    from ridgeline.publish.gate import comment
    from ridgeline.publish.gate.judge import judge_pull, judge_push
    from ridgeline.publish.gate.verdict import as_json as plain_data

    rules, place = _policy(policy), Repository.at(repo)
    paths = map(tuple, (observations or (), dumps or (), tables or (), golden or ()))
    if (event is None) == (comment_at is None):
        raise InputError([Problem("give an event's payload, or --comment with an address", key="--event")])
    told = _event(event) if event is not None else None
    name = told.repository if told else rules.repository
    with _forge(name, facts, api, wanted=online or post or told is None) as hub:
        happened = _with_pull(told or _event_of_comment(str(comment_at), hub), hub)
        known = gate_preflight.Given(_settings(settings, happened, place), *paths)
        preflight = None if no_preflight else gate_preflight.make(known, _today(), dry_run=dry_run)
        around = _surroundings(happened, hub, rules, evals, preflight)
        if candidate is not None:
            compared = gate_performance.make(candidate, store, data, dashboard, out, picture)
            around = replace(around, performance=compared)
        judge = judge_push if happened.kind == "push" else judge_pull
        verdict = judge(happened, place, rules, around)
        verdict = _with_fork(verdict, happened, hub, rules)
        text = comment.gate_comment(verdict)
        if out is not None:
            _write(out, verdict, text)
        if post and hub is not None:
            _post(hub, verdict, text, rules)
    if github:
        sys.stderr.write(_workflow_commands(plain_data(verdict)["annotations"]))
    sys.stdout.write(json.dumps(plain_data(verdict), indent=1) + "\n" if as_json else text)
    return 0 if verdict.open else 1


@app.command("command")
def command(
    event: EventFile,
    policy: PolicyFile = None,
    facts: FactsDir = None,
    api: Api = GITHUB_API,
    workflow: Annotated[str | None, typer.Option(help="With --post: the workflow that stages a run.")] = None,
    ref: Annotated[str, typer.Option(help="With --workflow: the branch it is started on.")] = "main",
    post: Post = False,
    as_json: Json = False,
) -> int:
    """Answer a command in a comment: reuse or stage results. Exit 1 when it is refused, with every reason.

    A comment that holds no command is no error and gets no answer.
    """
    from ridgeline.publish.gate.commands import handle, reply_text

    rules, happened = _policy(policy), _event(event)
    with _forge(happened.repository, facts, api, wanted=facts is None) as hub:
        assert hub is not None
        reply = handle(happened, hub, rules, _today())
        if post and reply.command is not None and happened.number is not None:
            hub.post_comment(happened.number, reply_text(reply, rules))
            if reply.dispatch is not None and workflow is not None:
                hub.dispatch(workflow, ref, {name: str(value) for name, value in reply.dispatch.items()})
    if as_json:
        sys.stdout.write(json.dumps(reply.as_json(), indent=1) + "\n")
    elif reply.command is None:
        sys.stderr.write(f"nothing to do: {reply.why[0]}\n")
    else:
        sys.stdout.write(reply_text(reply, rules))
    return 0 if reply.accepted or reply.command is None else 1


@app.command("callback")
def callback(
    event: EventFile,
    policy: PolicyFile = None,
    facts: FactsDir = None,
    api: Api = GITHUB_API,
    post: Post = False,
) -> int:
    """Check what staging reports back (a `repository_dispatch` event) and say it; with --post, on the pull request."""
    from ridgeline.publish.forge.event import read_json
    from ridgeline.publish.staging.callback import marker, read_callback, text

    repository = _policy(policy).repository
    try:
        payload = read_json(event.read_bytes(), str(event))
    except OSError as error:
        raise InputError([Problem(f"cannot be read: {error.strerror or error}", Where(str(event)))]) from error
    reported = payload.get("client_payload") if isinstance(payload, dict) else None
    found = read_callback(reported, repository, str(event))
    if post:
        with _forge(repository, facts, api, wanted=facts is None) as hub:
            assert hub is not None
            hub.keep_comment(found.pull, marker(found), f"{marker(found)}\n{text(found)}")
    sys.stdout.write(text(found))
    return 0


@app.command("doctor")
def doctor(
    number: Annotated[int, typer.Argument(min=1, metavar="NUMBER", help="The pull request.")],
    repository: Annotated[str | None, typer.Option(help="ORGANISATION/NAME. Default: the policy's.")] = None,
    repo: Annotated[Path | None, typer.Option(help="A checkout, to look at the changelog.")] = None,
    policy: PolicyFile = None,
    facts: FactsDir = None,
    api: Api = GITHUB_API,
    bot: Annotated[str, typer.Option(help="Account that writes sign-off comments.")] = "github-actions[bot]",
    as_json: Json = False,
) -> int:
    """Say why a pull request cannot be merged with reuse now, and the next command. Reads only. Exit 1 until it can."""
    from ridgeline.publish.changelog.repository import Repository
    from ridgeline.publish.gate import doctor as doctor_

    rules = _policy(policy)
    name = _repository_name(repository or rules.repository)
    with _forge(name, facts, api, wanted=facts is None) as hub:
        assert hub is not None
        place = None if repo is None else Repository.at(repo)
        found = doctor_.examine(number, hub, rules, datetime.datetime.now(tz=datetime.UTC), place, bot=bot)
    well, following = doctor_.verdict(found)
    if as_json:
        answer = {"ok": well, "next": following, "looked_at": [one._asdict() for one in found]}
        sys.stdout.write(json.dumps(answer, indent=1) + "\n")
        return 0 if well else 1
    marks = {True: "ok", False: "no", None: "?"}
    width = max(len(one.about) for one in found)
    for one in found:
        sys.stdout.write(f"{marks[one.well]:<3} {one.about:<{width}}  {one.said}\n")
    sys.stdout.write("ready to merge with reuse\n" if well else f"next: {following}\n")
    return 0 if well else 1


@app.command("reuse")
def reuse(
    event: EventFile,
    policy: PolicyFile = None,
    facts: FactsDir = None,
    api: Api = GITHUB_API,
    outputs: Annotated[Path | None, typer.Option(metavar="FILE", help="Also append NAME=VALUE lines here.")] = None,
) -> int:
    """Say whether a push uses an earlier run, or a new commit leaves its sweep out. One JSON object on stdout.

    Exit 1 when reuse was authorised and is not possible: it never falls back to a sweep.
    """
    from ridgeline.publish.reuse import merge

    rules, happened = _policy(policy), _event(event)
    with _forge(happened.repository, facts, api, wanted=facts is None) as hub:
        assert hub is not None
        if happened.kind == "push":
            found = merge.on_push(happened.after or "", hub, rules)
        elif happened.pull is not None:
            found = merge.on_pull_request(happened.pull, happened.action, hub, rules)
        else:
            raise InputError([Problem("neither a push nor a pull request's event", Where(str(event)))])
    data = found.as_json()
    if outputs is not None:
        with outputs.open("a", encoding="utf-8") as file:
            for name, value in data.items():
                text = "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
                file.write(f"{name}={' '.join(text.split())}\n")
    sys.stdout.write(json.dumps(data, indent=1) + "\n")
    return 0


@app.command("artifacts")
def artifacts(
    folder: Annotated[Path, typer.Argument(help="One folder per artifact of a run.")],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove what a repeated evaluation made obsolete, and rewrite what tells of it."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Check a run's downloaded artifacts before they are reused. Exit 1 names every duplicate, gap and difference."""
    from ridgeline.publish.reuse import artifacts as artifacts_

    report = artifacts_.validate(folder)
    if prune:
        artifacts_.prune(report)
    if as_json:
        answer = {
            "ok": not report.problems,
            "problems": [str(problem) for problem in report.problems],
            "removed": [str(path) for path in report.removed],
            "rewritten": [str(path) for path in report.rewritten],
            "counts": dict(report.counts),
        }
        sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    else:
        for problem in report.problems:
            sys.stdout.write(f"{problem}\n")
        sys.stdout.write(", ".join(f"{count} {what}" for what, count in report.counts.items()) + "\n")
    return 1 if report.problems else 0


@app.command("rules")
def rules(rule: Annotated[str | None, typer.Argument(metavar="ID", help="One rule, e.g. P04.")] = None) -> int:
    """List the gate's rules, or explain one."""
    from ridgeline.publish.gate.pages import page
    from ridgeline.publish.gate.rule import RULES

    if rule is None:
        for one in RULES.values():
            sys.stdout.write(f"{one.id}  {one.severity.value:<8}  {one.title}\n")
        return 0
    known = RULES.get(rule.upper())
    if known is None:
        raise InputError([Problem(f"no rule is called `{rule}`", hint=f"known: {', '.join(RULES)}")])
    sys.stdout.write(page(known))
    return 0


def _policy(path: Path | None) -> GatePolicy:
    from ridgeline.publish.gate.policy import inferencex_policy, load_gate_policy

    return inferencex_policy() if path is None else load_gate_policy(path)


def _settings(path: Path | None, event: Event, place: Repository) -> Settings:
    """The settings given, else `ridgeline.yaml` at the base: a change must not waive its own findings."""
    from ridgeline.publish.gate.change import files_at
    from ridgeline.spec import settings
    from ridgeline.spec.tree import parse

    if path is not None or event.pull is None:
        return settings.load_settings(path)
    try:
        data = files_at(place, place.commit(event.pull.base_sha), [SETTINGS]).get(SETTINGS)
    except InputError:
        data = None  # the base is not here, which the judgement says better
    return settings.load_settings() if data is None else settings.from_document(parse(data, SETTINGS))


def _event(path: Path) -> Event:
    from ridgeline.publish.forge.event import MAX_BYTES, read_event

    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError([Problem(f"cannot be read: {error.strerror or error}", Where(str(path)))]) from error
    return read_event(data, str(path))


def _repository_name(name: str) -> str:
    from ridgeline.publish.forge.event import Reader

    read = Reader({"repository": name}, "--repository")
    found = read.repository("repository")
    read.finish()
    return found


@contextmanager
def _forge(repository: str, facts: Path | None, api: str, *, wanted: bool) -> Iterator[GitHub | None]:
    """GitHub, from recorded answers or over HTTP; None when neither is wanted."""
    from ridgeline.publish.forge.github import GitHub

    if facts is not None:
        from ridgeline.publish.forge.transport import Recorded

        yield GitHub(Recorded(facts), repository)
        return
    if not wanted:
        yield None
        return
    from ridgeline.publish.forge.http import GitHubApi, Token

    transport = GitHubApi(Token.from_environment(), api)
    try:
        yield GitHub(transport, repository)
    finally:
        transport.close()


def _event_of_comment(address: str, hub: GitHub | None) -> Event:
    """The event that a comment's address stands for: a sign-off that is judged by hand."""
    from ridgeline.publish.forge.event import Event

    assert hub is not None
    found = hub.comment_at(address)
    if found is None:
        raise InputError([Problem("there is no such comment", key="--comment")])
    number, comment = found
    return Event("issue_comment", "created", hub.repository, comment.author, number=number, comment=comment)


def _with_pull(event: Event, hub: GitHub | None) -> Event:
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


def _surroundings(
    event: Event, hub: GitHub | None, policy: GatePolicy, evals: Path | None, preflight: Preflight | None
) -> Surroundings:
    from ridgeline.cli import gate_preflight
    from ridgeline.publish.gate.judge import Surroundings
    from ridgeline.publish.reuse.words import authorisation
    from ridgeline.spec.policy import default_policy

    missing = {}
    comments = commits = jobs = None
    signatures = [event.comment] if event.comment is not None else []
    if hub is not None and event.pull is not None:
        comments, commits = hub.comments(event.pull.number), hub.commits(event.pull.number)
        signatures += [*comments, *hub.reviews(event.pull.number)]
        jobs = _jobs(hub, event, commits, policy)
    elif event.kind != "push":
        missing["GitHub"] = "comments and runs were not asked for (--facts or --online)"
    if preflight is None:
        missing["preflight"] = "left out by --no-preflight"
    around = Surroundings(
        today=_today(),
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


def _today() -> datetime.date:
    return datetime.datetime.now(tz=datetime.UTC).date()


def _eval_rows(path: Path) -> list[dict[str, Any]]:
    from ridgeline.publish.forge.event import read_json

    try:
        data = read_json(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError([Problem(f"cannot be read: {error.strerror or error}", Where(str(path)))]) from error
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise InputError([Problem("must be a list of objects", Where(str(path)))])
    return data


def _with_fork(verdict: Gate, event: Event, hub: GitHub | None, policy: GatePolicy) -> Gate:
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


def _write(folder: Path, verdict: Gate, text: str) -> None:
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
    if verdict.sign_off is not None:
        files["sign-off.md"] = sign_off_comment(verdict.sign_off)
    for name, content in files.items():
        write_atomically(folder / name, content.encode())
    sys.stderr.write(f"written: {', '.join(files)} in {folder}\n")


def _post(hub: GitHub, verdict: Gate, text: str, policy: GatePolicy) -> None:
    """The gate's one comment, and, once somebody signed, the sign-off's comment and status for this head."""
    from ridgeline.publish.gate import comment, signoff

    if verdict.number is None:
        return
    now = hub.pull(verdict.number)
    if now is None or now.head_sha != verdict.head:
        raise EnvironmentFailed("the head moved while it was judged; nothing was posted", hint="judge the newer commit")
    hub.keep_comment(verdict.number, comment.MARKER, text)
    if verdict.sign_off is not None and verdict.sign_off.signer is not None:
        hub.keep_comment(verdict.number, signoff.marker(verdict.head), comment.sign_off_comment(verdict.sign_off))
        state = "success" if verdict.sign_off.verdict == "PASS" else "failure"
        hub.set_status(verdict.head, policy.sign_off.status, state, f"sign-off: {verdict.sign_off.verdict}")


def _workflow_commands(annotations: list[dict[str, Any]]) -> str:
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
