"""Does a process tree still do anything? Its log grows, it uses CPU, or it reads and writes.

A start that does none of these for long hangs, however much of its time limit is left. One that spins is only caught by
the limit. Before a hanging tree is killed, what every process is doing is written down: stacks by py-spy where it is
installed, else what the kernel says it waits for.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

CPU_MOVES_S = 0.5  # of CPU time between two looks: less is a poll loop, not work
IO_MOVES_BYTES = 1 << 20  # likewise for reading and writing
PY_SPY_TIMEOUT_S = 20.0


class Effort(NamedTuple):
    """What a process tree has done so far: bytes of log, CPU seconds, bytes read and written."""

    log: int
    cpu_s: float
    io: int


def effort(root: int, log: Path) -> Effort:
    """The effort of a process (guardian included) and everything below it."""
    cpu, moved = 0.0, 0
    for process in tree(root):
        with contextlib.suppress(psutil.Error, OSError):
            times = process.cpu_times()
            cpu += times.user + times.system
            counters = process.io_counters()
            moved += counters.read_chars + counters.write_chars
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
    """Says how long nothing has moved. `look` gives the effort so far; `clock` seconds."""

    look: Callable[[], Effort]
    clock: Callable[[], float]
    _seen: Effort | None = None
    _moved_at: float = 0.0

    def still_s(self) -> float:
        """Seconds since something last moved, as far as the looks tell."""
        now, before, current = self.clock(), self._seen, self.look()
        if (
            before is None
            or current.log != before.log
            or current.cpu_s - before.cpu_s >= CPU_MOVES_S
            or current.io - before.io >= IO_MOVES_BYTES
            or current.cpu_s < before.cpu_s  # a process ended: that is something too
        ):
            self._seen, self._moved_at = current, now
        return now - self._moved_at


def stacks(root: int) -> str:
    """What every process of a tree is doing, as text for people."""
    spy = shutil.which("py-spy") or _beside("py-spy")
    parts = []
    for process in tree(root)[1:]:  # the guardian is ours
        with contextlib.suppress(psutil.Error, OSError):
            words = " ".join(process.cmdline())[:300]
            parts.append(f"== pid {process.pid}: {words}\n{_waits_for(process)}")
            if spy and "python" in process.name():
                parts[-1] += _dump(spy, process.pid)
    if not spy:
        parts.append("py-spy is not installed, so there are no Python stacks: `pip install py-spy`\n")
    return "\n".join(parts)


def _waits_for(process: psutil.Process) -> str:
    place = Path(f"/proc/{process.pid}")
    waiting = "unknown"
    with contextlib.suppress(OSError):
        waiting = (place / "wchan").read_text() or "0"
    lines = [f"state {process.status()}, {process.num_threads()} threads, waits in {waiting}"]
    with contextlib.suppress(OSError):
        lines += [f"  {line}" for line in (place / "stack").read_text().splitlines()[:12]]
    return "\n".join(lines) + "\n"


def _dump(spy: str, pid: int) -> str:
    try:
        done = subprocess.run(
            [spy, "dump", "--pid", str(pid)], capture_output=True, text=True, timeout=PY_SPY_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"py-spy: {error}\n"
    return done.stdout or f"py-spy: {done.stderr.strip()}\n"


def _beside(name: str) -> str | None:
    path = Path(sys.executable).with_name(name)
    return str(path) if path.exists() else None
