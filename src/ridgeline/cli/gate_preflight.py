"""What the gate asks of the preflight: findings of the concerned cells and lint of the changed scripts, as remarks.

A cell that a launch script of the repository starts is checked as that script starts it, which takes a dry run in the
sandbox; other cells are checked as our own recipe would start them.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, NamedTuple

from ridgeline.cli.preflight import Subjects, knowledge
from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.finding import Finding, Verdict
from ridgeline.core.where import Where
from ridgeline.plan.checks.report import check
from ridgeline.plan.checks.subject import Subject, bind
from ridgeline.plan.shell import lint
from ridgeline.plan.shell.inputs import environment_of
from ridgeline.plan.shell.recover import Sources, deployment_of, run_findings
from ridgeline.publish.gate.judge import Preflighted
from ridgeline.publish.gate.launchers import launcher_of
from ridgeline.publish.gate.rule import Remark, Severity, of_finding, remark
from ridgeline.publish.gate.upstream import Server
from ridgeline.spec.settings import Settings

if TYPE_CHECKING:
    from ridgeline.core.dryrun import DryRun
    from ridgeline.publish.gate.judge import Preflight
    from ridgeline.spec.config import Entry


BUDGET_S = 300.0  # for all dry runs of one change together: a hostile script may take its whole limit for every cell
STARTS = re.compile(rb"\bvllm serve\b|\bsglang\b|launch_server|trtllm-serve|\batom\b|api_server\b")


class Given(NamedTuple):
    """Paths of what is known, as `ridgeline check` takes them, and loaded settings."""

    settings: Settings
    observations: tuple[Path, ...] = ()
    dumps: tuple[Path, ...] = ()
    tables: tuple[Path, ...] = ()
    golden: tuple[Path, ...] = ()


def make(given: Given, today: datetime.date, *, dry_run: bool) -> Preflight:
    """The preflight with what is known. `dry_run`: launch scripts may run in the sandbox. Raises InputError when a file
    does not load."""
    settings = given.settings
    known = knowledge([], tables=given.tables, golden=given.golden, observations=given.observations, dumps=given.dumps)
    return _Preflight(settings, Subjects(settings, known), today, dry_run)


@dataclass
class _Preflight:
    settings: Settings
    subjects: Subjects
    today: datetime.date
    dry_run: bool
    said: dict[Finding, list[Cell]] = field(default_factory=dict)
    unknown: dict[str, Cell] = field(default_factory=dict)
    runs: dict[tuple[str, tuple[tuple[str, str], ...]], DryRun] = field(default_factory=dict)
    servers: list[Server] = field(default_factory=list)
    spent_s: float = 0.0

    def __call__(
        self, cells: Sequence[Cell], changed: Mapping[str, bytes], library: Mapping[str, bytes]
    ) -> Preflighted:
        self.servers = []
        return Preflighted(list(self._judged(cells, changed, library)), self.servers)

    def _judged(
        self, cells: Sequence[Cell], changed: Mapping[str, bytes], library: Mapping[str, bytes]
    ) -> Iterable[Remark]:
        self.said, self.unknown, self.runs, self.spent_s = {}, {}, {}, 0.0
        skipped: dict[str, list[str]] = {}
        refused: dict[tuple[str, str], list[str]] = {}
        for subject, script in self._started(cells, changed, library):
            cell = subject.cell
            if script is None or script not in library:
                self._check(subject, ours=True)
            elif not self.dry_run:
                skipped.setdefault(script, []).append(cell.name)
            else:
                try:
                    self._check_script(subject, script, library)
                except EnvironmentFailed as error:  # no sandbox here: for this machine nothing can be said
                    refused.setdefault((script, error.message), []).append(cell.name)
        remarks = list(self._remarks())
        for path, data in changed.items():
            remarks += [found for finding in lint(data, path) if (found := of_finding(finding)) is not None]
        yield from folded(remarks)
        for (script, why), names in refused.items():
            yield replace(remark("P50", why, Where(script), hint="run the gate elsewhere"), subjects=tuple(names))
        for script, names in skipped.items():
            what = f"{len(names)} cells start from this script, which was linted and not dry-run"
            yield replace(remark("P50", what, Where(script), hint="leave out --no-dry-run"), subjects=tuple(names))

    def _started(
        self, cells: Sequence[Cell], changed: Mapping[str, bytes], library: Mapping[str, bytes]
    ) -> list[tuple[Subject, str | None]]:
        """Subjects with the script that starts them: what the settings say of the cell, else the one that is named for
        it. A changed script whose name says no cell serves those that have none, when it is the only one that starts an
        engine."""
        found: list[tuple[Subject, str | None]] = []
        loose: list[Subject] = []
        for cell in cells:
            try:
                subject = self.subjects.of(cell)
            except InputError as error:
                self.unknown.setdefault(self._in_repository(error.message.splitlines()[0]), cell)
                continue
            told = self.settings.recipe(cell.name)
            if told is not None:
                found.append((subject, normpath(told.recipe) if told.kind == "shell" else None))
            elif script := launcher_of(cell, subject.gpu.name, library):
                found.append((subject, script))
            else:
                loose.append(subject)
        named = {script for _, script in found}
        spare = [path for path, data in changed.items() if path not in named and STARTS.search(data)]
        return [*found, *((subject, spare[0] if len(spare) == 1 else None) for subject in loose)]

    def _in_repository(self, message: str) -> str:
        """A message without the folder that the base's files were put into."""
        return message.replace(f"{Path(self.settings.file).parent}/", "") if self.settings.file else message

    def _check(self, subject: Subject, leave_out: tuple[tuple[str, Verdict], ...] = (), *, ours: bool = False) -> None:
        """`ours`: our own recipe starts the cell."""
        report = check(subject, self.settings, today=self.today)
        for one in report.judged:
            if one.waiver is None and (one.finding.rule, one.finding.verdict) not in leave_out:
                self._say(_in_checkout(one.finding, subject.cell) if ours else one.finding, subject.cell)

    def _check_script(self, subject: Subject, script: str, library: Mapping[str, bytes]) -> None:
        """The cell as the script starts it."""
        done = self._run(subject.cell, script, library)
        sources = Sources(library, {})
        for finding in run_findings(done, sources, script):
            self._say(finding, subject.cell)
        deployment = deployment_of(done, sources)
        if deployment is not None:
            cell = subject.cell
            engines = [
                service.argv for service in deployment.services if service.role == "engine" and not cell.arm.pools
            ]
            self.servers += [Server(cell.name, subject.gpu.name, tuple(i.text for i in argv)) for argv in engines]
            # the port is ours, given to the dry run: that it is a fixed one says nothing about the script
            self._check(bind(subject, _named(deployment, script)), leave_out=(("R5", Verdict.WARN),))

    def _run(self, cell: Cell, script: str, library: Mapping[str, bytes]) -> DryRun:
        from ridgeline.launch.dryrun import dry_run

        environment = environment_of(cell)
        key = (script, tuple(sorted(environment.items())))
        if key not in self.runs:
            if self.spent_s > BUDGET_S:
                raise EnvironmentFailed(f"not dry-run: the runs before took more than {BUDGET_S:g} s together")
            began = time.monotonic()
            beside = {name: data for name, data in library.items() if name != script}
            try:
                self.runs[key] = dry_run(library[script], environment, name=script, beside=beside)
            finally:
                self.spent_s += time.monotonic() - began
        return self.runs[key]

    def _say(self, finding: Finding, cell: Cell) -> None:
        self.said.setdefault(finding, []).append(cell)

    def _remarks(self) -> Iterator[Remark]:
        for why, cell in self.unknown.items():
            where = cell.where and Where(cell.where.file, cell.where.line)
            what = f"`{cell.benchmark.key}` was not checked: {why}"
            yield remark("P50", what, where, hint="name the model in the settings")
        yield from _grouped(self.said)


