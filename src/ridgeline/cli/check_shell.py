"""The shell side of `ridgeline check`: reads launch scripts, lints them, dry-runs them, and hands over deployments.

The verb calls `run_shell` and gives each deployment to the same checks that recipes go through: `subjects_of`.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.dryrun import DryRun
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.finding import Finding
from ridgeline.launch.dryrun import Limits, dry_run
from ridgeline.plan.checks.report import Judged
from ridgeline.plan.checks.subject import Subject, bind
from ridgeline.plan.shell.inputs import environment_of
from ridgeline.plan.shell.lint import lint
from ridgeline.plan.shell.recover import Sources, deployment_of, run_findings
from ridgeline.spec.settings import Settings

MOST_FILES, MOST_BYTES = 200, 2 << 20  # of what lies beside a script
PARENTS = 3  # folders above a script whose scripts it may include, where no repository ends the search before


class Recovered(NamedTuple):
    """What one script would start for one cell; `cell` None: with the environment given on the command line only."""

    file: str
    cell: Cell | None
    deployment: Deployment


class ShellCheck(NamedTuple):
    """Findings of the lint and of the runs by script, each once, and the deployments that other checks apply to."""

    scripts: dict[str, list[Finding]]
    deployments: list[Recovered]

    @property
    def findings(self) -> list[Finding]:
        return [finding for found in self.scripts.values() for finding in found]


def run_shell(
    files: Sequence[Path],
    cells: Sequence[Cell] = (),
    environment: Mapping[str, str] | None = None,
    *,
    run: bool = True,
    limits: Limits | None = None,
) -> ShellCheck:
    """Lint `files`, and dry-run each for every cell with `environment` on top; without cells, once.

    Equal environments run once. Raises InputError for files that cannot be read, with all of them, and
    EnvironmentFailed when the kernel refuses the sandbox (`run=False` lints only).
    """
    texts = _read(files)
    scripts: dict[str, list[Finding]] = {}
    deployments: list[Recovered] = []
    for path, text in texts.items():
        findings = lint(text, str(path))
        if run:
            for cell, done, sources, name in _runs(path, text, cells, environment or {}, limits):
                findings += run_findings(done, sources, name)
                deployment = deployment_of(done, sources)
                if deployment is not None:
                    deployments.append(Recovered(str(path), cell, deployment))
        scripts[str(path)] = list(dict.fromkeys(findings))
    return ShellCheck(scripts, deployments)


def subjects_of(found: ShellCheck, subjects: Sequence[Subject]) -> list[Subject]:
    """Each cell with each script's deployment in place of its recipe's; without one where the script started none."""
    by_key = {(item.file, item.cell.name): item.deployment for item in found.deployments if item.cell}
    bound = []
    for file in found.scripts:
        for subject in subjects:
            deployment = by_key.get((file, subject.cell.name))
            if deployment is None:
                bound.append(replace(subject, deployment=None, launches=(), why=f"{file} started no engine"))
            else:
                bound.append(bind(subject, replace(deployment, recipe=f"{file}, dry-run")))
    return bound


def judged(found: ShellCheck, settings: Settings, today: datetime.date) -> dict[str, list[Judged]]:
    """The scripts' findings with the waivers that accept them; a waiver's `cells` matches the script's path."""
    return {
        file: [Judged(finding, settings.waiver(finding.rule, file, today)) for finding in findings]
        for file, findings in found.scripts.items()
    }


def environment_from(words: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` words. Raises InputError with every one that is none."""
    pairs = [word.partition("=") for word in words]
    wrong = [Problem("is not NAME=VALUE", key=f"--env {name}") for name, equals, _ in pairs if not equals or not name]
    if wrong:
        raise InputError(wrong)
    return {name: value for name, _, value in pairs}


def _runs(
    path: Path, text: bytes, cells: Sequence[Cell], environment: Mapping[str, str], limits: Limits | None
) -> Iterator[tuple[Cell | None, DryRun, Sources, str]]:
    root, beside = _beside(path)
    name = path.resolve().relative_to(root).as_posix()
    shown = {other: os.path.relpath(root / other) for other in beside} | {name: str(path)}
    sources = Sources({name: text, **beside}, shown)
    known: dict[tuple[tuple[str, str], ...], DryRun] = {}
    for cell in cells or (None,):
        given = {**(environment_of(cell) if cell else {}), **environment}
        key = tuple(sorted(given.items()))
        if key not in known:
            known[key] = dry_run(text, given, name=name, beside=beside, limits=limits)
        yield cell, known[key], sources, name


def _read(files: Sequence[Path]) -> dict[Path, bytes]:
    found: dict[Path, bytes] = {}
    problems: list[Problem] = []
    for path in files:
        try:
            found[path] = path.read_bytes()
        except OSError as error:
            problems.append(Problem(error.strerror or str(error), key=str(path)))
    if problems:
        raise InputError(problems)
    return found


def _beside(path: Path) -> tuple[Path, dict[str, bytes]]:
    """The folder that paths are told from, and the scripts in the script's folder and in those above it, up to the
    repository's own."""
    folder = path.resolve().parent
    chain = [folder, *folder.parents][: PARENTS + 1]
    for index, above in enumerate(chain):
        if (above / ".git").exists():
            chain = chain[: index + 1]
            break
    found: dict[str, bytes] = {}
    total = 0
    for above in chain:
        for other in sorted(above.glob("*.sh")):
            if other.resolve() == path.resolve() or not other.is_file() or len(found) >= MOST_FILES:
                continue
            size = other.stat().st_size
            if total + size <= MOST_BYTES:
                total += size
                found[other.relative_to(chain[-1]).as_posix()] = other.read_bytes()
    return chain[-1], found
