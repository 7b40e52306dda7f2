"""What all rules say about one cell, and the verdict that follows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.core.cell import Cell
from ridgeline.core.finding import Expectation, Finding, Verdict
from ridgeline.plan.checks.catalogue import CATALOGUE
from ridgeline.plan.checks.rule import Rule
from ridgeline.plan.checks.subject import Subject
from ridgeline.spec.settings import Settings, Waiver


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding, and the waiver that accepts it."""

    finding: Finding
    waiver: Waiver | None = None


@dataclass(frozen=True, slots=True)
class CellReport:
    """One cell. `recipe`: which one wrote its deployment, and why."""

    cell: Cell
    judged: tuple[Judged, ...]
    expectations: tuple[Expectation, ...]
    recipe: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst finding that no waiver accepts."""
        return max((j.finding.verdict for j in self.judged if not j.waiver), key=lambda v: v.rank, default=Verdict.PASS)


def check(
    subject: Subject,
    settings: Settings | None = None,
    *,
    today: datetime.date | None = None,
    rules: Sequence[Rule] = CATALOGUE,
) -> CellReport:
    """Ask every rule. A waiver accepts findings worse than PASS of its rule on cells whose name it matches, until the
    end of its last day."""
    judged: dict[Finding, Judged] = {}  # equal workers of a pool say the same: once is enough
    expectations: dict[Expectation, None] = {}
    for rule in rules:
        for said in rule(subject):
            if isinstance(said, Expectation):
                expectations[said] = None
                continue
            waiver = None
            if settings is not None and today is not None and said.verdict is not Verdict.PASS:
                waiver = settings.waiver(said.rule, subject.cell.name, today)
            judged[said] = Judged(said, waiver)
    recipe = subject.deployment.recipe if subject.deployment else ""
    return CellReport(subject.cell, tuple(judged.values()), tuple(expectations), recipe)
