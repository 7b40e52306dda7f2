"""The gate's answer as plain values, and as JSON data (`ridgeline-gate/1`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.core.where import Where
from ridgeline.plan.estimate import Hours
from ridgeline.plan.outline import Planned
from ridgeline.publish.gate.decision import Decision, Group
from ridgeline.publish.gate.fork import Dispatch
from ridgeline.publish.gate.jobs import Job, Jobs
from ridgeline.publish.gate.performance import Performance
from ridgeline.publish.gate.rule import RULES, Remark, Severity
from ridgeline.publish.gate.signoff import SignOff

FORMAT = "ridgeline-gate/1"
_LEVELS = {
    Severity.BLOCKING: "failure",
    Severity.WARNING: "warning",
    Severity.INFO: "notice",
}


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One judgement of one head commit. `remarks` are what is wrong or to be known; `not_proven` is what nothing known
    decides, which is neither a fault nor a pass. `unlooked`: parts that were not judged, with the reason. `priority`:
    the highest score of its jobs. `group`: of workflow runs. `performance`: None where no results exist. `fork`: for a
    maintainer's label on a fork, what the trusted sweep starts with. `reminder`: the comment that is due once."""

    repository: str
    number: int | None
    base: str
    head: str
    decision: Decision
    remarks: tuple[Remark, ...]
    not_proven: tuple[Remark, ...] = ()
    additions: int = 0
    corrections: int = 0
    cells: tuple[Planned, ...] = ()
    hours: Hours | None = None
    jobs: Jobs | None = None
    priority: str | None = None
    group: Group | None = None
    sign_off: SignOff | None = None
    performance: Performance | None = None
    fork: Dispatch | None = None
    reminder: str | None = None
    unlooked: Mapping[str, str] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """No blocking remark. What a human must decide (the sign-off) has its own status."""
        return all(one.severity is not Severity.BLOCKING for one in self.remarks)


def as_json(gate: Gate) -> dict[str, Any]:
    """Plain data; missing values are null."""
    decision, jobs = gate.decision, gate.jobs
    return {
        "format": FORMAT,
        "ok": gate.open,
        "repository": gate.repository,
        "pull_request": gate.number,
        "base": gate.base,
        "head": gate.head,
        "decision": {
            "check_changelog": decision.check.value,
            "reuse_gate": decision.reuse_gate.value,
            "sweep": decision.runs,
            "why": decision.why,
            "label": decision.sweep.label if decision.sweep else None,
            "trimmed": decision.trimmed,
            "canary": decision.canary,
            "fail_fast": decision.fail_fast,
            "all_evals": decision.all_evals,
            "evals_only": decision.evals_only,
            "fast": decision.fast,
            "reusable": decision.reusable,
        },
        "concurrency": None if gate.group is None else gate.group._asdict(),
        "changelog": {"additions": gate.additions, "corrections": gate.corrections},
        "will_run": {
            "cells": [
                {"name": one.cell.name, "measured": one.measured, "evaluated": one.evaluated, "gpus": one.cell.gpus}
                for one in gate.cells
            ],
            "jobs": None if jobs is None else jobs.total,
            "families": [] if jobs is None else [{"name": f.name, "jobs": len(f.jobs)} for f in jobs.families],
            "canary": _canary(jobs.canary) if jobs else None,
            "collects": [] if jobs is None else list(jobs.collects),
            "ingest": None if jobs is None else jobs.ingest,
            "never": [] if jobs is None else [dict(row) for row in jobs.never],
            "gpu_hours": None if gate.hours is None else round(gate.hours.total, 3),
            "priority": gate.priority,
        },
        "remarks": [_remark(one) for one in gate.remarks],
        "not_proven": [_remark(one) for one in gate.not_proven],
        "annotations": line_annotations(gate.remarks),
        "sign_off": None if gate.sign_off is None else gate.sign_off.as_json(),
        "performance": None if gate.performance is None else gate.performance.as_json(),
        "fork_dispatch": None if gate.fork is None else {"inputs": gate.fork.inputs, "why": list(gate.fork.why)},
        "reminder": gate.reminder,
        "not_looked_at": dict(gate.unlooked),
    }


def line_annotations(remarks: tuple[Remark, ...]) -> list[dict[str, Any]]:
    """Remarks about lines of files, in the shape of GitHub's check-run annotations."""
    return [
        {
            "path": one.where.file,
            "start_line": one.where.line,
            "end_line": one.where.line,
            "annotation_level": _LEVELS[one.severity],
            "title": f"{one.rule} {RULES[one.rule].name}" if one.rule in RULES else one.rule,
            "message": "\n".join(part for part in (one.message, one.arithmetic, one.hint) if part),
        }
        for one in remarks
        if one.where is not None and one.where.line
    ]


def _remark(one: Remark) -> dict[str, Any]:
    return {
        "rule": one.rule,
        "name": RULES[one.rule].name if one.rule in RULES else None,
        "severity": one.severity.value,
        "message": one.message,
        "arithmetic": one.arithmetic or None,
        "hint": one.hint,
        "where": _where(one.where),
        "cells": list(one.subjects),
    }


def _where(where: Where | None) -> dict[str, Any] | None:
    if where is None:
        return None
    return {"file": where.file, "line": where.line or None, "column": where.column or None}


def _canary(job: Job | None) -> dict[str, Any] | None:
    return None if job is None else dict(job.row)
