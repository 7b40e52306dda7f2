"""Finds GPUs and models by the names people use. A file dropped into a folder joins without code.

Search order: folders named by the RIDGELINE_FACTS environment variable (`gpus/*.json`, `models/*.json` inside each),
then what is shipped here. A model may also be given as the path of a `config.json`.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.spec.facts.archfile import FORMAT, from_json
from ridgeline.spec.facts.gpu import Gpu, gpu_from
from ridgeline.spec.facts.model import ModelArch

_SHIPPED = Path(__file__).parent


def find_gpu(label: str) -> Gpu:
    """The GPU of a runner label or hardware name: `h200`, `cluster:h200-nv`, `mi355x-amds`, `gb200`.

    Runner labels are GPU names with suffixes and an optional `cluster:`; the longest known prefix wins. Raises
    InputError naming what is known.
    """
    name = label.lower().removeprefix("cluster:")
    known = _gpus(os.environ.get("RIDGELINE_FACTS", ""))
    matches = [prefix for prefix in known if _starts(name, prefix)]
    if not matches:
        hint = f"known: {', '.join(sorted(known))}; add one as gpus/NAME.json in a folder named by RIDGELINE_FACTS"
        raise InputError([Problem(f"no facts about GPU `{label}`", key="gpu", hint=hint)])
    return known[max(matches, key=len)]


def find_model(name: str) -> ModelArch:
    """The model of a name (`Qwen/Qwen3-8B`, `Qwen3-8B-FP8`) or of a path to a `config.json` or one of our files.

    The organisation is dropped, case does not matter, and the longest known name that the given one starts with wins,
    so that re-quantised and fine-tuned releases find their architecture. Raises InputError naming what is known.
    """
    path = Path(name)
    if path.suffix == ".json" or (name and _is_folder(path)):
        return load_model(path / "config.json" if _is_folder(path) else path)
    short = name.rstrip("/").rsplit("/", 1)[-1].lower()
    known = _models(os.environ.get("RIDGELINE_FACTS", ""))
    matches = [alias for alias in known if _starts(short, alias)]
    if not matches:
        hint = f"known: {', '.join(sorted(known))}; or give the path of a config.json"
        raise InputError([Problem(f"no facts about model `{name}`", key="model", hint=hint)])
    return load_model(known[max(matches, key=len)])


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long for a path, or no path at all
        return False


@lru_cache(maxsize=64)
def load_model(path: Path) -> ModelArch:
    """A model from a `config.json` or from one of our files. Raises InputError."""
    data = read_json(path)
    if data.get("format") == FORMAT:
        return from_json(data, str(path))
    from ridgeline.spec.facts.families import arch_from

    name = path.parent.name if path.name == "config.json" else path.stem
    return arch_from(data, name=name, file=str(path), source=str(path))


def _starts(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and (
        len(name) == len(prefix) or re.match(r"[^a-z0-9]", name[len(prefix) :]) is not None
    )


@lru_cache(maxsize=8)
def _gpus(extra: str) -> dict[str, Gpu]:
    found: dict[str, Gpu] = {}
    for path in _files(extra, "gpus"):
        gpu = gpu_from(read_json(path), str(path))
        for label in gpu.labels:
            found.setdefault(label, gpu)
    return found


@lru_cache(maxsize=8)
def _models(extra: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in _files(extra, "models"):
        data = read_json(path)
        for alias in (path.stem, data.get("name", path.stem), *data.get("names", ())):
            found.setdefault(str(alias).rsplit("/", 1)[-1].lower(), path)
    return found


def _files(extra: str, kind: str) -> list[Path]:
    folders = [Path(part) for part in extra.split(os.pathsep) if part] + [_SHIPPED]
    return [path for folder in folders for path in sorted((folder / kind).glob("*.json"))]


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises InputError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError([Problem(error.strerror or str(error), Where(str(path)))]) from error
    except ValueError as error:
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        raise InputError([Problem(f"not JSON: {error}", Where(str(path), line, column))]) from error
    if not isinstance(data, dict):
        raise InputError([Problem("must be a JSON object", Where(str(path)))])
    return data
