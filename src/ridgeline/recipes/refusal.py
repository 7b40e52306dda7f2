"""What a recipe cannot write. A check turns it into UNKNOWN; a sweep says so before anything is started."""

from __future__ import annotations

from ridgeline.core.cell import Cell
from ridgeline.core.errors import EnvironmentFailed


class CannotRender(EnvironmentFailed):
    """The cell asks for something that this recipe has no known flags for. `what` names it."""

    def __init__(self, cell: Cell, what: str, *, hint: str | None = None) -> None:
        super().__init__(f"the recipe does not know how to launch {what} (cell {cell.name})", hint=hint)
        self.what = what
