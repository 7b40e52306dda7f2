"""`ridgeline withdraw RUN`: see `stage`."""

from __future__ import annotations

from ridgeline.cli.stage import withdrawing
from ridgeline.cli.typed import run_app


def run(argv: list[str]) -> int:
    return run_app(withdrawing, "withdraw", argv)
