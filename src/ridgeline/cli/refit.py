"""`ridgeline refit`: one start without load on another image; memory facts, old against new, and flags that follow."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.cli.arguments import parsed
from ridgeline.core.errors import InputError, Problem

if TYPE_CHECKING:
    from ridgeline.core.cell import Cell
    from ridgeline.core.finding import Evidence
    from ridgeline.sweep.refit import Refit


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ridgeline refit",
        description="Start the engine of one cell once, without load, and compare its memory with an earlier run's.",
    )
    add = parser.add_argument
    add("config", type=Path, help="config file in InferenceX's format")
    add("cell", help="cell by name or glob; one must be left")
    add("--image", help="image to start instead of the config's")
    add("--against", type=Path, metavar="RUN", help="run folder with a point of this cell, to compare with")
    add("--engine", choices=("real", "emulated"), default="real", help="real, or the engine model")
    add("--runner-config", type=Path, help="runners file, where host memory must be known")
    add("--settings", type=Path, help="ridgeline.yaml, for recipes of your own")
    add(
        "--runtime",
        choices=("none", "docker", "enroot"),
        default="none",
        help="container runtime that enters the image",
    )
    add("--mount", type=Path, action="append", default=[], help="folder that containers see, e.g. of weights")
    add("--logs", type=Path, help="folder that keeps the logs")
    add("--json", action="store_true", help="as JSON")
    return parser


def run(argv: list[str]) -> int:
    """Run the verb. Exit 1 when the new start is worse and a flag is proposed."""
    given = parsed(_parser(), argv)
    if isinstance(given, int):
        return given
    from ridgeline.cli.search import chosen_cells
    from ridgeline.launch.engines import engine_kind
    from ridgeline.launch.runtimes import runtime_of
    from ridgeline.recipes.settings import RecipeSettings
    from ridgeline.spec.settings import load_settings
    from ridgeline.sweep.containers import wrap_in
    from ridgeline.sweep.deploy import EMULATED, Deploy
    from ridgeline.sweep.overrides import recipes_with
    from ridgeline.sweep.refit import refit, start_once

    cells = chosen_cells([given.config], given.runner_config, given.cell)
    if len(cells) > 1:
        names = ", ".join(cell.name for cell in cells[:5])
        raise InputError([Problem(f"{len(cells)} cells match `{given.cell}`", key="cell", hint=f"name one of {names}")])
    cell = cells[0]
    old = _earlier(given.against, cell) if given.against else []
    if given.image:
        cell = replace(cell, benchmark=replace(cell.benchmark, image=given.image))
    user = load_settings(given.settings)
    deployment, _ = Deploy(given.engine, RecipeSettings(), recipes_with(user), user)(cell)
    engine_kind(deployment.kind)
    runtime_of(given.runtime)
    if given.image and given.runtime == "none" and deployment.kind != EMULATED:
        sys.stderr.write("note: without --runtime no image is entered: what is installed here is started\n")
    wrap = wrap_in(
        given.runtime, cell, name=f"ridgeline-refit-{os.getpid()}", owner=f"refit-{os.getpid()}",
        mounts=tuple(path.resolve() for path in given.mount),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="ridgeline-refit-") as scratch:
        new, ready = start_once(deployment, given.logs or Path(scratch), wrap=wrap)
    found = refit(deployment, new, ready, old, gpu_memory=_gpu_memory(cell))
    _show(found, cell, as_json=given.json)
    return 1 if found.proposals else 0


def _gpu_memory(cell: Cell) -> int | None:
    """Of one GPU, bytes; None for one of which nothing is known."""
    from ridgeline.spec.facts.library import find_gpu

    try:
        return find_gpu(cell.benchmark.runner).memory_bytes
    except InputError:
        return None


def _earlier(path: Path, cell: Cell) -> list[Evidence]:
    """Evidence of the last point of this cell in a run. Raises InputError when there is none."""
    from ridgeline.core.finding import Evidence
    from ridgeline.results.runfolder import RunFolder

    folder = RunFolder.open(path)
    keys = [point.run_key for point in folder.points() if point.name == cell.name]
    file = folder.cell_folder(keys[-1]) / "evidence.json" if keys else None
    if file is None or not file.exists():
        raise InputError([Problem(f"has no evidence of {cell.name}", key="--against", hint="sweep it first")])
    return [Evidence(piece["name"], piece["value"]) for piece in json.loads(file.read_text())]


def _show(found: Refit, cell: Cell, *, as_json: bool) -> None:
    if as_json:
        data = {
            "cell": cell.name, "image": cell.benchmark.image, "ready_s": dict(found.ready_s),
            "facts": [change._asdict() for change in found.changes], "proposals": list(found.proposals),
        }  # fmt: skip
        sys.stdout.write(json.dumps(data) + "\n")
        return
    sys.stdout.write(f"{cell.name}  {cell.benchmark.image}\n")
    for change in found.changes:
        old = "not known" if change.old is None else _text(change.old)
        new = "not told" if change.new is None else _text(change.new)
        mark = "  " if change.old in (None, change.new) else "! "
        sys.stdout.write(f"{mark}{change.name:<18} {old:>16}  {new:>16}\n")
    sys.stdout.write("".join(f"do  {proposal}\n" for proposal in found.proposals))
    took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.ready_s.items() if seconds is not None)
    sys.stderr.write(f"ready after {took}; nothing was measured\n")


def _text(value: float | str) -> str:
    return value[:16] if isinstance(value, str) else f"{value:,.2f}".rstrip("0").rstrip(".")
