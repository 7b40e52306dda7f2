"""The pages of the shell rules, written from the rules: docs/checks/ holds this text, kept current by a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ridgeline.plan.shell.lint import MOST_BYTES, RULES
from ridgeline.plan.shell.rule import Rule

_MADE = "<!-- Written by `make docs`; a test holds it equal to the rule. -->"


class Said(NamedTuple):
    """A finding that is no rule about text: what a dry run showed, or what could not be read."""

    id: str
    title: str
    verdict: str
    reason: str
    repair: str


SAID = (
    Said(
        "L00",
        "The script was not read whole",
        "UNKNOWN",
        f"What does not parse as shell, or is larger than {MOST_BYTES // 1024} KiB, is not judged: findings may be "
        "missing.",
        "`bash -n FILE` says whether the shell reads it.",
    ),
    Said(
        "D1",
        "A service outlives the script",
        "FAIL; UNKNOWN when the time limit ended the script",
        "In the dry run its stub was still there after the script had ended. What the lint suspects, this shows.",
        "Stop it in an EXIT handler.",
    ),
    Said(
        "D2",
        "The dry run started no engine",
        "UNKNOWN",
        "The script ended, or ran into the time limit, before it launched a server: no check of the engine applies.",
        "Give what it needs as environment, and the files it includes beside it.",
    ),
    Said(
        "D3",
        "Something nothing stands in for",
        "WARN",
        "A program without a stub, or an included file that was not given, counts as done, without output. What the "
        "script would have made of its output is not known.",
        "Keep included files in the script's folder or above it, inside the repository.",
    ),
)


def page(rule: Rule) -> str:
    """One rule's page."""
    return (
        f"# {rule.id}: {rule.title}\n\n{_MADE}\n\n{rule.reason}\n\nVerdict: {rule.verdict.value.upper()}\n\n"
        f"## Breaks it\n\n```bash\n{rule.bad}```\n\n## Repair\n\n{rule.repair}\n\n```bash\n{rule.good}```\n"
    )


def said(finding: Said) -> str:
    """The page of a finding that has no example."""
    return (
        f"# {finding.id}: {finding.title}\n\n{_MADE}\n\n{finding.reason}\n\nVerdict: {finding.verdict}\n\n"
        f"## Repair\n\n{finding.repair}\n"
    )


def index() -> str:
    """All of them."""
    rows = "".join(f"| [{r.id}]({r.id}.md) | {r.title} | {r.verdict.value.upper()} |\n" for r in RULES)
    rows += "".join(f"| [{s.id}]({s.id}.md) | {s.title} | {s.verdict} |\n" for s in SAID)
    return (
        f"# Launch scripts\n\n{_MADE}\n\nWhat `ridgeline check --shell` asks of a launch script. L rules read its "
        "text; D findings come from a dry run. [How to](../guides/shell-recipes.md)\n\n"
        f"| id | what | verdict |\n| --- | --- | --- |\n{rows}"
    )


PAGES: Mapping[str, Callable[[], str]] = {
    "checks/shell.md": index,
    **{f"checks/{rule.id}.md": partial(page, rule) for rule in RULES},
    **{f"checks/{finding.id}.md": partial(said, finding) for finding in SAID},
}
