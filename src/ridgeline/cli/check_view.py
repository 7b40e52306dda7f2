"""How `ridgeline check` shows what it found: for people, as JSON, as SARIF and as GitHub annotations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ridgeline.core.finding import Finding, Verdict
from ridgeline.core.where import Where
from ridgeline.plan.checks.catalogue import CATALOGUE
from ridgeline.plan.checks.report import CellReport, Judged
from ridgeline.plan.checks.rule import Rule

_SARIF = {Verdict.FAIL: "error", Verdict.UNKNOWN: "warning", Verdict.WARN: "warning", Verdict.PASS: "none"}
_GITHUB = {Verdict.FAIL: "error", Verdict.UNKNOWN: "warning", Verdict.WARN: "notice"}


def table(reports: Sequence[CellReport], *, everything: bool = False) -> str:
    """Verdicts by line of the search space, then each finding once, with the cells that share it."""
    out = []
    lines: dict[str, list[CellReport]] = {}
    for report in reports:
        lines.setdefault(report.cell.line, []).append(report)
    width = max(len(line) for line in lines)
    for line, cells in lines.items():
        verdicts = "  ".join(f"c{r.cell.concurrency} {r.verdict.value}" for r in cells)
        if len({r.verdict for r in cells}) == 1:
            span = ", ".join(f"c{r.cell.concurrency}" for r in cells)
            verdicts = f"{cells[0].verdict.value:<8} {span}"
        out.append(f"{line:<{width}}  {verdicts}")
    for shared in _shared(reports, everything):
        finding, waiver = shared.judged.finding, shared.judged.waiver
        waived = f"  (waived until {waiver.until}: {waiver.reason})" if waiver else ""
        out += ["", f"{finding.verdict.value.upper():<7} {finding.rule}  {finding.message}{waived}"]
        sums = f"{finding.arithmetic}{shared.which}"
        out += [f"        {text}" for text in (sums, finding.hint and f"hint: {finding.hint}") if text]
        for place, cells in shared.places.items():
            names = f"all {len(reports)} cells" if len(cells) == len(reports) > 1 else _names(cells)
            out.append(f"        {f'at {place}; ' if place else ''}{names}")
    counts = Counter(report.verdict for report in reports)
    total = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    return "\n".join([*out, "", f"{len(reports)} cells: {total}", ""])


class Shared(NamedTuple):
    """A finding that several cells have: the first one's, and the cells by the place of theirs."""

    judged: Judged
    places: dict[Where | None, list[CellReport]]
    sums: set[str]

    @property
    def cells(self) -> list[CellReport]:
        """Its cells, each once."""
        return list({id(cell): cell for cells in self.places.values() for cell in cells}.values())

    @property
    def which(self) -> str:
        """Whose arithmetic is shown, where the cells' differ."""
        first = self.cells[0].cell
        arm = first.line.rsplit("/", 1)[-1]
        return f" [{arm} c{first.concurrency}; {len(self.sums) - 1} other sums]" if len(self.sums) > 1 else ""


def _shared(reports: Iterable[CellReport], everything: bool) -> list[Shared]:
    """Findings that say the same, worst first."""
    found: dict[tuple[object, ...], Shared] = {}
    for report in reports:
        for said in report.judged:
            finding = said.finding
            if finding.verdict is Verdict.PASS and not everything:
                continue
            key = (finding.verdict, finding.rule, finding.message, finding.hint, said.waiver)
            shared = found.setdefault(key, Shared(said, {}, set()))
            shared.sums.add(finding.arithmetic)
            cells = shared.places.setdefault(finding.where or report.cell.where, [])
            if not cells or cells[-1] is not report:
                cells.append(report)
    return sorted(found.values(), key=lambda item: -item.judged.finding.verdict.rank)


def _names(cells: Sequence[CellReport]) -> str:
    lines: dict[str, list[str]] = {}
    for report in cells:
        lines.setdefault(report.cell.line, []).append(f"c{report.cell.concurrency}")
    return "; ".join(f"{line}: {' '.join(names)}" for line, names in lines.items())


def data(report: CellReport) -> dict[str, Any]:
    """One cell as plain data."""
    return {
        "cell": report.cell.name,
        "verdict": report.verdict.value,
        "recipe": report.recipe or None,
        "findings": [_finding(said) for said in report.judged],
        "expectations": [
            {"rule": e.rule, "name": e.name, "op": e.op, "value": e.value, "unit": e.unit} for e in report.expectations
        ],
    }


def _finding(said: Judged) -> dict[str, Any]:
    finding, waiver = said.finding, said.waiver
    return {
        "rule": finding.rule,
        "verdict": finding.verdict.value,
        "message": finding.message,
        "arithmetic": finding.arithmetic or None,
        "where": str(finding.where) if finding.where else None,
        "hint": finding.hint,
        "changes": [{"service": c.service, "flag": c.flag, "value": c.value} for c in finding.changes],
        "waived": {"reason": waiver.reason, "until": waiver.until.isoformat()} if waiver else None,
    }


def sarif(reports: Sequence[CellReport], version: str) -> str:
    """SARIF 2.1.0, one result a finding; waived ones are suppressed."""
    rules = [{"id": r.id, "shortDescription": {"text": r.title}, "fullDescription": {"text": r.why}} for r in CATALOGUE]
    results = []
    for shared in _shared(reports, everything=False):
        finding, waiver, cells = shared.judged.finding, shared.judged.waiver, shared.cells
        result: dict[str, Any] = {
            "ruleId": finding.rule,
            "level": _SARIF[finding.verdict],
            "message": {"text": _sentence(finding, cells)},
            "properties": {"verdict": finding.verdict.value, "cells": [report.cell.name for report in cells]},
        }
        places = [_location(place) for place in shared.places if place]
        if places:
            result |= {"locations": places[:1], "relatedLocations": places[1:]}
        if waiver:
            result["suppressions"] = [{"kind": "external", "justification": waiver.reason}]
        results.append(result)
    driver = {"name": "ridgeline", "version": version, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _location(place: Where) -> dict[str, Any]:
    region = {"startLine": max(1, place.line), "startColumn": max(1, place.column)}
    return {"physicalLocation": {"artifactLocation": {"uri": place.file}, "region": region}}


def _sentence(finding: Finding, cells: Sequence[CellReport]) -> str:
    parts = [finding.message, finding.arithmetic, f"hint: {finding.hint}" if finding.hint else "", _names(cells)]
    return ". ".join(part for part in parts if part)


def github(reports: Sequence[CellReport]) -> str:
    """Workflow commands that annotate the lines of a pull request, one a place."""
    out = []
    for shared in _shared(reports, everything=False):
        finding = shared.judged.finding
        for place, cells in shared.places.items() if not shared.judged.waiver else ():
            at = f"file={_property(place.file)},line={max(1, place.line)}," if place else ""
            title = _property(f"{finding.rule} {finding.verdict.value}")
            out.append(f"::{_GITHUB[finding.verdict]} {at}title={title}::{_message(_sentence(finding, cells))}\n")
    return "".join(out)


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def explained(rule: Rule) -> str:
    """A rule in words: what, why, source and a worked example."""
    return (
        f"{rule.id}  {rule.title}\n\nWhy      {rule.why}\nSource   {rule.source}\nExample  {rule.example}\n"
        f"\nWaive it in ridgeline.yaml: waivers: [{{rule: {rule.id}, cells: GLOB, reason: WHY, until: DATE}}]\n"
    )
