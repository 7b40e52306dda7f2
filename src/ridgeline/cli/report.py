"""`ridgeline report RUN`: a run folder becomes one self-contained page, and a picture when asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ridgeline.cli.typed import run_app

app = typer.Typer(add_completion=False)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, as written by sweep or simulate.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Page to write. [default: RUN/report.html]")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the frontier as a still picture.")
    ] = None,
    x: Annotated[str | None, typer.Option(metavar="MEASURE", help="Horizontal axis of the picture.")] = None,
    y: Annotated[str | None, typer.Option(metavar="MEASURE", help="Vertical axis of the picture.")] = None,
    title: Annotated[str, typer.Option(help="Title of the page. [default: the run's name]")] = "",
) -> int:
    """Write the report of a run: one HTML file that needs no network.

    It holds every point with its source and validity, the frontier of every offered pair of axes, and what is not
    plotted with the reason. The path of what was written goes to stdout.
    """
    from ridgeline.core.errors import InputError
    from ridgeline.publish.report import render_picture, write_run_report, write_text
    from ridgeline.results.runfolder import RunFolder

    if (x or y) and svg is None:
        raise InputError(
            "--x and --y choose the axes of the picture", hint="add --svg FILE; the page offers every axis"
        )
    folder = RunFolder.open(run)
    # The picture first: when its axes make no sense, nothing is written.
    picture = render_picture(folder.points(), header=folder.header, x=x, y=y) if svg else ""
    page = write_run_report(folder, out, title=title)
    sys.stdout.write(f"{page}\n")
    if svg:
        sys.stdout.write(f"{write_text(svg, picture)}\n")
    sys.stderr.write(f"open {page} in a browser; it needs no network\n")
    return 0


def run(argv: list[str]) -> int:
    """Entry of the verb."""
    return run_app(app, "report", argv)
