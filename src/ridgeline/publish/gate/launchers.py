"""Which launch script of a repository starts a cell, by InferenceX's way of naming them.

A script is named by words joined by `_`: model prefix, precision, GPU, framework, `mtp`; its folder says agentic or
fixed.
Words that a name leaves out fit any cell; words that it has must be the cell's. The most specific one wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from ridgeline.core.cell import Cell

PRECISIONS = frozenset({"fp4", "fp8", "bf16", "fp16", "int4", "int8", "nvfp4", "mxfp4"})
FRAMEWORKS = frozenset({"vllm", "sglang", "trt", "trtllm", "atom", "dynamo"})
_NOT_LAUNCHERS = ("lib", "utils", "common", "helpers")


def launcher_of(cell: Cell, gpu: str, scripts: Iterable[str]) -> str | None:
    """The script (a path) that starts the cell on GPUs of this name, None when the repository has none for it."""
    found = [(score, path) for path in scripts if (score := _score(cell, gpu.lower(), path)) is not None]
    return max(found, key=lambda one: (one[0], one[1]))[1] if found else None


def _score(cell: Cell, gpu: str, path: str) -> int | None:
    """How many words of the name say something about the cell; None when one of them says another cell."""
    place = PurePosixPath(path)
    words = re.split(r"[_-]", place.stem.lower())
    if place.suffix != ".sh" or words[-1] in _NOT_LAUNCHERS:
        return None
    benchmark, agentic = cell.benchmark, cell.scenario.kind == "agentic-coding"
    if benchmark.model_prefix.lower() not in words or gpu not in words:
        return None
    folder = "/".join(place.parts[:-1]).lower()
    if ("agentic" in folder or "agentic" in words) != agentic and ("agentic" in folder or "fixed" in folder):
        return None
    if bool(cell.arm.pools) != ("multi_node" in folder or "multi-node" in folder) and "node" in folder:
        return None
    score = 2
    precisions, frameworks = PRECISIONS & set(words), FRAMEWORKS & set(words)
    if precisions:
        if benchmark.precision.lower() not in precisions:
            return None
        score += 1
    if frameworks:
        if not frameworks & {*benchmark.framework.lower().split("-"), benchmark.framework.lower()}:
            return None
        score += 1
    if {"mtp", "eagle", "eagle3", "spec"} & set(words):
        if cell.arm.spec_decoding == "none":
            return None
        score += 1
    return score
