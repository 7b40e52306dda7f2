"""Efficiencies and fixed times of one (GPU, engine build): a dozen numbers, each with its unit and where it came from.

They are data (parameters/*.json), so that a calibration writes a file and changes no code. What is not in a file comes
from default.json, which holds what was measured on one H200 and is an assumption everywhere else.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

FORMAT = "ridgeline-cost/1"
ANY_MODEL = "*"
# GPUs without points of their own borrow the set of their nearest relative; the spread of what they get is wider.
_NEAREST = {"h100": "h200", "b300": "b200", "gb200": "b200", "gb300": "b200", "mi300x": "mi325x"}
_BORROWED = 1.6  # leave-GPU-out error over leave-topology-out error in the shipped validation
_FOLDER = Path(__file__).parent / "parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostParameters:
    """Shares are of the datasheet's peak; times are seconds."""

    weight_read: float  # share of memory bandwidth reached by small-batch matrix products
    narrow_read: float  # what of that is left when dense layers hold 4-bit weights
    kv_read: float  # the same for decode attention
    narrow_cache: float  # what of that is left when the cache holds 8-bit rows
    expert_read: float  # the same for grouped products over experts
    traffic: float  # the same for element-wise kernels
    gemm_top: float  # share of peak FLOP/s at many tokens
    gemm_half: float  # tokens at which half of that is reached
    expert_top: float  # the same for grouped products
    expert_half: float  # tokens per expert
    prefill_attention: float  # share of peak bf16 FLOP/s
    sparse_attention: float  # the same for attention that gathers the tokens it reads
    expert_evenness: float  # shape of the gamma distribution of expert popularity: large is uniform routing
    link: float  # share of link bandwidth
    collective_s: float  # start of one collective
    device: float  # all device time of a step over what the other shares say, a factor
    graph_kernel_s: float  # one kernel inside a captured graph
    product_kernels: float  # other kernels that start and end in the time in which a matrix product does
    eager_kernel_s: float  # launching one kernel from the host
    recurrent_launch_s: float  # the same for one recurrent layer's part that no graph holds when prompts are computed
    unsaid_drafts: float  # gain of drafts whose number a row does not say, over that of the usual number
    sample_s: float  # sampling and output, per sequence and step
    attach_s: float  # host work per block newly attached to a request
    wake_s: float  # from an idle engine to its first kernel
    frontend_s: float  # the server's work before a request reaches the engine
    frontend_token_s: float  # the same per prompt token, where bodies hold token ids
    text_token_s: float  # what a prompt token takes more where bodies hold text
    reply_s: float  # from the end of a step to its bytes leaving the server
    # "model precision" -> (device time, kernels), factors
    models: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    spread: float | None = None  # standard deviation of log(predicted / measured) on topologies left out of the fit
    provenance: Mapping[str, str] = field(default_factory=dict, compare=False)

    def for_text(self) -> CostParameters:
        """The parameters of a server whose requests hold text, to be tokenised."""
        return replace(self, frontend_token_s=self.frontend_token_s + self.text_token_s)

    def knows(self, model: str) -> bool:
        """Whether the set has factors of a model, in any precision."""
        return any(name.rsplit(" ", 1)[0] == model for name in self.models)

    def factors(self, model: str, precision: str) -> tuple[float, float]:
        """Of a checkpoint; of the same model in other precisions; 1."""
        found = self.models.get(f"{model} {precision}")
        if found is None:
            same = [pair for name, pair in self.models.items() if name.rsplit(" ", 1)[0] == model]
            found = _middle(same) if same else self.models.get(ANY_MODEL)
        return found or (1.0, 1.0)


def parameters_for(gpu: str, engine: str, extra: Path | None = None, *, measured_only: bool = False) -> CostParameters:
    """The parameters of a GPU and an engine build: `extra` (a file, or the one of this name in a folder) over
    GPU-ENGINE.json over default.json. A file that says it is of another GPU or engine does not count.

    `measured_only`: leave out what was fitted, here and by model.

    Raises InputError naming keys that are unknown or no positive number.
    """
    found: dict[str, tuple[float, str]] = dict(_read(_FOLDER / "default.json"))
    own, borrowed = _own_file(gpu.lower(), engine)
    extra = _given(extra, gpu.lower(), engine)
    if own.exists():
        read = _read(own)
        found |= {key: item for key, item in read.items() if not (measured_only and item[1].startswith("fitted"))}
    else:
        found = {key: (value, f"assumed as measured on H200: {source}") for key, (value, source) in found.items()}
    if extra is not None:
        found |= _read(extra)
    values: dict[str, Any] = {key: value for key, (value, _) in found.items()}
    models, spread = ({}, None) if measured_only else _extras(extra if extra is not None else own)
    provenance = {key: source for key, (_, source) in found.items()}
    if borrowed and extra is None:
        spread = spread and spread * _BORROWED
        provenance = {key: f"borrowed from {own.stem}: {source}" for key, source in provenance.items()}
    return CostParameters(**values, models=models, spread=spread, provenance=provenance)


def _given(path: Path | None, gpu: str, engine: str) -> Path | None:
    """The user's file for a GPU and engine, if there is one."""
    if path is not None and path.is_dir():
        path = path / f"{gpu}-{engine}.json"
        return path if path.exists() else None
    if path is None or not path.exists():
        return path  # which is said when it is read
    names = zip(_whose(path), (gpu, engine), strict=True)
    return path if all(said in (None, "any", wanted) for said, wanted in names) else None


@lru_cache(maxsize=64)
def _whose(path: Path) -> tuple[str | None, str | None]:
    """The GPU and engine that a file names; nothing of one that cannot be read, which is said when it is."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return data.get("gpu"), data.get("engine")
    except (OSError, ValueError, AttributeError):
        return None, None


def _own_file(gpu: str, engine: str) -> tuple[Path, bool]:
    """The file of a GPU and engine, and whether it is a relative's."""
    own = _FOLDER / f"{gpu}-{engine}.json"
    if own.exists():
        return own, False
    engines = (engine, engine.removeprefix("dynamo-"))  # the engine behind a router of its own
    others = (_FOLDER / f"{kind}-{name}.json" for name in engines for kind in (gpu, _NEAREST.get(gpu, gpu)))
    near = next((path for path in others if path.exists()), None)
    return (own, False) if near is None else (near, True)


def _middle(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The median of each of two factors, in the logarithm."""
    time, kernels = (math.exp(statistics.median(math.log(pair[part]) for pair in pairs)) for part in (0, 1))
    return time, kernels


@lru_cache(maxsize=64)
def _extras(path: Path) -> tuple[dict[str, tuple[float, float]], float | None]:
    """Factors by model and the spread, of a file that was fitted."""
    if not path.exists():
        return {}, None
    data = json.loads(path.read_text(encoding="utf-8"))
    models = {name: (float(item["time"]), float(item["kernels"])) for name, item in data.get("models", {}).items()}
    spread = data.get("spread")
    return models, None if spread is None else float(spread)


@lru_cache(maxsize=16)
def _read(path: Path) -> dict[str, tuple[float, str]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        items = {key: (float(item["value"]), str(item["source"])) for key, item in data["values"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError([Problem(f"not a {FORMAT} file: {error}", Where(str(path)))]) from error
    known = {item.name for item in fields(CostParameters)} - {"provenance"}
    problems = [Problem("is not a cost parameter", Where(str(path)), key) for key in items if key not in known]
    problems += [Problem("must be positive", Where(str(path)), key) for key, (value, _) in items.items() if value <= 0]
    if problems:
        raise InputError(problems)
    return items
