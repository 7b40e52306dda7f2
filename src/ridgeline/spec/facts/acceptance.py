"""Golden acceptance lengths: how many tokens a verification step yields, by model, thinking mode and draft length.

In: files in InferenceX's form (`model: {thinking_on: {N: AL}}`), found by path. Out: `Curve` values. The file says
which draft method it measured only in its name and comments; both are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

FOLDER = "golden_al_distribution"
MODES = ("thinking_on", "thinking_off")


@dataclass(frozen=True, slots=True)
class Curve:
    """One model's acceptance lengths in one mode. `variant`: the file's stem, which names model and draft method."""

    model: str
    variant: str
    mode: str
    lengths: Mapping[int, float]
    source: str


def find_folder(*near: Path) -> Path | None:
    """A `golden_al_distribution` folder beside one of the given files or beside any folder above it."""
    for path in near:
        for folder in path.resolve().parents:
            if (folder / FOLDER).is_dir():
                return folder / FOLDER
    return None


def load_curves(paths: Iterable[Path | str]) -> tuple[Curve, ...]:
    """Curves of files and folders of files. Raises InputError with every problem."""
    curves: list[Curve] = []
    problems: list[Problem] = []
    for given in map(Path, paths):
        if not given.exists():
            problems.append(Problem("there is no such file or folder", Where(str(given))))
            continue
        for path in sorted(given.glob("*.y*ml")) if given.is_dir() else [given]:
            curves += _curves(_read(path, problems), path, problems)
    if problems:
        raise InputError(problems)
    return tuple(curves)


def _curves(data: Mapping[str, Any], path: Path, problems: list[Problem]) -> Iterable[Curve]:
    for model, modes in data.items():
        if not isinstance(modes, dict):
            problems.append(Problem("must map modes to lengths", Where(str(path)), str(model)))
            continue
        for mode, lengths in modes.items():
            try:
                numbers = {int(draft): float(length) for draft, length in (lengths or {}).items()}
            except (TypeError, ValueError, AttributeError):
                problems.append(Problem("must map draft lengths to numbers", Where(str(path)), f"{model}.{mode}"))
                continue
            yield Curve(str(model), path.stem, str(mode), numbers, str(path))


def _read(path: Path, problems: list[Problem]) -> Mapping[str, Any]:
    """A file of the peer's whose keys are numbers, which configs must not have: read plainly."""
    try:
        data = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        problems.append(Problem(f"cannot be read: {' '.join(str(error).split())}", Where(str(path))))
        return {}
    if not isinstance(data, dict):
        problems.append(Problem("must map models to modes", Where(str(path))))
        return {}
    return data
