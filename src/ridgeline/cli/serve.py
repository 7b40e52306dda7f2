"""`ridgeline serve`: the dashboard, on this machine unless told otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.prices import PricesOption, chosen_prices
from ridgeline.cli.shelves import overlays, shelves
from ridgeline.cli.typed import run_app
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.where import Where

if TYPE_CHECKING:
    from ridgeline.plan.checks.report import CellReport
    from ridgeline.publish.web.context import Given
    from ridgeline.spec.settings import Settings

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="run folders, folders of them, or result files an importer knows [runs]", show_default=False
        ),
    ] = None,
    store: Annotated[str | None, typer.Option(help="a store: its folder, or a PostgreSQL address")] = None,
    overlay: Annotated[
        list[Path] | None,
        typer.Option(help="an unofficial run to be laid over: a run folder or a result file; repeatable"),
    ] = None,
    config: Annotated[list[Path] | None, typer.Option(help="a search space for the plan page; repeatable")] = None,
    trace: Annotated[
        list[Path] | None, typer.Option(help="recorded sessions for the traces page; repeatable [the shipped ones]")
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="ridgeline.yaml: fleets, models, waivers, prices")] = None,
    prices: PricesOption = None,
    runner_config: Annotated[Path | None, typer.Option(help="runners file, where host memory must be known")] = None,
    changelog: Annotated[list[Path] | None, typer.Option(help="a benchmark changelog; repeatable")] = None,
    gates: Annotated[Path | None, typer.Option(help="folder of stored gate judgements (JSON)")] = None,
    host: Annotated[
        str, typer.Option(help="address to listen on; other than the loopback needs a token")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port; 0 takes a free one")] = 8000,
    name: Annotated[list[str] | None, typer.Option(help="a host name readers use for this server; repeatable")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="file that holds the token [environment RIDGELINE_TOKEN]")
    ] = None,
) -> int:
    """Serve the dashboard: frontier, runs, comparison, points, plans, gates, data and traces. Works offline.

    What is served is read while it is written: a sweep that goes on appears as it goes. The address goes to stdout.
    """
    from ridgeline.publish.web.app import create_app, warm
    from ridgeline.publish.web.context import Context
    from ridgeline.publish.web.data import Library
    from ridgeline.publish.web.safety import access

    rules = access(host, _token(token_file), tuple(name or ()))
    told = given(config or [], trace, settings, runner_config, changelog or [], gates, prices)
    context = Context(Library(shelves(paths or [], store), overlays(overlay or [])), rules, given=told)
    return _listen(create_app(context), host, port, lambda: warm(context))


def given(
    configs: list[Path],
    traces: list[Path] | None = None,
    settings: Path | None = None,
    runner_config: Path | None = None,
    changelogs: Sequence[Path] = (),
    gates: Path | None = None,
    prices: Path | None = None,
) -> Given:
    """What the pages besides the results show: search spaces with their preflight, traces (None: the shipped one),
    changelogs, gate judgements and prices. Raises InputError for a file that is not there or cannot be read."""
    from ridgeline.publish.web.context import Given
    from ridgeline.spec.settings import load_settings
    from ridgeline.trace.synth import quickstart_trace

    chosen = load_settings(settings)
    return Given(
        prices=chosen_prices(prices, settings),
        configs=_named("--config", configs),
        check=lambda files: _reports(files, chosen, runner_config),
        traces=_named("--trace", [quickstart_trace()] if traces is None else traces),
        changelogs=_named("--changelog", changelogs),
        gates=_named("--gates", sorted(gates.glob("*.json")) if gates else []),
    )


def _named(option: str, paths: Sequence[Path]) -> dict[str, Path]:
    """Files by the name a link uses. Raises InputError for one that is not there."""
    missing = [Problem("no such file or folder", Where(str(path)), key=option) for path in paths if not path.exists()]
    if missing:
        raise InputError(missing)
    found: dict[str, Path] = {}
    for path in paths:
        name, number = path.name, 1
        while name in found:
            number += 1
            name = f"{path.name} ({number})"
        found[name] = path
    return found


def _reports(files: Sequence[Path], settings: Settings, runner_config: Path | None) -> list[CellReport]:
    """The preflight of config files, as `ridgeline check` does it."""
    import datetime

    from ridgeline.cli.preflight import Subjects, knowledge
    from ridgeline.cli.search import chosen_cells
    from ridgeline.plan.checks.report import check

    maker = Subjects(settings, knowledge(files))
    today = datetime.datetime.now(tz=datetime.UTC).date()
    reports, problems = [], []
    for cell in chosen_cells(files, runner_config, "*"):
        try:
            reports.append(check(maker.of(cell), settings, today=today))
        except InputError as error:
            problems += [Problem(p.message, p.where or cell.where, p.key, p.hint) for p in error.problems]
    if problems:
        raise InputError(dict.fromkeys(problems))
    return reports


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get("RIDGELINE_TOKEN") or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        problem = Problem(f"cannot be read: {error.strerror}", Where(str(file)), key="--token-file")
        raise InputError([problem]) from error


def _listen(served: object, host: str, port: int, warm: Callable[[], None]) -> int:
    import socket
    import threading

    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # whoever reads the address below may come at once
    except OSError as error:
        listener.close()
        hint = "choose another one with --port, or --port 0 for a free one"
        raise EnvironmentFailed(f"cannot listen on {host} port {port}: {error.strerror}", hint=hint) from error
    real = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"http://{shown}:{real}/\n")
    sys.stdout.flush()
    sys.stderr.write("serving; Ctrl-C ends it\n")
    threading.Thread(target=warm, daemon=True).start()
    config = uvicorn.Config(
        served,  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        loop="auto",
    )
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def run(argv: list[str]) -> int:
    """Entry of the verb."""
    return run_app(app, "serve", argv)
