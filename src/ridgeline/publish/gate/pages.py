"""A page per gate rule, made from the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from ridgeline.publish.gate.policy import POLICY, example
from ridgeline.publish.gate.rule import RULES, Rule
from ridgeline.spec.schema import Kind, Table


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


def policy() -> str:
    """The fields of a policy file, and InferenceX's as the example."""
    parts = [
        "# The gate's policy file",
        "<!-- Written by `make docs`; a test holds it equal to the checker's tables. -->",
        "`ridgeline pr gate --policy FILE`; without the option the example below is used. Unknown keys are refused,\n"
        "and every problem is named at its line. In patterns `*` crosses folders.",
    ]
    for table in _tables(POLICY):
        rows = [
            f"| `{field.name}` | {field.kind.label} | {'yes' if field.required else ''} | {field.doc} |"
            for field in table.fields.values()
        ]
        parts += [f"## {table.name}", "| key | value | required | |\n|---|---|---|---|\n" + "\n".join(rows)]
    return "\n\n".join([*parts, "## Example", f"```yaml\n{example().decode()}```"]) + "\n"


def _tables(table: Table) -> Iterator[Table]:
    yield table
    for field in table.fields.values():
        kind: Kind | None = field.kind
        while kind is not None and kind.table is None:
            kind = kind.item or kind.values
        if kind is not None and kind.table is not None:
            yield from _tables(kind.table)


PAGES: Mapping[str, Callable[[], str]] = {
    "gate/README.md": index,
    "gate/policy.md": policy,
    **{f"gate/{rule.id}.md": partial(page, rule) for rule in RULES.values()},
}
