"""The shape of a log line that proves something."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

Value = float | str


class Shape(NamedTuple):
    """A line with `needle` in it that matches `pattern` proves `claim` with the value that `read` makes of the match.

    The needle is looked for first: logs have millions of lines and most prove nothing. `seen`: a log of a real engine
    with this line has been read by this parser; docs/reference/evidence.md marks the others. `every`: each such line
    counts; else a value is kept once a file, where it came first.
    """

    claim: str
    needle: bytes
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], Value]
    seen: bool = False
    every: bool = False
    phase: str = ""  # of a start, that such a line shows to be under way (phases.py)


def number(match: re.Match[str]) -> float:
    """The first group as a number; commas between thousands are left out."""
    return float(match[1].replace(",", ""))


def text(match: re.Match[str]) -> str:
    """The first group as it stands."""
    return match[1].strip()


def whole(match: re.Match[str]) -> str:
    """The matched part of the line: for sentences whose presence is the proof."""
    return match[0].strip()


def shape(
    claim: str,
    pattern: str,
    read: Callable[[re.Match[str]], Value] = number,
    *,
    needle: str,
    seen: bool = False,
    every: bool = False,
    phase: str = "",
) -> Shape:
    """A shape from plain text."""
    return Shape(claim, needle.encode(), re.compile(pattern), read, seen, every, phase)
