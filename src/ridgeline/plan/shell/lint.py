"""Lints launch scripts: bytes in, findings out, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ridgeline.core.finding import Finding, Verdict
from ridgeline.core.where import Where
from ridgeline.plan.shell.facts import Facts
from ridgeline.plan.shell.rule import Rule
from ridgeline.plan.shell.rules import hygiene, jobs, traps, variables
from ridgeline.plan.shell.script import Script, parse

MOST_BYTES = 128 * 1024  # launch scripts have at most some tens of KiB; what is larger is not one
MOST_HITS = 100  # of one rule: nobody reads more
UNREAD = "L00"

RULES: tuple[Rule, ...] = tuple(
    sorted((*traps.RULES, *jobs.RULES, *variables.RULES, *hygiene.RULES), key=lambda rule: rule.id)
)


def lint(source: bytes, file: str) -> list[Finding]:
    """Findings of every rule, in the order of the lines. Never raises: what cannot be read is a finding (L00)."""
    if len(source) > MOST_BYTES:
        message = f"not linted: {len(source):,} bytes are more than a launch script has ({MOST_BYTES:,})"
        return [Finding(UNREAD, Verdict.UNKNOWN, message, where=Where(file))]
    script = parse(source, file)
    facts = Facts(script)
    found = [*_unparsed(script)]
    for rule in RULES:
        for hit in islice(rule.find(facts), MOST_HITS):
            found.append(
                Finding(
                    rule.id,
                    rule.verdict,
                    f"{rule.title}: {hit.message}",
                    arithmetic=rule.reason,
                    where=script.where(hit.node),
                    hint=rule.repair,
                )
            )
    return sorted(found, key=lambda finding: (finding.where.line if finding.where else 0, finding.rule))


def _unparsed(script: Script) -> Iterator[Finding]:
    """The first place that is not shell: rules see only what stands around it."""
    for node in script.nodes:
        if node.kind == "ERROR":
            text = " ".join(node.text.split())[:40]
            yield Finding(
                UNREAD,
                Verdict.UNKNOWN,
                f"not understood as shell: `{text}`; findings below it may be missing",
                where=script.where(node),
                hint="`bash -n FILE` says whether the shell reads it",
            )
            return
