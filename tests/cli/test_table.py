"""Columns of a table line up, and numbers stand under each other."""

from __future__ import annotations

from ridgeline.cli.table import table


def test_columns() -> None:
    assert table([("name", "n"), ("a", "5"), ("longer", "1234")]) == ["name       n", "a          5", "longer  1234"]
    assert table([("a", "b"), ("x", "")], indent=2) == ["  a  b", "  x"]
    assert table([]) == []
