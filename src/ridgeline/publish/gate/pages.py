"""A page per gate rule, made from the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ridgeline.publish.gate.rule import RULES, Rule


def page(rule: Rule) -> str:
    """One rule as Markdown."""
    parts = [
        f"# {rule.id}: {rule.title}",
        f"`{rule.name}`, {rule.severity.value}",
        f"**Why.** {rule.why}",
        f"**How it is decided.** {rule.decides}",
        f"**What to do.** {rule.mend[0].upper()}{rule.mend[1:]}.",
    ]
    if rule.example:
        parts.append(f"**Example.** {rule.example}")
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """The list of all rules."""
    rows = [f"| [{rule.id}]({rule.id}.md) | {rule.severity.value} | {rule.title} |" for rule in RULES.values()]
    head = [
        "# Rules of the pull-request gate",
        "",
        "<!-- Written by `make docs`; a test holds it equal to the catalogue. -->",
        "",
        "A blocking remark keeps the gate shut (exit 1), a warning does not. Unknown: nothing known decides it,",
        "which is never a pass. Preflight findings keep their own ids; `ridgeline check --explain ID` tells them.",
        "",
        "| rule | severity | |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "gate/README.md": index,
    **{f"gate/{rule.id}.md": partial(page, rule) for rule in RULES.values()},
}
