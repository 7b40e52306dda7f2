"""A cell's services inside the image that it names, for whatever starts them: a sweep, a refit, a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Service
from ridgeline.launch.runtimes import RUNTIMES, Wrapping, resolved
from ridgeline.launch.supervisor import Wrap
from ridgeline.spec.facts.library import find_gpu


def wrap_in(runtime: str, cell: Cell, *, name: str, owner: str, mounts: tuple[Path, ...] = ()) -> Wrap | None:
    """Words around each service; None without a runtime. `name`: beginning of the containers' names; `owner`: who they
    belong to. The image is started by its digest where docker knows it, so that all services of a cell, and a start
    again later, get the same one."""
    if runtime == "none":
        return None
    enter, image = RUNTIMES[runtime], resolved(cell.benchmark.image) or cell.benchmark.image
    amd = find_gpu(cell.benchmark.runner).vendor == "amd"

    def wrap(service: Service, argv: list[str], env: Mapping[str, str], folder: Path) -> list[str]:
        wrapping = Wrapping(
            image=image,
            name=f"{name}-{service.name}",
            folder=folder.resolve(),
            sweep=owner,
            mounts=mounts,
            gpus=service.gpus,
            amd=amd,
        )
        return enter(argv, env, wrapping)

    return wrap
