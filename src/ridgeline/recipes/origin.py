"""Where a value of a recipe comes from: a line of the recipe, or a line of the user's config.

Checks show the origin beside a value, and `--fix` changes it there. So a recipe marks its values: `here(0.86)` is a
choice of the recipe on that line, `asked(8, cell)` is what the cell asks for.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from ridgeline.core.cell import Cell
from ridgeline.core.where import Where

T = TypeVar("T")

_PACKAGE = "/ridgeline/recipes/"


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """A value and its origin."""

    of: T
    origin: Where | None = None


Option: TypeAlias = T | Value[T] | None


def here(value: T) -> Value[T]:
    """`value`, chosen on the line of a recipe that calls this."""
    frame = sys._getframe(1)
    return Value(value, Where(_short(frame.f_code.co_filename), frame.f_lineno))


def asked(value: T, cell: Cell) -> Value[T]:
    """`value`, as the cell's arm in the config asks for it."""
    return Value(value, cell.where)


def plain(option: Option[T]) -> T | None:
    """The value without its origin."""
    return option.of if isinstance(option, Value) else option


def _short(file: str) -> str:
    """`recipes/NAME.py` for what is shipped, the path as Python knows it for others."""
    normal = file.replace("\\", "/")
    return f"recipes/{normal.rsplit(_PACKAGE, 1)[1]}" if _PACKAGE in normal else file
