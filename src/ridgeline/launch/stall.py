"""Does a process tree still do anything, and does it get anywhere?

It moves while its log grows, it uses CPU, or reads and writes. It gets on while its log grows or it reads and writes:
CPU alone may be a loop that never ends. Looks are taken once a second and cost a walk over /proc.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

CPU_MOVES = 0.1  # of one core: less is a poll loop, not work
IO_MOVES = 256 << 10  # bytes a second, likewise


class Effort(NamedTuple):
    """What a process tree has done so far: bytes of log, CPU seconds, bytes read and written."""

    log: int
    cpu_s: float
    io: int


class Still(NamedTuple):
    """Seconds since anything moved, and since it got on."""

    moved_s: float
    got_on_s: float


def effort(root: int, log: Path) -> Effort:
    """The effort of a process (guardian included) and everything below it."""
    cpu, moved = 0.0, 0
    for process in tree(root):
        with contextlib.suppress(psutil.Error, OSError):
            times = process.cpu_times()
            cpu += times.user + times.system
            counters = process.io_counters()
            # pages of a mapped file are in the second pair only, what the page cache had in the first only
            moved += max(counters.read_chars, counters.read_bytes) + max(counters.write_chars, counters.write_bytes)
    size = log.stat().st_size if log.exists() else 0
    return Effort(size, cpu, moved)


def tree(root: int) -> list[psutil.Process]:
    """The process and its descendants, those that are gone left out."""
    try:
        first = psutil.Process(root)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []


@dataclass(slots=True)
class StallWatch:
    """Says for how long nothing has moved. `look` gives the effort so far; `clock` seconds."""

    look: Callable[[], Effort]
    clock: Callable[[], float]
    _seen: Effort | None = None  # at the last look
    _at: float = 0.0
    _moved_at: float = 0.0
    _got_on_at: float = 0.0

    @property
    def io(self) -> int:
        """Bytes read and written, at the last look."""
        return self._seen.io if self._seen else 0

    def still(self) -> Still:
        """How long the tree has been still, as far as the looks tell."""
        now, before, current = self.clock(), self._seen, self.look()
        passed, self._seen, self._at = now - self._at, current, now
        got_on = (
            before is None
            or current.cpu_s < before.cpu_s  # a process is gone: that is something too
            or current.log != before.log
            or abs(current.io - before.io) >= IO_MOVES * passed > 0
        )
        if got_on:
            self._got_on_at = now
        if got_on or (before is not None and current.cpu_s - before.cpu_s >= CPU_MOVES * passed > 0):
            self._moved_at = now
        return Still(now - self._moved_at, now - self._got_on_at)

    def moved(self) -> None:
        """Somebody else saw it move."""
        self._moved_at = self.clock()
