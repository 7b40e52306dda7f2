"""Reads evidence from a log: one pass, whatever its length, progress bars included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ridgeline.core.finding import Evidence
from ridgeline.core.where import Where
from ridgeline.launch.engines.shapes import Shape

LONGEST = 1 << 20  # bytes of a line that are looked at: a config dump is long, a line without end is not a log


def read_log(path: Path, shapes: Sequence[Shape], parser: str, *, name: str | None = None) -> list[Evidence]:
    """What `path` proves, in the order of its lines. A claim may come several times, with a value for each rank.

    `parser` goes into every piece, e.g. `vllm/1`; `name` is how the file is called in the evidence (default: its own
    name, since run folders move). A file that is not there proves nothing.
    """
    called = name or path.name
    found: list[Evidence] = []
    said: set[tuple[str, float | str]] = set()
    try:
        for number, offset, line in _lines(path):
            for item in shapes:
                if item.needle not in line or not (match := item.pattern.search(line.decode("utf-8", "replace"))):
                    continue
                value = item.read(match)
                if item.every or (item.claim, value) not in said:
                    said.add((item.claim, value))
                    found.append(Evidence(item.claim, value, Where(called, number), parser, offset))
    except FileNotFoundError:
        return []
    return found


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Number, byte offset and content of each line. A progress bar draws over itself with carriage returns: what it
    drew last stands for the line, since the states before it were true only for a moment."""
    with path.open("rb") as file:
        offset = 0
        number = 0
        while line := file.readline(LONGEST):
            number += 1
            drawn = line.rstrip(b"\r\n").rsplit(b"\r", 1)[-1]
            yield number, offset, drawn
            offset += len(line)
