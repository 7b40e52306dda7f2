"""Runs the console script as a user does, on a search space of three small cells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CONFIG = Path(__file__).with_name("quick.yaml")
# 20 simulated seconds in one real second a cell, on the first sessions of the shipped trace.
QUICK = ("--duration", "20", "--speed", "20", "--warmup", "0", "--sessions", "6", "--requests", "4")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "ridgeline.cli.main", *map(str, arguments)]


def ridgeline(*arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=timeout, env={**os.environ, "NO_COLOR": "1"}
    )


def sweep(out: Path, *more: str | Path, config: Path = CONFIG) -> subprocess.CompletedProcess[str]:
    return ridgeline("sweep", config, "--out", out, *QUICK, *more)


def events(lines: str) -> Sequence[dict[str, object]]:
    return [json.loads(line) for line in lines.splitlines()]


def processes_with(text: str) -> list[int]:
    """PIDs of live processes that have `text` in their command line or environment, which children inherit."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