def _in_checkout(finding: Finding, cell: Cell) -> Finding:
    """A finding about a line of our own recipe stands at the cell's entry: the line is in no checkout of the user's."""
    place = cell.where and Where(cell.where.file, cell.where.line)
    inside = finding.where is not None and place is not None and finding.where.file == place.file
    return finding if inside else replace(finding, where=place)


def _grouped(said: Mapping[Finding, Sequence[Cell]]) -> Iterator[Remark]:
    """One remark for what one rule says about one place: the worst verdict, with the numbers of the cell that asks the
    most, and all cells that have it."""
    places: dict[tuple[str, Where | None], list[tuple[Finding, Sequence[Cell]]]] = {}
    for finding, cells in said.items():
        if finding.verdict is not Verdict.PASS:
            places.setdefault((finding.rule, finding.where), []).append((finding, cells))
    for group in places.values():
        worst = max(finding.verdict.rank for finding, _ in group)
        same = [(finding, cells) for finding, cells in group if finding.verdict.rank == worst]
        finding, _ = max(same, key=lambda one: max(cell.concurrency for cell in one[1]))
        names = dict.fromkeys(cell.name for _, cells in same for cell in cells)
        found = of_finding(finding, tuple(names))
        if found is not None:
            yield found


def folded(remarks: Sequence[Remark]) -> list[Remark]:
    """Remarks without those that only follow from another, which names them: what a replaced EXIT handler (L01) would
    have stopped is named by the linter (L05) and seen by the dry run (D1) as well; a list of graphs that leaves
    sequences without one (G1) is also seen to end early (G5). Each stands alone where its cause does not."""
    causes = [one for one in remarks if one.where and (one.rule == "L01" or _uncaptured(one))]
    kept: list[Remark] = []
    follows: dict[int, list[str]] = {}
    for one in remarks:
        cause = next((cause for cause in causes if _is_from(one, cause, remarks)), None)
        if cause is None:
            kept.append(one)
        else:
            place = f" at line {one.where.line}" if one.where and one.where != cause.where else ""
            follows.setdefault(id(cause), []).append(f"{one.rule}{place}")
    return [
        replace(one, arithmetic=f"{one.arithmetic.rstrip('.')}. From it follow {', '.join(follows[id(one)])}.")
        if id(one) in follows
        else one
        for one in kept
    ]


