"""`ridgeline pr`: judge a pull request, answer commands in its comments, say what keeps it from being merged.

Everything works from files: an event payload, a checkout, and recorded answers of GitHub (`--facts`). With a token in
GITHUB_TOKEN, `--online` asks GitHub itself, and `--post` writes the one comment that the gate keeps.
"""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ridgeline.cli import pr_inputs as inputs
from ridgeline.cli.stores import DATA_HELP, STORE_HELP
from ridgeline.cli.typed import run_app
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

if TYPE_CHECKING:
    from ridgeline.publish.forge.github import GitHub

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=__doc__)

EventFile = Annotated[Path, typer.Option(metavar="EVENT.json", help="Event payload, as GitHub writes it.")]
Repo = Annotated[Path, typer.Option(help="A directory inside the checkout; base and head must be in it.")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="Gate policy. Default: ridgeline-gate.yaml, else InferenceX's.")
]
FactsDir = Annotated[Path | None, typer.Option("--facts", metavar="FOLDER", help="Recorded answers of GitHub's API.")]
Api = Annotated[str, typer.Option(envvar="GITHUB_API_URL", help="Root of GitHub's API.")]
Online = Annotated[bool, typer.Option("--online", help="Ask GitHub (token in GITHUB_TOKEN) for what the event lacks.")]
Post = Annotated[bool, typer.Option("--post", help="Write to GitHub: the comment, the status, what a command starts.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="ridgeline.yaml: fleets, models, waivers. Default: the base's own.")
]
Paths = Annotated[list[Path] | None, typer.Option(help="Earlier starts, JSON lines, repeatable.")]
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
    pictures: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="With --post: keep the picture there, and show it.")
    ] = None,
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
    from ridgeline.cli import pr_outputs as outputs_
    from ridgeline.publish.changelog.repository import Repository
    from ridgeline.publish.gate import comment
    from ridgeline.publish.gate.judge import judge_pull, judge_push
    from ridgeline.publish.gate.verdict import as_json as plain_data

    place = Repository.at(repo)
    paths = map(tuple, (observations or (), dumps or (), tables or (), golden or ()))
    if (event is None) == (comment_at is None):
        raise InputError([Problem("give an event's payload, or --comment with an address", key="--event")])
    if pictures is not None and (out is None or picture is not None or not post):
        raise InputError([Problem("goes with --out and --post, and in place of --picture", key="--pictures")])
    told = inputs.event_from(event) if event is not None else None
    name = told.repository if told else inputs.repository_of(str(comment_at))
    asks = facts is not None or online or post or told is None
    with (
        inputs.forge(name, facts, api) if asks else nullcontext() as hub,
        tempfile.TemporaryDirectory(prefix="ridgeline-base-") as base,
    ):
        happened = inputs.with_pull(told or inputs.event_of_comment(str(comment_at), cast("GitHub", hub)), hub)
        rules = inputs.policy_at_base(policy, happened, place)
        known = gate_preflight.Given(inputs.settings_of(settings, happened, place, Path(base)), *paths)
        preflight = None if no_preflight else gate_preflight.make(known, inputs.today(), dry_run=dry_run)
        around = inputs.surroundings(happened, hub, rules, evals, preflight)
        if candidate is not None:
            asked = gate_performance.Asked(candidate, store, data, dashboard, out, picture)
            around = replace(around, performance=gate_performance.make(asked))
        judge = judge_push if happened.kind == "push" else judge_pull
        verdict = outputs_.with_fork(judge(happened, place, rules, around), happened, hub, rules)
        shown = outputs_.picture_of(verdict, pictures) if pictures else None
        if shown is not None and verdict.performance is not None:
            verdict = replace(verdict, performance=replace(verdict.performance, picture=shown.address))
        text = comment.gate_comment(verdict, outputs_.server())
        if out is not None:
            outputs_.write(out, verdict, text)
        if post and hub is not None:
            outputs_.post(hub, verdict, text, rules, shown)
    if github:
        sys.stderr.write(outputs_.workflow_commands(plain_data(verdict)["annotations"]))
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
    from ridgeline.publish.staging.callback import marker

    rules, happened = inputs.policy_of(policy), inputs.event_from(event)
    with inputs.forge(happened.repository, facts, api) as hub:
        reply = handle(happened, hub, rules, inputs.today())
        if post and reply.command is not None and happened.number is not None:
            # what staging reports back later rewrites this acknowledgement
            mark = f"{marker(reply.run, reply.attempt)}\n" if reply.dispatch and reply.run and reply.attempt else ""
            hub.post_comment(happened.number, mark + reply_text(reply, rules))
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

    repository = inputs.policy_of(policy).repository
    try:
        payload = read_json(event.read_bytes(), str(event))
    except OSError as error:
        raise InputError([Problem(f"cannot be read: {error.strerror or error}", Where(str(event)))]) from error
    reported = payload.get("client_payload") if isinstance(payload, dict) else None
    found = read_callback(reported, repository, str(event))
    if post:
        mark = marker(found.run, found.attempt)
        with inputs.forge(repository, facts, api) as hub:
            hub.keep_comment(found.pull, mark, f"{mark}\n{text(found)}")
    sys.stdout.write(text(found))
    return 0


@app.command("doctor")
def doctor(
    number: Annotated[int, typer.Argument(min=1, metavar="NUMBER", help="The pull request.")],
    repository: Annotated[
        str | None, typer.Option(help="ORGANISATION/NAME. Default: the policy's, else that of `origin`.")
    ] = None,
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

    rules = inputs.policy_of(policy)
    name = inputs.repository_name(repository or rules.repository)
    with inputs.forge(name, facts, api) as hub:
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
        if one.well is not True and one.next:
            sys.stdout.write(f"{'':<{width + 4}}  -> {one.next}\n")
    sys.stdout.write("ready to merge with reuse\n" if well else f"next: {following or 'nothing'}\n")
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

    rules, happened = inputs.policy_of(policy), inputs.event_from(event)
    with inputs.forge(happened.repository, facts, api) as hub:
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


@app.command("policy")
def policy_() -> int:
    """Print the policy that is used without a file, InferenceX's: `ridgeline pr policy > ridgeline-gate.yaml`."""
    from ridgeline.publish.gate.policy import example

    sys.stdout.write(example().decode())
    return 0


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
