"""Parameter files: what a fit found, in the form that `costparams` reads."""

from __future__ import annotations

import difflib
import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.simulate.costparams import FORMAT, CostParameters
from ridgeline.simulate.fit import SHARED, Fit
from ridgeline.spec.facts.library import read_json

SHIPPED = Path(__file__).parent / "parameters"
PUBLIC = "public InferenceX database, fixed-sequence points"


def text_of(found: Fit, spread: float, points: str, whose: str = "") -> str:
    """The file of a fit. Values that were not fitted keep their source, so that a file says all that it rests on.
    `points`: the files fitted to; `whose`: measurements these are, where that is known."""
    first, parameters = found.points[0], found.parameters
    values: dict[str, Any] = {}
    for item in fields(CostParameters):
        if item.type != "float":
            continue
        value, before = getattr(parameters, item.name), getattr(found.prior, item.name)
        source = found.prior.provenance.get(item.name, "")
        if item.name in SHARED and item.name in found.names:
            files = f"{points} ({whose})" if whose else points
            source = f"fitted to {len(found.points)} points of {files}; prior {before:g}: {source}"
        values[item.name] = {"value": float(f"{value:.6g}"), "source": source}
    models = {
        name: {"time": float(f"{time:.4g}"), "kernels": float(f"{kernels:.4g}")}
        for name, (time, kernels) in sorted(parameters.models.items())
    }
    body = {
        "format": FORMAT,
        "gpu": first.hardware,
        "engine": first.engine,
        "points": len(found.points),
        "spread": None if math.isnan(spread) else round(spread, 4),
        "spread_of": "log(predicted / measured) tokens/s/GPU of layouts left out of the fit",
        "models": models,
        "values": values,
    }
    return json.dumps(body, indent=1) + "\n"


def check_all(path: Path) -> None:
    """`check` of a file, or of all in a folder. Raises InputError for a folder without any, too."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InputError([Problem(f"`{path}` holds no parameter file", hint="`ridgeline calibrate POINTS -o FOLDER`")])
    for file in files:
        check(file)


def check(path: Path) -> None:
    """Raises InputError with everything that is wrong in a parameter file that somebody gave: another version's form,
    values that are no positive numbers, factors of models without both."""
    data = read_json(path)
    where = Where(str(path))
    if data.get("format") != FORMAT:
        hint = "fit it again with this version: `ridgeline calibrate POINTS -o FILE`"
        raise InputError([Problem(f"must be {FORMAT}, is {data.get('format')!r}", where, "format", hint)])
    known = {item.name for item in fields(CostParameters) if item.type == "float"}
    problems = []
    for part in ("values", "models"):
        if not isinstance(data.get(part, {}), dict):
            problems.append(Problem("must be an object", where, part))
    if not problems:
        for name, item in data.get("values", {}).items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                maybe = f"did you mean `{near[0]}`?" if near else None
                problems.append(Problem("is not a cost parameter", where, f"values.{name}", maybe))
            elif not _positive(item, "value"):
                problems.append(Problem("must have a value above 0 and its source", where, f"values.{name}"))
        for name, item in data.get("models", {}).items():
            if not (_positive(item, "time") and _positive(item, "kernels")):
                problems.append(Problem("must have `time` and `kernels`, factors above 0", where, f"models.{name}"))
    spread = data.get("spread")
    if spread is not None and not _positive(data, "spread"):
        problems.append(Problem("must be a number above 0, or null", where, "spread"))
    if problems:
        raise InputError(problems)


def _positive(item: Any, key: str) -> bool:
    value = item.get(key) if isinstance(item, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and value > 0
