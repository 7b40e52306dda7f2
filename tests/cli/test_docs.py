"""Pages that are made from the code are current, and every verb and metric is on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.cli.docs import PAGES
from ridgeline.cli.main import VERBS
from ridgeline.results.metrics import METRICS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_verb_is_documented() -> None:
    page = (DOCS / "reference/cli.md").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f"\n## {verb}\n" in page
        assert f"ridgeline {verb}" in page


def test_every_metric_states_unit_formula_source_and_pitfalls() -> None:
    page = (DOCS / "reference/metrics.md").read_text(encoding="utf-8")
    for metric in METRICS.values():
        assert f"`{metric.name}`" in page
        assert metric.formula
        assert metric.source
        assert metric.pitfalls
