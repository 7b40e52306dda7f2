"""`ridgeline changelog`: judge, write and merge the benchmark changelog, and say which cells an addition selects."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from ridgeline.cli.typed import run_app
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.publish.changelog.contract import FILE, Change
from ridgeline.publish.changelog.expansion import MasterConfigs
from ridgeline.publish.changelog.gate import added_entries
from ridgeline.publish.changelog.links import DEFAULT_REPOSITORY, Links
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.repository import Repository, diff, write_atomically
from ridgeline.publish.changelog.sides import Main
from ridgeline.publish.changelog.table import count

CONFIGS = ("configs/amd-master.yaml", "configs/nvidia-master.yaml")
RUNNERS = "configs/runners.yaml"

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=__doc__)

Format = Literal["table", "inferencex"]
Base = Annotated[str, typer.Option(help="Revision before the change, e.g. origin/main.", metavar="REF")]
Head = Annotated[str | None, typer.Option(help="Revision after it; left out: the work tree.", metavar="REF")]
Pull = Annotated[int | None, typer.Option(min=1, help="Number of the pull request; left out: judged as on main.")]
Numbered = Annotated[int, typer.Option(min=1, help="Number of the pull request.")]
File = Annotated[
    str | None, typer.Option(help=f"The changelog, below the top. Default: ridgeline-gate.yaml's, else {FILE}.")
]
Repo = Annotated[Path, typer.Option(help="A directory inside the git work tree.")]
Configs = Annotated[
    list[str] | None, typer.Option(help=f"Master config, repeatable. Default: {' and '.join(CONFIGS)}.")
]
RunnerConfig = Annotated[str | None, typer.Option(help=f"Runners file. Default: {RUNNERS}.")]
Links_ = Annotated[
    str | None,
    typer.Option(
        "--repository",
        envvar="GITHUB_REPOSITORY",
        help="ORGANISATION/NAME that links point to. Default: ridgeline-gate.yaml's, else that of `origin`.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, also when the answer is no.")]


def run(argv: list[str]) -> int:
    return run_app(app, "changelog", argv)


class Here(NamedTuple):
    """Where things lie in a repository: what was given, else what its gate policy says, else InferenceX's places."""

    repository: str
    file: str
    configs: tuple[str, ...]
    runners: str


def _here(place: Repository | None, repository: str | None, file: str | None) -> Here:
    from ridgeline.cli.pr_inputs import POLICY, origin
    from ridgeline.publish.gate.policy import load_gate_policy

    own = None if place is None else place.root / POLICY
    if own is not None and own.is_file():
        policy = load_gate_policy(own)
        paths = policy.paths
        return Here(repository or policy.repository, file or paths.changelog, paths.configs, paths.runners)
    return Here(repository or (origin(place) if place else None) or DEFAULT_REPOSITORY, file or FILE, CONFIGS, RUNNERS)


