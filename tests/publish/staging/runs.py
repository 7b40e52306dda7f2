"""Run folders with points of a kind, for staging and reuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.results.builders import cell, point

from ridgeline.core.point import Point, Source
from ridgeline.results.runfolder import RunFolder, RunHeader


def points(*concurrencies: int, value: float = 100.0, **changes: Any) -> list[Point]:
    """Measured points of one line."""
    changes.setdefault("source", Source.MEASURED)
    made = [point(number, **{"throughput_per_gpu.total": value * number}) for number in concurrencies]
    keys = [f"{one.concurrency:04x}" * 16 for one in made]
    return [replace(one, run_key=key, id=f"{key}.1", **changes) for one, key in zip(made, keys, strict=True)]


def run(folder: Path, found: list[Point], *, created: str = "2026-08-20T10:00:00+00:00") -> Path:
    """A run folder with these points."""
    with RunFolder.create_or_open(folder, RunHeader(name=folder.name, created_at=created)) as opened:
        for one in found:
            opened.write_cell(cell(one.concurrency), one, None, None)
    return folder
