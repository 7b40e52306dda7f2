"""The cells a command line asks for: config files, expanded, and filtered by name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.plan.expand import cells as expand
from ridgeline.spec.config import load_configs
from ridgeline.spec.runners import load_runners


def chosen_cells(configs: Sequence[Path], runner_config: Path | None, pattern: str) -> tuple[Cell, ...]:
    """Cells of `configs` whose name matches the glob `pattern`. Raises InputError when none is left."""
    found = expand(load_configs(configs), load_runners(runner_config) if runner_config else None)
    chosen = tuple(cell for cell in found if fnmatchcase(cell.name, pattern))
    if not chosen:
        message = f"no cell matches `{pattern}`" if found else "the search space is empty"
        raise InputError([Problem(message, key="--cells", hint=f"`ridgeline plan {configs[0]}` lists the cells")])
    return chosen
