"""`ridgeline reuse CONFIG...`: which cells have a stored point already, and which must run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ridgeline.cli import sweep_options as options
from ridgeline.cli.search import chosen_cells
from ridgeline.cli.stores import DATA_HELP, STORE_HELP, open_store, told
from ridgeline.cli.typed import run_app
from ridgeline.publish.reuse.points import Stored, Wanted, answers
from ridgeline.spec.settings import load_settings
from ridgeline.sweep.deploy import Deploy
from ridgeline.sweep.pinned import pinned
from ridgeline.sweep.run import Sweep
from ridgeline.sweep.workload import Workload
from ridgeline.trace.synth import quickstart_trace

app = typer.Typer(add_completion=False)
_BATCH = 500  # run keys in one question


def run(argv: list[str]) -> int:
    return run_app(app, "reuse", argv)


@app.command()
def reuse(
    configs: Annotated[list[Path], typer.Argument(help="Config files in InferenceX's format.", show_default=False)],
    cells: Annotated[str, typer.Option(metavar="GLOB", help="Only cells whose name matches.")] = "*",
    engine: Annotated[str, typer.Option(help="real or emulated, as the sweep would have it.")] = "real",
    trace: Annotated[Path | None, typer.Option(help="Recorded sessions the sweep would replay.")] = None,
    duration: Annotated[int | None, typer.Option(help="Measured window of agentic cells, seconds.")] = None,
    speed: Annotated[float | None, typer.Option(help="As for sweep.")] = None,
    warmup: Annotated[int | None, typer.Option(help="As for sweep.")] = None,
    requests: Annotated[int, typer.Option(help="As for sweep.")] = 10,
    prompts: Annotated[str, typer.Option(help="As for sweep.")] = "bytes",
    max_context: Annotated[int | None, typer.Option(help="As for sweep.")] = None,
    sessions: Annotated[int | None, typer.Option(help="As for sweep.")] = None,
    seed: Annotated[int, typer.Option(help="As for sweep.")] = 42,
    repeats: Annotated[int, typer.Option(min=1, help="As for sweep.")] = 1,
    runner_config: Annotated[Path | None, typer.Option(help="Runners file, where host memory must be known.")] = None,
    config: Annotated[
        Path | None, typer.Option("--settings", help="ridgeline.yaml: its recipes start cells, as for sweep.")
    ] = None,
    shell: Annotated[Path | None, typer.Option(help="As for sweep: the script that starts every cell.")] = None,
    command: Annotated[str | None, typer.Option(help="As for sweep: the command that starts every cell.")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="As for sweep.")] = None,
    found: Annotated[
        list[str] | None,
        typer.Option(
            "--found", metavar="NAME=VALUE", help="A fact that must still be so, e.g. image_digest=sha256:..."
        ),
    ] = None,
    folders: Annotated[
        list[Path] | None, typer.Option("--from", metavar="RUN", help="Look into these run folders, not the store.")
    ] = None,
    store: Annotated[str | None, typer.Option("--store", metavar="STORE", help=STORE_HELP)] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help=DATA_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Find stored points for the cells of a sweep that was not started yet. Exit 1 when a cell must run.

    A point stands for a cell when everything that was asked for is equal (cell, deployment, image, trace, settings,
    source), it is valid, and every --found fact is what it was.
    """
    user = load_settings(config)
    chosen = pinned(chosen_cells(configs, runner_config, cells), user)
    kind = options.engine_of(engine)
    emulated = options.emulates(kind, chosen)
    settings = options.sweep_settings(
        emulated,
        duration=duration,
        speed=speed,
        warmup=warmup,
        requests_per_lane=requests,
        seed=seed,
        prompts=prompts,
        max_context=max_context,
        max_sessions=sessions,
    )
    workload = Workload(settings, trace or (quickstart_trace() if emulated else None))
    starts = options.recipes(shell, command, env, user)
    deploy = Deploy(kind, options.recipe_settings(settings), starts, user)
    plan = Sweep(chosen, settings, workload, deploy, repeats=repeats).plan()
    wanted = [Wanted(item.title, item.run_key) for item in plan]
    now = told(found or [])
    if folders:
        stored: Iterable[Stored] = _of_folders(folders)
    else:
        stored = _of_store(store, data, [one.run_key for one in wanted])
    said = answers(wanted, stored, now)
    missing = [one for one in said if one.point is None]
    if as_json:
        answer = {"reused": len(said) - len(missing), "to_run": len(missing), "cells": [one.as_json() for one in said]}
        sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    else:
        width = max(len(one.name) for one in said)
        for one in said:
            where = f"{one.run}" if one.point else "run it"
            sys.stdout.write(f"{one.name:<{width}}  {where}  ({one.why})\n")
        sys.stdout.write(f"{len(said) - len(missing)} of {len(said)} cells are there already\n")
    return 1 if missing else 0


def _of_folders(folders: Sequence[Path]) -> Iterator[Stored]:
    from ridgeline.results.runfolder import RunFolder

    for path in folders:
        for point in RunFolder.open(path).points():
            yield Stored(point, str(path), dict(point.provenance.get("found") or {}))


def _of_store(store: str | None, data: Path | None, keys: Sequence[str]) -> list[Stored]:
    from sqlalchemy import select

    from ridgeline.results.store import tables as t
    from ridgeline.results.store.ingest import point_of_body

    points: dict[str, tuple[object, str]] = {}
    found: list[Stored] = []
    with open_store(store, data) as opened:
        p, r = t.current_points.c, t.runs.c
        with opened.database.reading() as connection:
            for start in range(0, len(keys), _BATCH):
                some = keys[start : start + _BATCH]
                rows = select(p.id, p.body, r.id.label("run")).join(t.runs, r.no == p.run).where(p.run_key.in_(some))
                for id, body, run_id in connection.execute(rows):
                    points[id] = (point_of_body(body, id), run_id)
        about = opened.provenance(list(points))
    for id, (point, run_id) in points.items():
        facts = {
            name.removeprefix("found."): value for name, value in about.get(id, {}).items() if name.startswith("found.")
        }
        found.append(Stored(point, run_id, facts))  # type: ignore[arg-type]
    return found
