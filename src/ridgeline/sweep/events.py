"""What a sweep says while it runs. The command line draws it; tests read it; nothing depends on it being heard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ridgeline.core.cell import Cell
from ridgeline.core.point import Point
from ridgeline.replay.progress import Progress

Kind = Literal["begin", "skip", "start", "ready", "replay", "progress", "done", "failed", "left", "chosen", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One step of one cell. `index` counts cells from 1, of `total`; `repeat`: None where each is measured once."""

    kind: Kind
    index: int
    total: int
    cell: Cell | None = None
    text: str = ""
    progress: Progress | None = None
    point: Point | None = None
    repeat: int | None = None

    @property
    def title(self) -> str:
        """What is under way: the cell, and which repeat of it."""
        name = self.cell.name if self.cell else ""
        return f"{name}, repeat {self.repeat}" if self.repeat is not None else name


Listener = Callable[[Event], None]


def silence(_: Event) -> None:
    """A listener that does not listen."""
