"""`ridgeline status`: where a run is, from any terminal, while it goes on and after."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.cli.arguments import parsed

if TYPE_CHECKING:
    from ridgeline.sweep.diagnosis import CellState, RunState


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ridgeline status", description="Where a run is: every cell with its state.")
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(argv: list[str]) -> int:
    """Run the verb. Exit 1 when a cell failed or was lost."""
    given = parsed(_parser(), argv)
    if isinstance(given, int):
        return given
    from ridgeline.results.runfolder import RunFolder
    from ridgeline.sweep.diagnosis import eta_s, run_state

    state = run_state(RunFolder.open(given.run))
    now = time.time()
    eta = eta_s(state, now)
    if given.json:
        cells = [plain(cell) for cell in state.cells]
        sys.stdout.write(json.dumps({"alive": state.alive, "eta_s": eta, "cells": cells}) + "\n")
    else:
        for cell in state.cells:
            sys.stdout.write(line(cell, now) + "\n")
        sys.stderr.write(summary(state, eta) + "\n")
        if any(cell.state in ("failed", "lost") for cell in state.cells):
            sys.stderr.write(f"next     `ridgeline diagnose {given.run}`\n")
    return 1 if any(cell.state in ("failed", "lost") for cell in state.cells) else 0


def line(cell: CellState, now: float) -> str:
    """One cell in one line."""
    parts = [f"{_word(cell):<10}", cell.name]
    if cell.point is not None:
        parts.append(f"{cell.point.validity}")
    elif cell.failure is not None and cell.state == "failed":
        parts.append(f"{cell.failure.layer}: {cell.failure.message.splitlines()[0]}")
    elif cell.state not in ("waiting", "lost"):
        parts += [phase(cell), f"{now - cell.since:.0f} s" if cell.since else ""]
    return "  ".join(part for part in parts if part)


def phase(cell: CellState) -> str:
    """What a cell under way is doing: a phase of its start, or its replay's numbers."""
    progress = cell.progress
    if progress and cell.state in ("replay", "progress"):
        rate = progress.get("output_tokens_per_s")
        rated = f", {rate:,.0f} tok/s" if rate else ""
        return f"{progress['phase']} {progress['at_s']:,.0f} s, {progress['done']} answers{rated}"
    for service, phases in cell.start.items():
        last = phases[-1]
        if last.get("ended") is None:
            counted = f" {last['done']} of {last['total']}" if last.get("total") else ""
            return f"{service}: {last['name']}{counted}"
    return cell.text


def _word(cell: CellState) -> str:
    return {"begin": "starting", "start": "starting", "progress": "replay"}.get(cell.state, cell.state)


def summary(state: RunState, eta: float | None) -> str:
    """Counts, and whether anybody works on it."""
    counts: dict[str, int] = {}
    for cell in state.cells:
        counts[_word(cell)] = counts.get(_word(cell), 0) + 1
    told = ", ".join(f"{count} {word}" for word, count in counts.items()) or "no cells"
    life = {True: "running", False: "not running", None: "no live state"}[state.alive]
    held = sorted({how for cell in state.cells for how in cell.containment.values()})
    life += f"; services held by {', '.join(held)}" if held else ""
    return f"{told}; {life}" + (f"; about {eta / 60:.0f} min to go" if eta is not None else "")


def plain(cell: CellState) -> dict[str, object]:
    """Plain data for machines."""
    return {
        "name": cell.name, "run_key": cell.run_key, "state": _word(cell), "text": cell.text, "since": cell.since,
        "validity": str(cell.point.validity) if cell.point else None,
        "layer": cell.failure.layer if cell.failure else None,
        "containment": dict(cell.containment), "progress": dict(cell.progress), "start": dict(cell.start),
    }  # fmt: skip
