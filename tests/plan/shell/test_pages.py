"""A page for every rule, written by `make docs`; tests/cli/test_docs.py holds them current."""

from __future__ import annotations

from ridgeline.cli.docs import PAGES as WRITTEN
from ridgeline.plan.shell.lint import RULES
from ridgeline.plan.shell.pages import PAGES, SAID


def test_make_docs_writes_them() -> None:
    assert PAGES.keys() <= WRITTEN.keys()


def test_every_rule_and_finding_has_one() -> None:
    assert {f"checks/{one.id}.md" for one in (*RULES, *SAID)} | {"checks/shell.md"} == set(PAGES)
