"""A scatter with frontiers in plain characters: for a terminal, a log, a mail.

In: marks and lines in data coordinates. Out: lines of text. Later marks lie over earlier ones, marks over lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Mark(NamedTuple):
    """One character at a place."""

    x: float
    y: float
    text: str


def draw(
    marks: Sequence[Mark],
    lines: Sequence[Sequence[tuple[float, float]]],
    *,
    x_title: str,
    y_title: str,
    width: int = 72,
    height: int = 20,
) -> list[str]:
    """The plot area is `width` x `height` characters; axes with three ticks each are drawn around it."""
    xs = [mark.x for mark in marks] or [0.0]
    ys = [mark.y for mark in marks] or [0.0]
    x_low, x_high = _range(xs)
    y_low, y_high = _range(ys)
    grid = [[" "] * width for _ in range(height)]

    def place(x: float, y: float) -> tuple[int, int]:
        column = round((x - x_low) / (x_high - x_low) * (width - 1))
        row = round((y - y_low) / (y_high - y_low) * (height - 1))
        return height - 1 - row, column

    for line in lines:
        for (x0, y0), (x1, y1) in pairwise(line):
            (row0, column0), (row1, column1) = place(x0, y0), place(x1, y1)
            steps = max(abs(row1 - row0), abs(column1 - column0), 1)
            for step in range(steps + 1):
                t = step / steps
                grid[round(row0 + (row1 - row0) * t)][round(column0 + (column1 - column0) * t)] = "·"
    for mark in marks:
        row, column = place(mark.x, mark.y)
        grid[row][column] = mark.text

    ticks = {0: tick(y_high), (height - 1) // 2: tick((y_low + y_high) / 2), height - 1: tick(y_low)}
    margin = max(map(len, ticks.values()))
    found = [y_title]
    found += [f"{ticks.get(row, ''):>{margin}} ┤{''.join(cells).rstrip()}" for row, cells in enumerate(grid)]
    found.append(" " * margin + " └" + "─" * width)
    low, middle, high = tick(x_low), tick((x_low + x_high) / 2), tick(x_high)
    gap = width - len(low) - len(middle) - len(high)
    found.append(" " * (margin + 2) + low + " " * (gap // 2) + middle + " " * (gap - gap // 2) + high)
    found.append(" " * (margin + 2) + x_title.rjust(width))
    return found


def tick(value: float) -> str:
    """Four significant digits, no exponent for what people read as a plain number."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis: a little wider than the data, from zero where zero is near, never empty."""
    low, high = min(values), max(values)
    if low >= 0 and low <= 0.4 * high:
        low = 0.0
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        return low - pad, high + pad
    pad = 0.04 * (high - low)
    return (low if low == 0 else low - pad), high + pad
