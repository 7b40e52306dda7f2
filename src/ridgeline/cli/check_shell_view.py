"""How findings about launch scripts are shown: beside those of cells, in each of the verb's outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.cli.check_view import _GITHUB, _SARIF, _finding, _message, _property
from ridgeline.core.finding import Verdict
from ridgeline.plan.checks.report import Judged
from ridgeline.plan.shell.lint import RULES
from ridgeline.plan.shell.pages import SAID

Scripts = Mapping[str, Sequence[Judged]]  # findings by script, in the order of their lines


def verdict(judged: Sequence[Judged]) -> Verdict:
    """The worst finding of a script that no waiver accepts."""
    return max((one.finding.verdict for one in judged if not one.waiver), key=lambda v: v.rank, default=Verdict.PASS)


def table(scripts: Scripts) -> str:
    """For people: a line a finding, its repair below."""
    out = []
    for name, judged in scripts.items():
        out.append(f"{name}  {verdict(judged).value}")
        for one in judged:
            finding = one.finding
            place = finding.where or name
            waived = f"  (waived until {one.waiver.until}: {one.waiver.reason})" if one.waiver else ""
            out.append(f"\n{finding.verdict.value.upper():<7} {finding.rule}  {place}: {finding.message}{waived}")
            out += [
                f"        {text}" for text in (finding.arithmetic, finding.hint and f"hint: {finding.hint}") if text
            ]
        out.append("")
    return "\n".join(out) + "\n"


def data(scripts: Scripts) -> list[dict[str, Any]]:
    """One object a script."""
    return [
        {"script": name, "verdict": verdict(judged).value, "findings": [_finding(one) for one in judged]}
        for name, judged in scripts.items()
    ]


def sarif(document: str, scripts: Scripts) -> str:
    """The cells' SARIF document with the scripts' rules and results in it."""
    whole = json.loads(document)
    (run,) = whole["runs"]
    known = [(r.id, r.title, r.reason) for r in RULES] + [(s.id, s.title, s.reason) for s in SAID]
    run["tool"]["driver"]["rules"] += [
        {"id": name, "shortDescription": {"text": title}, "fullDescription": {"text": reason}}
        for name, title, reason in known
    ]
    for name, judged in scripts.items():
        for one in judged:
            finding = one.finding
            region = {"startLine": 1, "startColumn": 1}
            if finding.where is not None:
                region = {"startLine": max(1, finding.where.line), "startColumn": max(1, finding.where.column)}
            file = finding.where.file if finding.where else name
            result: dict[str, Any] = {
                "ruleId": finding.rule,
                "level": _SARIF[finding.verdict],
                "message": {"text": _sentence(one)},
                "properties": {"verdict": finding.verdict.value, "script": name},
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}],
            }
            if one.waiver:
                result["suppressions"] = [{"kind": "external", "justification": one.waiver.reason}]
            run["results"].append(result)
    return json.dumps(whole, indent=1) + "\n"


def github(scripts: Scripts) -> str:
    """Workflow commands that annotate the scripts' lines."""
    out = []
    for name, judged in scripts.items():
        for one in judged:
            finding = one.finding
            if one.waiver or finding.verdict is Verdict.PASS:
                continue
            file, line = (finding.where.file, finding.where.line) if finding.where else (name, 1)
            title = _property(f"{finding.rule} {finding.verdict.value}")
            at = f"file={_property(file)},line={max(1, line)},title={title}"
            out.append(f"::{_GITHUB[finding.verdict]} {at}::{_message(_sentence(one))}\n")
    return "".join(out)


def _sentence(one: Judged) -> str:
    finding = one.finding
    return ". ".join(part.rstrip(".") for part in (finding.message, finding.arithmetic, finding.hint) if part)


def ids() -> list[str]:
    """Ids of all shell rules."""
    return [*(rule.id for rule in RULES), *(said.id for said in SAID)]


def explained(name: str) -> str | None:
    """A shell rule in words, None when no shell rule has this id."""
    for rule in RULES:
        if rule.id.lower() == name.lower():
            example = _indented(rule.bad, rule.good)
            return f"{rule.id}  {rule.title}\n\nWhy      {rule.reason}\nRepair   {rule.repair}\n\n{example}"
    for said in SAID:
        if said.id.lower() == name.lower():
            return f"{said.id}  {said.title}\n\nWhy      {said.reason}\nRepair   {said.repair}\n"
    return None


def _indented(bad: str, good: str) -> str:
    parts = (("Breaks it", bad), ("Repaired", good))
    return "\n".join(f"{head}\n" + "".join(f"  {line}\n" for line in text.splitlines()) for head, text in parts)
