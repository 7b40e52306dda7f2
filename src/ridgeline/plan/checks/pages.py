"""The pages of the check catalogue, written from the rules: docs/checks/ holds this text, kept current by a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ridgeline.plan.checks.catalogue import CATALOGUE, FAMILIES
from ridgeline.plan.checks.rule import Rule

_MADE = "<!-- Written by `make docs`; a test holds it equal to the rule. -->"


def page(rule: Rule) -> str:
    """One rule's page."""
    doc = " ".join((rule.check.__doc__ or "").split()).partition(": ")[2]
    return (
        f"# {rule.id}: {rule.title}\n\n{_MADE}\n\n{doc[:1].upper()}{doc[1:]}\n\n## Why\n\n{rule.why}\n\n"
        f"## Worked example\n\n{rule.example}\n\n## Where the rule was read\n\n{rule.source}\n\n"
        f'## Accept it\n\n```yaml\nwaivers:\n- {{rule: {rule.id}, cells: "*", reason: why, until: 2026-12-31}}\n```\n'
    )


def index() -> str:
    """All rules by family."""
    parts = [
        f"# Checks\n\n{_MADE}\n\nWhat `ridgeline check` asks of every cell. Verdicts are PASS < WARN < UNKNOWN < FAIL; "
        "the worst finding that no waiver accepts is the cell's. UNKNOWN means that nothing observed supports an "
        "answer: record a start, or dump the build, and it becomes one.\n"
    ]
    for family, rules in FAMILIES.items():
        rows = "".join(f"| [{rule.id}]({rule.id}.md) | {rule.title} | {rule.why} |\n" for rule in rules)
        parts.append(f"\n## {family.capitalize()}\n\n| id | rule | why |\n| --- | --- | --- |\n{rows}")
    return "".join(parts)


PAGES: Mapping[str, Callable[[], str]] = {
    "checks/README.md": index,
    **{f"checks/{rule.id}.md": partial(page, rule) for rule in CATALOGUE},
}
