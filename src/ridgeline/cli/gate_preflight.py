"""What the gate asks of the preflight: findings of the changed cells and lint of the changed scripts, as remarks."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError
from ridgeline.core.finding import Finding
from ridgeline.core.where import Where
from ridgeline.publish.gate.rule import Remark, of_finding, remark

if TYPE_CHECKING:
    from ridgeline.publish.gate.judge import Preflight
    from ridgeline.spec.config import Entry


def make(settings: Path | None, today: datetime.date) -> Preflight:
    """The preflight over a settings file. Raises InputError when it does not load."""
    from ridgeline.cli.preflight import Subjects, knowledge
    from ridgeline.plan.checks.report import check
    from ridgeline.plan.shell import lint
    from ridgeline.spec.settings import load_settings

    loaded = load_settings(settings)
    maker = Subjects(loaded, knowledge([]))

    def judge(cells: Sequence[Cell], scripts: Mapping[str, bytes]) -> Iterable[Remark]:
        said: dict[Finding, list[str]] = {}
        unknown: dict[str, Cell] = {}
        for cell in cells:
            try:
                report = check(maker.of(cell), loaded, today=today)
            except InputError as error:
                unknown.setdefault(error.message.splitlines()[0], cell)
                continue
            for one in report.judged:
                if one.waiver is None:
                    said.setdefault(one.finding, []).append(cell.name)
        yield from _unknown(unknown)
        for finding, names in said.items():
            found = of_finding(finding, tuple(names))
            if found is not None:
                yield found
        for path, data in scripts.items():
            for finding in lint(data, path):
                found = of_finding(finding)
                if found is not None:
                    yield found

    return judge


def _unknown(cells: Mapping[str, Cell]) -> Iterator[Remark]:
    for why, cell in cells.items():
        where = cell.where and Where(cell.where.file, cell.where.line)
        yield remark(
            "P50", f"`{cell.benchmark.key}` was not checked: {why}", where, hint="name the model in the settings"
        )


def golden_lengths(entry: Entry) -> Mapping[int, float]:
    """Committed acceptance lengths for an entry's model, thinking on, by number of drafts."""
    from ridgeline.spec.facts.golden import shipped_curves

    found: dict[int, float] = {}
    for curve in shipped_curves():
        if curve.variant.startswith(entry.model_prefix) and curve.mode == "thinking_on":
            found |= curve.lengths
    return found
