"""What a recipe is given beside the cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.spec.facts.acceptance import Curve
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import ModelArch
from ridgeline.spec.settings import Fleet, load_settings


class Facts(NamedTuple):
    """What is known of a cell's model, its GPU and the machines. `fleet` None: what the runner label says;
    `model_file`: the config.json that the settings name for the model."""

    arch: ModelArch
    gpu: Gpu
    fleet: Fleet | None = None
    model_file: str | None = None

    def gpus_per_node(self, cell: Cell) -> int:
        """GPUs of one node of the cell's fleet."""
        fleet = self.fleet or load_settings().fleet(cell.benchmark.runner)
        return fleet.gpus_per_node if fleet else 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeSettings:
    """`speed`: how much faster than real an emulated engine runs. `endpoint`: the path the prompts are made for.
    `start_timeout_s`: real seconds a service may take to become ready. `accuracy`: the run scores answers, so drafts
    are really verified. `mode`: which golden acceptance lengths apply. `curves`: those lengths; None for the shipped
    ones."""

    speed: float = 1.0
    endpoint: str = "/v1/chat/completions"
    seed: int = 0
    start_timeout_s: float = 600.0
    accuracy: bool = False
    mode: str = "thinking_on"
    curves: tuple[Curve, ...] | None = None
