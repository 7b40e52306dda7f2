"""Cells whose preflight says FAIL are refused before anything is started: their failures say why, others go on.

In: a sweep, its run folder, and what the checks say of a cell and its deployment. Only FAIL refuses; UNKNOWN is no
answer, and a waiver of the settings accepts a finding by name. What runs all the same was asked for in so many words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.finding import Finding, Verdict
from ridgeline.launch.engines import engine_kind
from ridgeline.plan.checks.report import CellReport
from ridgeline.results.runfolder import RunFolder
from ridgeline.sweep.run import Planned, Sweep

LAYER = "check"

Preflight = Callable[[Cell, Deployment], CellReport | None]  # None: nothing is checked for such a deployment


class Refused(NamedTuple):
    """A cell that is not started, and every finding that says so."""

    item: Planned
    findings: tuple[Finding, ...]

    @property
    def message(self) -> str:
        """Rules and reasons, with the arithmetic of each."""
        lines = []
        for finding in self.findings:
            more = f" [{finding.arithmetic}]" if finding.arithmetic else ""
            lines.append(f"{finding.rule}: {finding.message}{more}" + (f" ({finding.where})" if finding.where else ""))
        return "\n".join(lines)

    @property
    def hint(self) -> str:
        """What would make it pass, else how to look into it."""
        found = next((finding.hint for finding in self.findings if finding.hint), None)
        return found or f"`ridgeline check --explain {self.findings[0].rule}`; a waiver in the settings accepts it"


def refuse(sweep: Sweep, folder: RunFolder, preflight: Preflight) -> list[Refused]:
    """Record a failure in the layer `check` for each unfinished cell that fails, and leave those cells out of `sweep`.

    Raises EnvironmentFailed when the failures cannot be stored, or for an engine that is not launched here.
    """
    known = {failure.run_key: failure for failure in folder.failures()}
    planned = sweep.plan()
    for item in planned:
        engine_kind(item.deployment.kind)  # what nothing here launches is the first thing to say
    found = []
    for item in planned:
        if folder.finished(item.run_key):
            continue
        report = preflight(item.cell, item.deployment)
        judged = report.judged if report is not None else ()
        wrong = tuple(j.finding for j in judged if j.finding.verdict is Verdict.FAIL and not j.waiver)
        if wrong:
            found.append(Refused(item, wrong))
    for refused in found:
        before = known.get(refused.item.run_key)
        if before is None or (before.layer, before.message) != (LAYER, refused.message):  # once is enough
            cell, key = refused.item.cell, refused.item.run_key
            folder.write_failure(cell, key, LAYER, refused.message, hint=refused.hint, detail={"blame": "recipe"})
    if found:
        out = {refused.item.run_key for refused in found}
        sweep.only = frozenset(item.run_key for item in planned if item.run_key not in out)
    return found