def _uncaptured(one: Remark) -> bool:
    return one.rule == "G1" and one.severity is Severity.BLOCKING


def _is_from(one: Remark, cause: Remark, remarks: Sequence[Remark]) -> bool:
    if _uncaptured(cause):
        return one.rule == "G5" and one.where == cause.where
    assert cause.where is not None
    return _follows(one, (cause.where.file, cause.where.line), remarks)


def _follows(one: Remark, cause: tuple[str, int], remarks: Sequence[Remark]) -> bool:
    file, line = cause
    if one.where is None or one.where.file != file:
        return False
    if one.rule == "L05":
        return f"EXIT handler of line {line} " in one.message
    if one.rule != "D1":
        return False
    # the dry run saw the process that the linter's PID belongs to: started on the line before the PID is kept
    return any(
        other.rule == "L05"
        and other.where
        and _follows(other, cause, ())
        and 0 <= other.where.line - one.where.line <= 2
        for other in remarks
    )


def _named(deployment: Deployment, script: str) -> Deployment:
    return replace(deployment, recipe=f"{script}, dry-run")


def golden_lengths(entry: Entry) -> Mapping[int, float]:
    """Committed acceptance lengths for an entry's model, thinking on, by number of drafts."""
    from ridgeline.spec.facts.golden import shipped_curves

    found: dict[int, float] = {}
    for curve in shipped_curves():
        if curve.variant.startswith(entry.model_prefix) and curve.mode == "thinking_on":
            found |= curve.lengths
    return found
