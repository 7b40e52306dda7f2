"""What a recipe is given beside the cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import ModelArch


class Facts(NamedTuple):
    """What is known of a cell's model and GPU."""

    arch: ModelArch
    gpu: Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeSettings:
    """`speed`: how much faster than real an emulated engine runs. `endpoint`: the path the prompts are made for.
    `start_timeout_s`: real seconds a service may take to become ready."""

    speed: float = 1.0
    endpoint: str = "/v1/chat/completions"
    seed: int = 0
    start_timeout_s: float = 600.0
