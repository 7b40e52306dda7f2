"""What is under way, for other terminals: RUN/.live/state.json, replaced as a whole at every step.

In: a sweep's events. Out: `ridgeline status` and `diagnose` read it back while the sweep runs and after it was killed.
Progress inside a window is written at most once a second. Nothing depends on it: results are in cells/ and failures/.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.sweep.events import Event

LIVE = ".live"
STATE = "state.json"
EVERY_S = 1.0


@dataclass(slots=True)
class LiveState:
    """Listens to a sweep and writes down where it is. `cells`: every planned cell's name and run key, in order."""

    folder: Path
    cells: Sequence[tuple[str, str]]
    wall: Callable[[], float] = time.time
    _states: list[dict[str, Any]] = field(default_factory=list)
    _began: float = 0.0
    _written: float = 0.0

    def begin(self) -> None:
        """Write the first state: everything waits."""
        self._began = self.wall()
        self._states = [{"name": name, "run_key": key, "state": "waiting"} for name, key in self.cells]
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write()

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        state = self._states[event.index - 1]
        now = self.wall()
        if event.kind == "progress" and event.progress is not None:
            progress = event.progress
            state["progress"] = {
                "phase": progress.phase, "at_s": progress.at_s, "done": progress.done, "in_flight": progress.in_flight,
                "output_tokens_per_s": progress.output_tokens_per_s, "errors": dict(progress.errors),
            }  # fmt: skip
            if now - self._written < EVERY_S:
                return
        else:
            state["state"] = "waiting" if event.kind in ("left", "chosen") else event.kind
            state["text"] = event.text
            state.setdefault("steps", []).append({"step": event.kind, "text": event.text, "at": now})
        self._write()

    def phases(self, index: int, service: str, phases: Sequence[dict[str, Any]]) -> None:
        """How far the start of a service has come, for the cell at `index` (from 1)."""
        self._states[index - 1].setdefault("start", {})[service] = list(phases)
        self._write()

    def note(self, index: int, **facts: Any) -> None:
        """Facts of the start that the cell at `index` (from 1) runs on, e.g. what holds its services together."""
        self._states[index - 1].update(facts)
        self._write()

    def end(self) -> None:
        """The sweep is over."""
        self._write(over=True)

    def _write(self, *, over: bool = False) -> None:
        self._written = self.wall()
        state = {"pid": os.getpid(), "began": self._began, "at": self._written, "over": over, "cells": self._states}
        part = self.folder / f".{STATE}.part"
        part.write_text(json.dumps(state))
        part.replace(self.folder / STATE)


def read_state(run: Path) -> dict[str, Any] | None:
    """The last state of a run, None where no sweep of this Ridgeline ran. `alive` is added: whether its process
    lives on this machine."""
    try:
        state: dict[str, Any] = json.loads((run / LIVE / STATE).read_text())
    except (OSError, ValueError):
        return None
    state["alive"] = not state.get("over") and _lives(int(state["pid"]))
    return state


def _lives(pid: int) -> bool:
    try:
        return b"ridgeline" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
