"""Typed reads of a question's inputs: every problem at once, unknown names refused."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ridgeline.core.errors import InputError, Problem


class Inputs:
    """Reads one mapping. `done()` raises InputError when anything was wrong or an unknown name was given."""

    def __init__(self, data: Mapping[str, Any], known: Iterable[str]) -> None:
        self.data = data
        self.problems: list[Problem] = []
        names = tuple(known)
        for key in data:
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1)
                hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(names)}"
                self.problems.append(Problem("is not an input", key=key, hint=hint))

    def integer(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """An integer of at least `least`; required when there is no default."""
        value = self.data.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        what = "is required" if value is None else f"must be an integer of at least {least}, is {value!r}"
        self.problems.append(Problem(what, key=key))
        return max(1, least)

    def optional(self, key: str, *, least: int = 0) -> int | None:
        """An integer, or None when absent or null."""
        return None if self.data.get(key) is None else self.integer(key, least=least)

    def number(self, key: str) -> float | None:
        """A number, or None when absent or null."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        self.problems.append(Problem(f"must be a number, is {value!r}", key=key))
        return None

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.data.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.problems.append(Problem(f"must be true or false, is {value!r}", key=key))
        return default

    def text(self, key: str, default: str | None = None, *, among: Iterable[str] = ()) -> str:
        """A text, one of `among` when that is given; required when there is no default."""
        value = self.data.get(key)
        if value is None and default is not None:
            return default
        allowed = tuple(among)
        if isinstance(value, str) and (not allowed or value in allowed):
            return value
        what = "is required" if value is None else f"must be {'one of ' + ', '.join(allowed) if allowed else 'text'}"
        self.problems.append(Problem(what if value is None else f"{what}, is {value!r}", key=key))
        return default or ""

    def integers(self, key: str) -> list[int] | None:
        """A list of positive integers, or None when absent or null."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            return value
        self.problems.append(Problem(f"must be a list of integers, is {value!r}", key=key))
        return None

    def refuse(self, message: str, key: str) -> None:
        self.problems.append(Problem(message, key=key))

    def done(self) -> None:
        if self.problems:
            raise InputError(self.problems)
