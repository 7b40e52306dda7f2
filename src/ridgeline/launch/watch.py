"""Watches one service while it starts: follows its log through the phases and notices when nothing moves any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.machines import Process
from ridgeline.launch.phases import Phases
from ridgeline.launch.stall import StallWatch
from ridgeline.launch.telemetry import busy_gpus

LOOK_EVERY_S = 1.0
STALL_S = 900.0  # the longest silence seen in a sound start: a cold shared file system before the first shard
SPIN_S = 3600.0  # CPU or GPU runs, and no log line, no I/O: kernels of a large model are tuned without a word for less


@dataclass(slots=True)
class StartWatch:
    """Call `look` often; it costs something once a second. Raises EnvironmentFailed when the start hangs."""

    name: str
    process: Process
    stall_s: float = STALL_S
    spin_s: float = SPIN_S
    gpus: Callable[[], bool] = busy_gpus  # asked only when nothing else moves: an answer takes a process
    on_move: Callable[[Phases], None] = lambda phases: None
    clock: Callable[[], float] = time.monotonic
    phases: Phases = field(default_factory=Phases)
    _began: float = 0.0
    _looked: float = 0.0
    _read: int = 0
    _stall: StallWatch = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._looked = self.clock()
        self._stall = StallWatch(self.process.effort, self.clock)

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
        still = self._stall.still()
        moved = self.phases.feed(self._grown(), now - self._began)
        if self.phases.moved_bytes(self._stall.io) or moved:
            self.on_move(self.phases)
        if still.moved_s >= self.stall_s:
            if self.gpus():
                self._stall.moved()
            else:
                self._give_up(f"hangs: no log line, CPU, GPU or I/O for {still.moved_s:.0f} s")
        if still.got_on_s >= self.spin_s:
            self._give_up(f"gets nowhere: it uses CPU or GPU, without a log line or I/O for {still.got_on_s:.0f} s")

    def write_stacks(self, why: str) -> None:
        """Write down what every process is doing. The service may not survive it."""
        self.stacks_file.write_text(self.process.autopsy(why))

    def _give_up(self, how: str) -> None:
        phase = self.phases.current.text(self.clock() - self._began)
        self.write_stacks(f"`{self.name}` {how} (phase {phase})\n")
        raise EnvironmentFailed(
            f"`{self.name}` {how} (phase {phase})",
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
