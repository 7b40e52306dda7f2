"""`ridgeline diagnose`: which layer failed, whose fault it seems, and the lines that show it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ridgeline.cli.arguments import chosen, parsed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ridgeline diagnose",
        description="Why cells of a run failed, were lost or are not valid: the layer (scheduler, node, image, "
        "weights, engine start, ready, load, replay, metrics, evaluation), the cause where known, and its evidence.",
    )
    add = parser.add_argument
    add("run", type=Path, help="run folder")
    add("cell", nargs="?", help="cell by name, glob or beginning of its run key (default: all)")
    add("--json", action="store_true", help="as JSON lines")
    return parser


def run(argv: list[str]) -> int:
    """Run the verb. Exit 1 when something is wrong with a cell."""
    given = parsed(_parser(), argv)
    if isinstance(given, int):
        return given
    from ridgeline.results.runfolder import RunFolder
    from ridgeline.sweep.diagnosis import diagnose, run_state

    folder = RunFolder.open(given.run)
    wrong = 0
    for cell in chosen(run_state(folder).cells, given.cell):
        found = diagnose(folder, cell)
        if found is None:
            continue
        wrong += 1
        if given.json:
            data = found._asdict() | {"cell": cell.name, "files": [str(file) for file in found.files]}
            sys.stdout.write(json.dumps(data) + "\n")
            continue
        sys.stdout.write(f"{cell.name}\n  layer   {found.layer}\n  what    {_indented(found.message)}\n")
        if found.blame != "unknown":
            sys.stdout.write(f"  fault   {found.blame}\n")
        if found.advice:
            sys.stdout.write(f"  do      {found.advice}\n")
        sys.stdout.write("".join(f"  | {text}\n" for text in found.lines))
        sys.stdout.write("".join(f"  log     {file}\n" for file in found.files))
    if not wrong:
        sys.stderr.write("nothing is wrong with these cells\n")
    return 1 if wrong else 0


def _indented(message: str) -> str:
    return message.replace("\n", "\n          ")
