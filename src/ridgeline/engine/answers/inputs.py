"""Typed reads of a question's inputs: every problem at once, unknown names refused."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.units import MOST, shown

T = TypeVar("T")


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

    def integer(self, key: str, default: int | None = None, *, least: int = 0, most: int = MOST) -> int:
        """An integer from `least` to `most`; required when there is no default."""
        value = self.data.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        large = isinstance(value, int) and value > most
        bound = f"at most {most}" if large else f"at least {least}"
        what = "is required" if value is None else f"must be an integer of {bound}, is {shown(value)}"
        self.problems.append(Problem(what, key=key))
        return max(1, least)

    def optional(self, key: str, *, least: int = 0, most: int = MOST) -> int | None:
        """An integer, or None when absent or null."""
        return None if self.data.get(key) is None else self.integer(key, least=least, most=most)

    def number(self, key: str) -> float | None:
        """A number, or None when absent or null."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MOST:
            return float(value)
        what = "must be a number" if not isinstance(value, int) else f"must be a number of at most {MOST}"
        self.problems.append(Problem(f"{what}, is {shown(value)}", key=key))
        return None

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.data.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.problems.append(Problem(f"must be true or false, is {shown(value)}", key=key))
        return default

    def text(self, key: str, default: str | None = None, *, among: Iterable[str] = ()) -> str:
        """A text, one of `among` when that is given; required when there is no default."""
        value = self.data.get(key)
        if value is None and default is not None:
            return default
        allowed = tuple(among)
        if isinstance(value, str) and (value in allowed if allowed else value or default is not None):
            return value
        value = None if value == "" and default is None else value
        what = "is required" if value is None else f"must be {'one of ' + ', '.join(allowed) if allowed else 'text'}"
        self.problems.append(Problem(what if value is None else f"{what}, is {shown(value)}", key=key))
        return default or ""

    def integers(self, key: str) -> list[int] | None:
        """A list of positive integers, or None when absent or null."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(type(item) is int and 0 < item <= MOST for item in value):
            return value
        self.problems.append(Problem(f"must be a list of positive integers, is {shown(value)}", key=key))
        return None

    def found(self, look: Callable[[], T]) -> T | None:
        """What `look` finds; None when it raises InputError, whose problems are told with the others."""
        try:
            return look()
        except InputError as error:
            self.problems += error.problems
            return None

    def refuse(self, message: str, key: str) -> None:
        self.problems.append(Problem(message, key=key))

    def done(self) -> None:
        if self.problems:
            raise InputError(self.problems)
