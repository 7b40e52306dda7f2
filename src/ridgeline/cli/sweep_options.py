"""What options of `ridgeline sweep` mean, for every verb that asks about the cells such a sweep would run.

In: words of a command line. Out: settings and recipes. Two verbs that are told the same thing get the same run keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.recipes.registry import Recipe
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.spec.settings import Settings
from ridgeline.sweep.deploy import Engine
from ridgeline.sweep.overrides import recipes_with
from ridgeline.sweep.settings import SweepSettings

# What an emulated sweep does when not told otherwise: an hour would prove nothing more, and nobody waits for it.
EMULATED: Mapping[str, Any] = {"duration_s": 150, "speed": 16.0, "warmup_per_lane": 1}


def engine_of(text: str) -> Engine:
    """The kind of engine that `--engine` names. Raises InputError."""
    if text == "real":
        return "real"
    if text == "emulated":
        return "emulated"
    raise InputError([Problem(f"is `{text}`, must be real or emulated", key="--engine")])


def emulates(kind: Engine, cells: Iterable[Cell]) -> bool:
    """Whether every cell runs on the engine model."""
    return kind == "emulated" or all(cell.benchmark.framework == "emulated" for cell in cells)


def sweep_settings(
    emulated: bool, *, duration: int | None, speed: float | None, warmup: int | None, **others: Any
) -> SweepSettings:
    """Settings with what was not given (None) as it is for engines of this kind; `others` are fields as they are."""
    given = {"duration_s": duration, "speed": speed, "warmup_per_lane": warmup}
    told = {name: value for name, value in given.items() if value is not None}
    return SweepSettings(**{**(EMULATED if emulated else {}), **told, **others})


def recipe_settings(settings: SweepSettings) -> RecipeSettings:
    """What recipes are told of a sweep."""
    endpoint = "/v1/completions" if settings.prompts == "token-ids" else "/v1/chat/completions"
    return RecipeSettings(speed=settings.speed, endpoint=endpoint)


def recipes(shell: Path | None, command: str | None, env: Sequence[str] | None, user: Settings) -> tuple[Recipe, ...]:
    """What the command line starts in place of every recipe, then the recipes of the settings and the shipped ones.
    Raises InputError."""
    return (*_started(shell, command, env or ()), *recipes_with(user))


def _started(shell: Path | None, command: str | None, env: Sequence[str]) -> tuple[Recipe, ...]:
    """What the command line starts instead of every recipe."""
    from ridgeline.cli.check_shell import environment_from
    from ridgeline.sweep.scripts import Script

    told = tuple((name, _by_name(name, value)) for name, value in environment_from(env).items())
    if shell is not None and command is not None:
        raise InputError([Problem("there is --shell already", key="--command", hint="give one of them")])
    if shell is not None:
        return (Recipe(str(shell), Script("shell", str(shell), told), framework=None, cells="*"),)
    if command is not None:
        return (Recipe("command", Script("command", command, told), framework=None, cells="*"),)
    if told:
        raise InputError([Problem("goes with --shell or --command", key="--env")])
    return ()


def _by_name(name: str, value: str) -> str:
    """A secret of the command line goes into our own environment, which engines and jobs inherit, and is a name from
    here on: no file and no run key holds it."""
    from ridgeline.launch.secrets import masked

    if masked(name, value) == value:
        return value
    os.environ[name] = value
    return f"{{env:{name}}}"
