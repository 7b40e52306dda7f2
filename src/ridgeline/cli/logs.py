"""`ridgeline logs`: the logs of a run's services, while it goes on and after."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ridgeline.cli.arguments import chosen, parsed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ridgeline logs", description="The last lines of the logs of a run's services, cell by cell."
    )
    add = parser.add_argument
    add("run", type=Path, help="run folder")
    add("cell", nargs="?", help="cell by name, glob or beginning of its run key (default: those with logs)")
    add("--lines", "-n", type=int, default=40, help="lines of each log (default 40; 0 for all)")
    add("--service", help="only this service's log")
    return parser


def run(argv: list[str]) -> int:
    """Run the verb. Exit 1 when there is no log to show."""
    given = parsed(_parser(), argv)
    if isinstance(given, int):
        return given
    from ridgeline.launch.autopsy import tail
    from ridgeline.launch.secrets import scrubbed, values_of
    from ridgeline.results.runfolder import RunFolder
    from ridgeline.sweep.diagnosis import log_files, run_state

    folder = RunFolder.open(given.run)
    shown = 0
    for cell in chosen(run_state(folder).cells, given.cell):
        for file in log_files(folder, cell):
            if given.service and file.name.partition(".")[0] != given.service:
                continue
            shown += 1
            sys.stdout.write(f"==> {cell.name}  {file} <==\n")
            lines = tail(file, given.lines) if given.lines else file.read_text("utf-8", "replace").splitlines()
            sys.stdout.write(scrubbed("".join(f"{line}\n" for line in lines), values_of()))
    if not shown:
        sys.stderr.write("no logs: services that are stopped keep theirs with the point or the failure of their cell\n")
    return 0 if shown else 1
