"""Typed reads from a JSON object that collect every problem instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where


class Reader:
    """Reads keys of one object. `done()` raises InputError when anything asked for was missing or of a wrong type.

    Alternative spellings of one fact are given together: the first that is present wins.
    """

    def __init__(self, data: Mapping[str, Any], file: str) -> None:
        self.data = data
        self.file = file
        self.problems: list[Problem] = []

    def get(self, *keys: str) -> Any:
        """The first value that is present and not null, else None."""
        return next((self.data[key] for key in keys if self.data.get(key) is not None), None)

    def integer(self, *keys: str) -> int:
        """A required positive integer; 1 (with a problem noted) when it is not there."""
        value = self.get(*keys)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        what = "is missing" if value is None else f"must be a positive integer, is {value!r}"
        self.problems.append(Problem(what, Where(self.file), keys[0]))
        return 1

    def optional(self, *keys: str) -> int | None:
        """A positive integer, or None when absent, null or 0."""
        return self.integer(*keys) if self.get(*keys) not in (None, 0) else None

    def count(self, *keys: str) -> int:
        """A non-negative integer, 0 when absent or null: for parts a config leaves out when there are none."""
        return self.optional(*keys) or 0

    def refuse(self, message: str, key: str) -> None:
        self.problems.append(Problem(message, Where(self.file), key))

    def done(self) -> None:
        if self.problems:
            raise InputError(self.problems)
