"""argparse for verbs, with exit codes instead of exits."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ridgeline.core.errors import InputError, Problem

if TYPE_CHECKING:
    from ridgeline.sweep.diagnosis import CellState


def parsed(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace | int:
    """The arguments, or the exit code after argparse has printed what is wrong, or the help."""
    try:
        return parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)


def chosen(cells: Sequence[CellState], pattern: str | None) -> list[CellState]:
    """Cells by name, glob, or the beginning of a run key. Raises InputError when none matches."""
    from fnmatch import fnmatchcase

    if pattern is None:
        return list(cells)
    found = [c for c in cells if fnmatchcase(c.name, pattern) or c.name == pattern or c.run_key.startswith(pattern)]
    if not found:
        names = ", ".join(cell.name for cell in cells[:8])
        raise InputError([Problem(f"no cell of this run matches `{pattern}`", key="CELL", hint=f"there are: {names}")])
    return found
