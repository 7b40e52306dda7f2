"""Writes the pages that are made from the code: `python -m ridgeline.cli.docs`. A test holds every one of them current.

A page is a path below docs/ and a function that renders it; whoever adds a register with a page adds it here.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ridgeline.cli.main import VERBS, main
from ridgeline.plan.checks import pages as check_pages
from ridgeline.plan.shell import pages as shell_pages
from ridgeline.publish.gate import pages as gate_pages
from ridgeline.results.metrics import page as metrics_page
from ridgeline.spec import reference as config_page
from ridgeline.sweep.proof import page as evidence_page

WIDTH = "100"


def command_line() -> str:
    """The reference of the command line: the help page of every verb."""
    parts = [
        "# Command line\n\n<!-- Written by `make docs`; a test holds it equal to the help pages. -->\n\n"
        "Data goes to stdout, talk to stderr; `--json` gives machines what people get as text. Exit codes: 0 fine, 1 "
        "the answer is no (findings, a regression, a failed cell), 2 the input is wrong, 3 the environment failed.\n"
    ]
    parts += [f"\n## {verb}\n\n```\n{_help(verb)}\n```\n" for verb in VERBS]
    return "".join(parts)


def _help(verb: str) -> str:
    """What `ridgeline VERB --help` prints on a plain terminal of fixed width."""
    plain = {"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    before = dict(os.environ)
    os.environ.update(plain)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main([verb, "--help"])
    finally:
        os.environ.clear()
        os.environ.update(before)
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").splitlines())


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": command_line,
    "reference/config.md": config_page.text,
    "reference/metrics.md": metrics_page.render,
    "reference/evidence.md": evidence_page.render,
    **check_pages.PAGES,
    **shell_pages.PAGES,
    **gate_pages.PAGES,
}


def write(docs: Path) -> list[Path]:
    """Write every page below `docs`; returns those that changed."""
    changed = []
    for name, render in PAGES.items():
        path, text = docs / name, render()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    for changed_page in write(Path("docs")):
        sys.stdout.write(f"{changed_page}\n")
