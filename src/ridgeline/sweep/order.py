"""In which order the cells of a sweep run: by engine, or as a planner picks the next one from what was measured.

A sweep asks `next` for a cell, runs it, and says what became of it; cells of one deployment that follow each other
share an engine start. Indices count the sweep's cells from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ridgeline.core.point import Point
from ridgeline.sweep.groups import Group, HasDeployment, grouped


class Order(Protocol):
    """Decides what comes next."""

    def next(self) -> int | None:
        """The cell to run now, the same one until it is `done` or `failed`; None: nothing is left to do."""

    def done(self, index: int, point: Point | None) -> None:
        """A cell is stored; `point` None: it was not timed but scored."""

    def failed(self, index: int) -> None:
        """A cell failed and is not to be tried again; its engine is gone."""

    def drop(self, index: int) -> list[int]:
        """Cells that were still to come on the deployment of `index` are not to be tried; which."""


@dataclass(slots=True)
class InOrder:
    """Engine after engine, in the order of their first cells. `fits` says whether there is time for a cell, given
    whether its engine would have to be started; one that does not fit is left out."""

    groups: Sequence[Group[HasDeployment]]
    fits: Callable[[int, bool], bool] = lambda index, starts: True
    _queue: list[tuple[int, str]] = field(init=False)
    _running: str | None = None

    def __post_init__(self) -> None:
        self._queue = [(index, group.deployment.digest) for group in self.groups for index, _ in group.members]

    def next(self) -> int | None:
        while self._queue:
            index, digest = self._queue[0]
            if self.fits(index, digest != self._running):
                return index
            self._queue.pop(0)
        return None

    def done(self, index: int, point: Point | None) -> None:
        digest = next(own for found, own in self._queue if found == index)
        self._queue = [entry for entry in self._queue if entry[0] != index]
        self._running = digest

    def failed(self, index: int) -> None:
        self._queue = [entry for entry in self._queue if entry[0] != index]
        self._running = None

    def drop(self, index: int) -> list[int]:
        digest = next((own for found, own in self._queue if found == index), None)
        gone = [found for found, own in self._queue if own == digest and found != index]
        self._queue = [entry for entry in self._queue if entry[0] not in gone]
        return gone


def in_order(
    planned: Sequence[tuple[int, HasDeployment]], fits: Callable[[int, bool], bool] = lambda index, starts: True
) -> InOrder:
    """Cells by engine."""
    return InOrder(grouped(planned), fits)
