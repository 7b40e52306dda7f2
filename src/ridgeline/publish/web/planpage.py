"""The plan page: the cells of a config with their findings.

In: reports of the preflight. Out: plain data: cells by line with their verdict, and each finding once, worst first,
with the cells that share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ridgeline.core.finding import Verdict
from ridgeline.plan.checks.report import CellReport

GLYPHS = {"fail": "✕", "unknown": "?", "warn": "▲", "pass": "✓"}
KINDS = {"fail": "bad", "unknown": "outline", "warn": "warn", "pass": "good"}


def view(reports: Sequence[CellReport], verdict: str | None = None) -> dict[str, Any]:
    """`verdict`: only cells and findings of that one."""
    counts = Counter(str(report.verdict) for report in reports)
    lines: dict[str, list[dict[str, Any]]] = {}
    for report in reports:
        if verdict in (None, str(report.verdict)):
            lines.setdefault(report.cell.line, []).append(_cell(report))
    findings = [one for one in shared(reports) if verdict in (None, one["verdict"])]
    return {
        "total": len(reports),
        "gpus": max((report.cell.gpus for report in reports), default=0),
        "counts": {name: counts.get(name, 0) for name in GLYPHS},
        "lines": lines,
        "findings": findings,
        "passed": sum(judged.finding.verdict is Verdict.PASS for report in reports for judged in report.judged),
    }


def shared(reports: Sequence[CellReport]) -> list[dict[str, Any]]:
    """Findings worse than PASS, each once, worst first, with the names of the cells that share it."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for report in reports:
        for judged in report.judged:
            finding = judged.finding
            if finding.verdict is Verdict.PASS:
                continue
            key = (finding.verdict, finding.rule, finding.message, finding.hint, judged.waiver)
            one = found.setdefault(
                key,
                {
                    "verdict": str(finding.verdict),
                    "rank": finding.verdict.rank,
                    "rule": finding.rule,
                    "message": finding.message,
                    "arithmetic": finding.arithmetic,
                    "where": str(finding.where).rsplit("/", 1)[-1] if finding.where else "",
                    "hint": finding.hint or "",
                    "waived": f"until {judged.waiver.until}: {judged.waiver.reason}" if judged.waiver else "",
                    "cells": [],
                },
            )
            if report.cell.name not in one["cells"]:
                one["cells"].append(report.cell.name)
    return sorted(found.values(), key=lambda one: -one["rank"])


def _cell(report: CellReport) -> dict[str, Any]:
    return {
        "name": report.cell.name,
        "concurrency": report.cell.concurrency,
        "gpus": report.cell.gpus,
        "verdict": str(report.verdict),
        "recipe": report.recipe,
        "promises": [
            f"{one.name.replace('_', ' ')} {one.op} {_number(one.value)} {one.unit}".strip()
            for one in report.expectations
        ],
    }


def _number(value: float | str) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
