"""Changelogs for tests, written out by hand so that no code under test takes part."""

from __future__ import annotations

REPOSITORY = "acme/bench"
URL = f"https://github.com/{REPOSITORY}/pull/"


def entry(key: str, link: str = "XXX", *more: str) -> str:
    """One entry; `more` are further lines without their two leading spaces."""
    lines = [f"- config-keys:\n    - {key}", "description:\n    - note", f"pr-link: {link}", *more]
    return "\n  ".join(lines) + "\n"


def file(*entries: str) -> bytes:
    """Entries separated by one empty line."""
    return "\n".join(entries).encode()


HISTORY = file(entry("one", URL + "1"), entry("two", URL + "2"))
