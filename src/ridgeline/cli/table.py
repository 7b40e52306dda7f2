"""Rows of text as lines of columns, for terminals and for pipes alike."""

from __future__ import annotations

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], indent: int = 0) -> list[str]:
    """Lines with every column as wide as its widest cell. Columns of numbers are set to the right under their head."""
    if not rows:
        return []
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    right = [all(_is_number(row[place]) for row in rows[1:]) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            f"{cell:>{width}}" if to_right else f"{cell:<{width}}"
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return lines


def _is_number(text: str) -> bool:
    return text in ("", "-") or text.lstrip("+-").replace(".", "", 1).replace("e-", "").replace("e+", "").isdigit()
