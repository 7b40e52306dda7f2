"""CODEOWNERS: who owns a path. The last matching line counts, as on GitHub."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

CATCH_ALL = ("*", "/**", "**", "/*", "/")


class Line(NamedTuple):
    """A line of the file. No owners: nobody has to look."""

    pattern: str
    owners: tuple[str, ...]
    number: int

    @property
    def catches_all(self) -> bool:
        return self.pattern in CATCH_ALL


class Owners:
    """A CODEOWNERS file."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = tuple(lines)

    @classmethod
    def read(cls, text: str) -> Owners:
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            parts = line.split("#", 1)[0].split()
            if parts and len(parts[0]) <= 1000:
                lines.append(Line(parts[0], tuple(owner.lower() for owner in parts[1:]), number))
        return cls(lines)

    @cached_property
    def people(self) -> frozenset[str]:
        """Everybody who owns something, teams as they are written."""
        return frozenset(owner for line in self.lines for owner in line.owners)

    def of(self, path: str) -> Line | None:
        """The line that decides about a path; None when nobody owns it."""
        return next((line for line in reversed(self.lines) if _matches(line.pattern, path)), None)


def _matches(pattern: str, path: str) -> bool:
    return re.fullmatch(_expression(pattern), path) is not None


def _expression(pattern: str) -> str:
    """gitignore's rules without character classes and negation, which CODEOWNERS does not have."""
    anchored = "/" in pattern.rstrip("/")
    body = pattern.strip("/")
    parts = []
    for piece in re.split(r"(\*\*/|/\*\*|\*\*|\*|\?)", body):
        parts.append(
            {"**/": "(?:[^/]+/)*", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
        )
    below = "" if pattern.endswith("*") and "/" in body and not pattern.endswith("**") else "(?:/.*)?"
    tail = "/.*" if pattern.endswith("/") and body else below
    return ("" if anchored else "(?:.*/)?") + "".join(parts) + tail
