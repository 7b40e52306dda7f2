from __future__ import annotations

from pathlib import Path

from ridgeline.spec import master, reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "config.md"


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == reference.text(), "python -m ridgeline.spec.reference > docs/reference/config.md"


def test_every_field_and_rule_is_on_the_page() -> None:
    page = PAGE.read_text()
    for table in (master.SINGLE, master.MULTI, master.AGENTIC_ENTRY, master.WORKER, master.BACKEND):
        for field in table.fields.values():
            assert f"`{field.name}`" in page
        for rule in table.rules:
            assert rule.doc in page
    assert all(rule in page for rule in master.ENTRY_RULES)
