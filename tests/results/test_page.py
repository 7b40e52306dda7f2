"""The metrics page is complete and current."""

from __future__ import annotations

from pathlib import Path

from ridgeline.results import validity
from ridgeline.results.metrics import METRICS
from ridgeline.results.metrics.page import render

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_the_page_is_what_the_register_says() -> None:
    assert PAGE.read_text() == render(), "write it again: python -m ridgeline.results.metrics.page"


def test_every_metric_and_every_code_is_on_it() -> None:
    text = PAGE.read_text()
    for metric in METRICS.values():
        assert f"### `{metric.name}`: {metric.title}" in text
        assert all(line in text for line in (metric.formula, metric.source, metric.pitfalls))
    assert all(f"| `{code}` |" in text for code in validity.CODES)
