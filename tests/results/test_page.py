"""The metrics page is complete and current."""

from __future__ import annotations

from pathlib import Path

from ridgeline.core.point import Point
from ridgeline.results import formats, records, samples, validity
from ridgeline.results.metrics import METRICS
from ridgeline.results.metrics.page import render
from ridgeline.results.runfolder import Failure, RunHeader

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
FOLDER = PAGE.with_name("run-folder.md")


def test_the_page_is_what_the_register_says() -> None:
    assert PAGE.read_text() == render(), "write it again: python -m ridgeline.results.metrics.page"


def test_every_metric_and_every_code_is_on_it() -> None:
    text = PAGE.read_text()
    for metric in METRICS.values():
        assert f"### `{metric.name}`: {metric.title}" in text
        assert all(line in text for line in (metric.formula, metric.source, metric.pitfalls))
    assert all(f"| `{code}` |" in text for code in validity.CODES)


def test_the_formats_are_documented_with_their_versions_and_fields() -> None:
    text = FOLDER.read_text()
    for format in (formats.RUN, formats.CELL, formats.DEPLOYMENT, formats.POINT, formats.FAILURE):
        assert f"`{format.name}`, version {format.version}" in text
    assert f"`ridgeline.records`, version {records.VERSION}" in text
    assert f"`ridgeline.samples`, version {samples.VERSION}" in text
    columns = [*records.FIELDS, *samples.SCHEMA.names]
    fields = [name for kind in (Point, RunHeader, Failure) for name in kind.__dataclass_fields__]
    assert [name for name in (*columns, *fields) if f"`{name}`" not in text] == []
