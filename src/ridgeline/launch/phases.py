"""How far a start has come, from the log as it grows: image, weights, load, compile, KV, capture, serving.

In: pieces of a log with the time they were read (seconds of any clock). Out: phases with their times, how many of how
many are done, and an estimate for the rest. Engines differ in words, not in phases; words are in the table below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ridgeline.core.units import GIB
from ridgeline.launch.engines import sglang, vllm


class Mark(NamedTuple):
    """A line that shows a phase; two groups are how many of how many."""

    phase: str
    pattern: re.Pattern[str]


def _mark(phase: str, pattern: str) -> Mark:
    return Mark(phase, re.compile(pattern))


START = "start"
TOLD_BYTES = GIB // 4  # less is not worth a word

MARKS: tuple[Mark, ...] = (
    _mark("image", r"Pulling from|Pull complete|pyxis: importing|Extracting image|Unpacking"),
    _mark("weights", r"checkpoint shards:\s+\d+%.*?(\d+)/(\d+)"),
    _mark("weights", r"Starting to load model|Load weight begin|Downloading (?:shards|weights)"),
    _mark("load", r"Loading weights took"),
    _mark(
        "compile", r"Dynamo bytecode transform|Compiling a graph|torch\.compile takes|Using cache directory.*compile"
    ),
    _mark("capture", r"Capturing CUDA graphs.*?(\d+)/(\d+)"),
    _mark("capture", r"Capture cuda graph begin"),
    _mark("capture", r"Capturing batches.*?(\d+)/(\d+)"),
    # lines that prove something and say how far a start has come
    *(Mark(shape.phase, shape.pattern) for shape in (*vllm.SHAPES, *sglang.SHAPES) if shape.phase),
    _mark("serving", r"Application startup complete|Uvicorn running on|Starting vLLM server|listening on http"),
)


@dataclass(slots=True)
class Phase:
    """One phase. Times in seconds since the start; `ended` None: under way. `done` of `total`, where the log counts."""

    name: str
    began: float
    ended: float | None = None
    done: int | None = None
    total: int | None = None
    bytes: int | None = None  # read and written while it lasted, by the whole process tree

    def eta_s(self, now: float) -> float | None:
        """Seconds until all are done at the mean pace so far; None where nothing is counted yet."""
        if self.ended is not None or not self.done or not self.total:
            return None
        return (now - self.began) / self.done * (self.total - self.done)

    def text(self, now: float) -> str:
        """`weights 12 of 40, 98.3 GiB at 3.20 GiB/s, 31 s, about 72 s to go`."""
        counted = f" {self.done} of {self.total}" if self.total else ""
        spent = (self.ended if self.ended is not None else now) - self.began
        eta = self.eta_s(now)
        moved = ""
        if self.bytes is not None and self.bytes >= TOLD_BYTES and spent > 0:
            moved = f", {self.bytes / GIB:.1f} GiB at {self.bytes / GIB / spent:.2f} GiB/s"
        return f"{self.name}{counted}{moved}, {spent:.0f} s" + (f", about {eta:.0f} s to go" if eta is not None else "")


@dataclass(slots=True)
class Phases:
    """The phases of one service's start so far."""

    steps: list[Phase] = field(default_factory=lambda: [Phase(START, 0.0)])
    _rest: str = ""
    _io: int | None = None  # of the tree, when the phase under way began

    @property
    def current(self) -> Phase:
        return self.steps[-1]

    def feed(self, text: str, at: float) -> bool:
        """Take in what the log grew by, read at `at`. True when a phase or its count moved."""
        moved = False
        *lines, self._rest = re.split(r"[\r\n]", self._rest + text)
        for line in lines:
            for mark in MARKS:
                if match := mark.pattern.search(line):
                    moved |= self._note(mark.phase, match.groups(), at)
                    break
        return moved

    def moved_bytes(self, io: int) -> bool:
        """Take in what the process tree has read and written so far. True when it is worth showing again."""
        if self._io is None or io < self._io:  # a process is gone, and its counters with it
            self._io = io - (self.current.bytes or 0)
        before, self.current.bytes = self.current.bytes or 0, io - self._io
        return self.current.bytes - before >= TOLD_BYTES

    def end(self, at: float) -> None:
        """The service is ready (or is given up)."""
        self.current.ended = at

    def _note(self, name: str, counts: Sequence[str | None], at: float) -> bool:
        known = {step.name: step for step in self.steps}
        step = known.get(name)
        if step is None:
            self.current.ended = at
            if self._io is not None:
                self._io += self.current.bytes or 0
            step = Phase(name, at)
            self.steps.append(step)
        elif len(counts) != 2:
            return False
        if len(counts) == 2 and counts[0] and counts[1]:
            before = (step.done, step.total)
            step.done, step.total = int(counts[0]), int(counts[1])
            return before != (step.done, step.total)
        return True

    def plain(self) -> list[dict[str, object]]:
        """For storing: name, began, ended, done, total, bytes."""
        return [
            {"name": s.name, "began": round(s.began, 3), "ended": s.ended}
            | {"done": s.done, "total": s.total, "bytes": s.bytes}
            for s in self.steps
        ]
