"""Values that no engine would take are refused where the recipe is written, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.recipes.origin import Value, plain


def refuse_wrong(
    options: Any,
    *,
    positive: Sequence[str] = (),
    fractions: Sequence[str] = (),
    choices: dict[str, Sequence[str]] | None = None,
) -> None:
    """Raises InputError with every field that is not a positive integer, a fraction in (0, 1], or a known choice."""
    problems: list[Problem] = []

    def wrong(name: str, must: str) -> None:
        option = getattr(options, name)
        where = option.origin if isinstance(option, Value) else None
        problems.append(Problem(f"must be {must}, is {plain(option)!r}", where, name))

    for name in positive:
        value = plain(getattr(options, name))
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            wrong(name, "a positive integer")
    for name in fractions:
        value = plain(getattr(options, name))
        if value is not None and not 0 < value <= 1:
            wrong(name, "above 0 and at most 1")
    for name, known in (choices or {}).items():
        value = plain(getattr(options, name))
        if value is not None and value not in known:
            wrong(name, f"one of {', '.join(known)}")
    if problems:
        raise InputError(problems)
