"""Parameter files: what a fit found, in the form that `costparams` reads."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

from ridgeline.simulate.costparams import FORMAT, CostParameters
from ridgeline.simulate.fit import SHARED, Fit

SHIPPED = Path(__file__).parent / "parameters"
_SOURCE = "public InferenceX database, fixed-sequence points"


def text_of(found: Fit, spread: float, points: str) -> str:
    """The file of a fit. Values that were not fitted keep their source, so that a file says all that it rests on."""
    first, parameters = found.points[0], found.parameters
    values: dict[str, Any] = {}
    for item in fields(CostParameters):
        if item.type != "float":
            continue
        value, before = getattr(parameters, item.name), getattr(found.prior, item.name)
        source = found.prior.provenance.get(item.name, "")
        if item.name in SHARED and item.name in found.names:
            source = f"fitted to {len(found.points)} points of {points} ({_SOURCE}); prior {before:g}: {source}"
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
