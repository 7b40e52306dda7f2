"""The unified diff of two revisions → the lines it removes and adds, with their numbers. No judgement."""

from __future__ import annotations

import re
from typing import NamedTuple

_HUNK = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class Line(NamedTuple):
    """A line and its number (from 1) in the revision that holds it."""

    number: int
    text: bytes


class Diff(NamedTuple):
    """`removed` counts in base, `added` in head. A binary file has neither."""

    removed: tuple[Line, ...]
    added: tuple[Line, ...]


def read_diff(text: bytes) -> Diff:
    """Read the unified diff of one file, of any context width."""
    removed: list[Line] = []
    added: list[Line] = []
    old = new = 0
    in_hunk = False
    for line in text.split(b"\n"):
        if hunk := _HUNK.match(line):
            old, new, in_hunk = int(hunk[1]), int(hunk[2]), True
        elif not in_hunk:
            continue  # headers: `--- a/file` is no removed line
        elif line.startswith(b"-"):
            removed.append(Line(old, line[1:]))
            old += 1
        elif line.startswith(b"+"):
            added.append(Line(new, line[1:]))
            new += 1
        elif line.startswith(b" "):
            old, new = old + 1, new + 1
    return Diff(tuple(removed), tuple(added))