@app.command("validate")
def validate(
    base: Base,
    head: Head = None,
    pr: Pull = None,
    file: File = None,
    repo: Repo = Path(),
    config_files: Configs = None,
    runner_config: RunnerConfig = None,
    repository: Links_ = None,
    corrections: Annotated[
        bool, typer.Option("--corrections", help="Accept a change that only corrects links.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Say whether a change may be merged: history untouched, links, separators and config keys right.

    Exit code 1 names every problem with file and line. What the pull-request check and the merge ask is asked at once.
    """
    from ridgeline.publish.changelog import validation

    place = Repository.at(repo)
    here = _here(place, repository, file)
    file = here.file
    old, new = place.commit(base), None if head is None else place.commit(head)
    before, after, links = place.read(old, file), place.read(new, file), Links.of(pr, here.repository)

    def judge() -> dict[str, Any]:
        found = validation.validate_corrections(before, after, links, file) if corrections else None
        if found is None:
            master = _master(place, new, config_files, runner_config, here)
            base_master = lambda: _master(place, old, config_files, runner_config, here, " (base)")  # noqa: E731
            try:
                found = validation.validate(before, after, diff(before, after), links, master, base_master, file)
            except ChangelogRefused as refused:
                raise ChangelogRefused([*refused.problems, *_behind(place, new, old, base, file)]) from None
        summary = _summary(found.change)
        if found.selection is not None:
            summary |= {"throughput": len(found.selection.throughput), "evals": len(found.selection.evals)}
        return summary

    return _answer(judge, as_json, lambda summary: f"{file}: " + _say(summary))


@app.command("canonicalize")
def canonicalize(
    pr: Numbered,
    base: Annotated[
        str, typer.Option(help="Where the branch started from or merges to.", metavar="REF")
    ] = "origin/main",
    file: File = None,
    repo: Repo = Path(),
    repository: Links_ = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the new file instead of writing it.")] = False,
) -> None:
    """Replace the placeholder links of added entries by this pull request's. Nothing else in the file changes."""
    from ridgeline.publish.changelog.merging import canonicalize as canonical

    place = Repository.at(repo)
    here = _here(place, repository, file)
    file = here.file
    fork = place.fork_point(place.commit(base), place.commit("HEAD"))
    old = place.read(None, file)
    new = canonical(place.read(fork, file), old, Links.of(pr, here.repository), file)
    if stdout:
        sys.stdout.buffer.write(new)
        return
    if new != old:
        write_atomically(place.root / place.inside(file), new)
    changed = sum(was != now for was, now in zip(old.splitlines(), new.splitlines(), strict=True))
    typer.echo(f"{file}: {count(changed, 'link')} written")


@app.command("resolve")
def resolve(
    base: Annotated[Path, typer.Argument(help="The common ancestor (%O).")],
    ours: Annotated[Path, typer.Argument(help="Our side (%A); receives the result.")],
    theirs: Annotated[Path, typer.Argument(help="Their side (%B).")],
    pr: Annotated[
        int | None, typer.Option(min=1, envvar="RIDGELINE_PR", help="Number of the pull request; left out: links stay.")
    ] = None,
    main: Annotated[Main, typer.Option(help="Which side is main's.")] = "auto",
    file: File = None,
    repository: Links_ = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the result instead of writing it to OURS.")] = False,
    driver: Annotated[bool, typer.Option("--driver", help="Run by git: a refusal leaves conflict markers.")] = False,
    marker_size: Annotated[int, typer.Option(min=1, help="Length of conflict markers (%L).")] = 7,
) -> int:
    """Resolve a conflict of three files: main's bytes, then the pull request's entries. Usable as a git merge driver.

    The result replaces OURS. Exit code 1 when the rule does not decide; then a person must.
    """
    from ridgeline.publish.changelog.merging import resolve as combine
    from ridgeline.publish.changelog.repository import leave_markers, rebasing
    from ridgeline.publish.changelog.sides import sides

    here = _here(_around(Path()), repository, file)
    ancestor, file = _bytes(base), here.file
    links = Links.unnumbered(here.repository) if pr is None else Links.of(pr, here.repository)
    try:
        known: Main = "ours" if driver and main == "auto" and rebasing() else main
        pull, upstream = sides(ancestor, _bytes(ours), _bytes(theirs), links, known)
        result = combine(ancestor, pull, upstream, links, file)
    except (ChangelogRefused, InputError) as refused:
        if not driver:
            raise
        leave_markers(base, ours, theirs, marker_size)
        typer.echo(f"ridgeline: {file} needs a person: {refused}", err=True)
        return 1
    if stdout:
        sys.stdout.buffer.write(result)
    else:
        write_atomically(ours, result)
    return 0


@app.command("select")
def select(
    base: Base,
    head: Head = None,
    file: File = None,
    repo: Repo = Path(),
    config_files: Configs = None,
    runner_config: RunnerConfig = None,
    trim_conc: Annotated[bool, typer.Option("--trim-conc", help="Only the lowest concurrency of each recipe.")] = False,
    all_evals: Annotated[bool, typer.Option("--all-evals", help="Evaluate every point; throughput stays.")] = False,
    evals_only: Annotated[bool, typer.Option("--evals-only", help="No throughput jobs.")] = False,
    format: Annotated[Format, typer.Option(help="For people, or one JSON object in InferenceX's buckets.")] = "table",
    repository: Links_ = None,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format inferencex.")] = False,
) -> None:
    """Show the jobs that the entries added between two revisions select."""
    from ridgeline.publish.changelog.output import as_object, as_text
    from ridgeline.publish.changelog.selection import Modifiers
    from ridgeline.publish.changelog.selection import select as choose
    from ridgeline.publish.changelog.table import as_table

    place = Repository.at(repo)
    here = _here(place, repository, file)
    file = here.file
    old, new = place.commit(base), None if head is None else place.commit(head)
    before, after = place.read(old, file), place.read(new, file)
    entries = added_entries(after, diff(before, after), file)
    master = _master(place, new, config_files, runner_config, here)
    base_master = lambda: _master(place, old, config_files, runner_config, here, " (base)")  # noqa: E731
    selection = choose(entries, master, base_master, Modifiers(all_evals, evals_only, trim_conc), file)
    if as_json or format == "inferencex":
        typer.echo(as_text(as_object(selection, base, head or "worktree")))
    else:
        typer.echo(as_table(selection), nl=False)
    _warn_unless_valid(before, after, Links.unnumbered(here.repository), file)


@app.command("install-merge-driver")
def install_merge_driver(file: File = None, repo: Repo = Path(), repository: Links_ = None) -> None:
    """Let git resolve changelog conflicts with `resolve`. Writes .gitattributes and this clone's config, once."""
    from ridgeline.publish.changelog.driver import ATTRIBUTES, install

    place = Repository.at(repo)
    here = _here(place, repository, file)
    done = install(place, here.file, sys.executable, here.repository)
    for key in done.config:
        typer.echo(f"git config: {key} set")
    if done.attributes:
        typer.echo(f"{ATTRIBUTES}: added `{done.attributes}`\nnext: commit {ATTRIBUTES}; every clone runs this once")
    if not done.attributes and not done.config:
        typer.echo("already installed")


@app.command("prepare-merge")
def prepare_merge(
    pr: Numbered,
    main: Annotated[str, typer.Option(help="The branch to merge into; fetch it first.", metavar="REF")] = "origin/main",
    commit: Annotated[bool, typer.Option("--commit", help="Also commit the result.")] = False,
    file: File = None,
    repo: Repo = Path(),
    config_files: Configs = None,
    runner_config: RunnerConfig = None,
    repository: Links_ = None,
    as_json: Json = False,
) -> int:
    """Merge main into this branch, resolve the changelog, write its links and validate. Safe to run again."""
    from ridgeline.publish.changelog.prepare import prepare
    from ridgeline.publish.changelog.selection import select as choose

    place = Repository.at(repo)
    here = _here(place, repository, file)
    name = here.file
    upstream = place.commit(main)

    def check(change: Change) -> None:
        if change.additions:
            base_master = lambda: _master(place, upstream, config_files, runner_config, here, " (base)")  # noqa: E731
            choose(change.additions, _master(place, None, config_files, runner_config, here), base_master, file=name)

    def judge() -> dict[str, Any]:
        done = prepare(place, main, Links.of(pr, here.repository), name, check, commit=commit)
        return _summary(done.change) | {"steps": list(done.steps)}

    def say(summary: dict[str, Any]) -> str:
        steps = summary["steps"] or ["nothing to do: already prepared"]
        todo = "push" if commit or not summary["steps"] else "`git commit`, then push"
        return "\n".join([*steps, f"{name}: {_say(summary)}", f"next: {todo}"])

    return _answer(judge, as_json, say)


def _around(path: Path) -> Repository | None:
    try:
        return Repository.at(path)
    except InputError:
        return None  # three files can be merged anywhere


def _behind(place: Repository, head: str | None, old: str, base: str, file: str) -> list[Problem]:
    """A branch that lacks newer entries of its base seems to delete them: say that this may be all there is to it."""
    if place.contains(head or place.commit("HEAD"), old):
        return []
    what = f"the branch does not contain `{base}`, whose newer entries count as removed"
    return [Problem(what, Where(file), hint=f"merge it first, e.g. `ridgeline changelog prepare-merge --main {base}`")]


def _warn_unless_valid(before: bytes, after: bytes, links: Links, file: str) -> None:
    """Selecting reads a diff as loosely as the pull-request check does; say so when a merge would not."""
    from ridgeline.publish.changelog.contract import strict

    try:
        strict(before, after, links, file)
    except (ChangelogRefused, InputError) as refused:
        typer.echo(f"warning: `ridgeline changelog validate` refuses this change: {refused}", err=True)


def _master(
    place: Repository, commit: str | None, configs: list[str] | None, runners: str | None, here: Here, mark: str = ""
) -> MasterConfigs:
    """The master configs of a revision. Defaults may be missing, but not all; what was named must exist."""

    def named(name: str) -> tuple[str, bytes]:
        return f"{name}{mark}", place.read(commit, name)

    files = [named(name) for name in configs or here.configs if configs or place.has(commit, name)]
    if not files:
        hint = "name the master configs with --config-files"
        raise InputError([Problem(f"none of {' and '.join(here.configs)} is there", hint=hint)])
    return MasterConfigs.read(
        files, named(runners or here.runners) if runners or place.has(commit, here.runners) else None
    )


def _summary(change: Change) -> dict[str, Any]:
    return {
        "additions": [entry.as_json() for entry in change.additions],
        "corrections": [one.after.as_json() for one in change.corrections],
    }


def _say(summary: dict[str, Any]) -> str:
    added, corrected = len(summary["additions"]), len(summary["corrections"])
    if corrected:
        return f"{count(corrected, 'link')} corrected, nothing selected"
    text = f"{count(added, 'entry', 'entries')} added"
    if "evals" not in summary:
        return text
    return (
        f"{text}, selecting {count(summary['throughput'], 'throughput job')}, {count(summary['evals'], 'evaluation')}"
    )


def _answer(judge: Callable[[], dict[str, Any]], as_json: bool, say: Callable[[dict[str, Any]], str]) -> int:
    """Run `judge`; print its summary for people or as JSON. With JSON a refusal is data as well, with exit code 1."""
    try:
        summary = judge()
    except ChangelogRefused as refused:
        if not as_json:
            raise
        typer.echo(json.dumps({"ok": False, "problems": [_problem(problem) for problem in refused.problems]}, indent=1))
        return refused.exit_code
    typer.echo(json.dumps({"ok": True, **summary}, indent=1) if as_json else say(summary))
    return 0


def _problem(problem: Problem) -> dict[str, Any]:
    where = problem.where
    return {
        "file": where.file if where else None,
        "line": (where.line or None) if where else None,
        "key": problem.key,
        "message": problem.message,
        "hint": problem.hint,
    }


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError([Problem(f"cannot read `{os.fspath(path)}`: {error.strerror or error}")]) from error
