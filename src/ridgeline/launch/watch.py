"""Watches one service while it starts: follows its log through the phases and notices when nothing moves any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.contained import Contained
from ridgeline.launch.phases import Phases
from ridgeline.launch.stall import Effort, StallWatch, effort, stacks

LOOK_EVERY_S = 1.0
STALL_S = 900.0  # the longest silence seen in a sound start: a cold shared file system before the first shard


@dataclass(slots=True)
class StartWatch:
    """Call `look` often; it costs something once a second. Raises EnvironmentFailed when the start hangs."""

    name: str
    process: Contained
    stall_s: float = STALL_S
    on_move: Callable[[Phases], None] = lambda phases: None
    clock: Callable[[], float] = time.monotonic
    phases: Phases = field(default_factory=Phases)
    _began: float = 0.0
    _looked: float = 0.0
    _read: int = 0
    _stall: StallWatch = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._looked = self.clock()
        self._stall = StallWatch(self._effort, self.clock)

    @property
    def stacks_file(self) -> Path:
        """Where stacks go when the start hangs."""
        return self.process.log.with_suffix(".stacks.txt")

    def look(self) -> None:
        """Follow the log; once a second, see whether anything moved."""
        now = self.clock()
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        if self.phases.feed(self._grown(), now - self._began):
            self.on_move(self.phases)
        still = self._stall.still_s()
        if still >= self.stall_s:
            self.stacks_file.write_text(stacks(self.process.guardian_pid))
            phase = self.phases.current.text(now - self._began)
            raise EnvironmentFailed(
                f"`{self.name}` hangs: no log line, CPU or I/O for {still:.0f} s (phase {phase})",
                hint=f"what each process was doing is in `{self.stacks_file.name}` beside the log",
            )

    def end(self) -> None:
        """The service is ready."""
        self.phases.feed(self._grown() + "\n", self.clock() - self._began)
        self.phases.end(self.clock() - self._began)
        self.on_move(self.phases)

    def _grown(self) -> str:
        try:
            with self.process.log.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return ""
        self._read += len(data)
        return data.decode("utf-8", "replace")

    def _effort(self) -> Effort:
        return effort(self.process.guardian_pid, self.process.log)
