"""Finds the recipe of a cell: by framework, model prefix, precision and GPU, most specific first, generic last.

What the user's settings override comes before all of them. Frameworks that have no recipe are named with the reason,
so that a preflight can say UNKNOWN and a sweep refuses before anything is started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.where import Where
from ridgeline.recipes.atom import atom
from ridgeline.recipes.dsv4_vllm import b200, b300, mi355x, narrow
from ridgeline.recipes.dynamo import dynamo_sglang, dynamo_vllm
from ridgeline.recipes.emulated import emulated
from ridgeline.recipes.generic_vllm import generic_vllm
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.recipes.sglang_cells import dsv4_sglang, generic_sglang
from ridgeline.recipes.trt import trt

Write = Callable[[Cell, Facts, RecipeSettings], Deployment]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function from a cell to a deployment, and the cells it is for. None fits anything; `gpu` is the beginning of
    the hardware's name (`mi355x` fits `cluster:mi355x-amds`); `cells`, a pattern over cell names, is a user's override.
    `nodes`: whether it is for cells with pools (True), without (False), or both (None)."""

    name: str
    write: Write
    framework: str | None
    model_prefix: str | None = None
    precision: str | None = None
    gpu: str | None = None
    nodes: bool | None = None
    cells: str | None = None
    where: Where | None = None  # the override in the settings

    def fits(self, cell: Cell) -> bool:
        benchmark = cell.benchmark
        hardware = benchmark.runner.removeprefix("cluster:")
        return (
            self.framework in (None, benchmark.framework)
            and self.model_prefix in (None, benchmark.model_prefix)
            and self.precision in (None, benchmark.precision)
            and (self.gpu is None or hardware.startswith(self.gpu))
            and self.nodes in (None, bool(cell.arm.pools))
            and (self.cells is None or fnmatchcase(cell.name, self.cells))
        )

    @property
    def keys(self) -> tuple[bool, int]:
        """How specific it is: overrides first, then by how much it asks of a cell."""
        return self.cells is not None, sum(key is not None for key in (self.model_prefix, self.precision, self.gpu))

    @property
    def reason(self) -> str:
        """What made it fit, for people."""
        if self.cells is not None:
            return f"override for cells `{self.cells}`" + (f" at {self.where}" if self.where else "")
        keys = (("model prefix", self.model_prefix), ("precision", self.precision), ("GPU", self.gpu))
        return ", ".join([f"framework {self.framework}", *(f"{name} {value}" for name, value in keys if value)])


RECIPES: tuple[Recipe, ...] = (
    Recipe("emulated", emulated, "emulated"),
    Recipe("dsv4-mi355x-vllm", mi355x, "vllm", model_prefix="dsv4", precision="fp4", gpu="mi355x", nodes=False),
    Recipe("dsv4-b200-vllm", b200, "vllm", model_prefix="dsv4", precision="fp4", gpu="b200", nodes=False),
    Recipe("dsv4-b300-vllm", b300, "vllm", model_prefix="dsv4", precision="fp4", gpu="b300", nodes=False),
    *(
        Recipe(f"dsv4-{gpu}-vllm", narrow, "vllm", model_prefix="dsv4", gpu=gpu, nodes=False)
        for gpu in ("h200", "mi300x", "mi325x")
    ),
    Recipe("vllm", generic_vllm, "vllm"),
    Recipe("dsv4-sglang", dsv4_sglang, "sglang", model_prefix="dsv4"),
    Recipe("sglang", generic_sglang, "sglang"),
    Recipe("dsv4-sglang-disagg", dsv4_sglang, "sglang-disagg", model_prefix="dsv4"),
    Recipe("sglang-disagg", generic_sglang, "sglang-disagg"),
    Recipe("atom", atom, "atom"),
    Recipe("trt", trt, "trt"),
    Recipe("dynamo-vllm", dynamo_vllm, "dynamo-vllm"),
    Recipe("dynamo-sglang", dynamo_sglang, "dynamo-sglang"),
)

UNKNOWN = {
    "dynamo-trt": "TensorRT-LLM workers under Dynamo: their options lie in the file that CONFIG_FILE names",
    "atom-disagg": "disaggregated ATOM: its hand-over flags are not known",
    "llmd-vllm": "vLLM under llm-d: its options lie in the file that CONFIG_FILE names",
    "tilert": "TileRT: its flags are not known",
}


def choose(cell: Cell, recipes: Sequence[Recipe] = RECIPES) -> Recipe:
    """The most specific recipe that fits, the first of equals. Raises CannotRender, naming the framework and why, when
    none does."""
    fitting = [recipe for recipe in recipes if recipe.fits(cell)]
    if not fitting:
        framework = cell.benchmark.framework
        known = ", ".join(sorted({recipe.framework for recipe in recipes if recipe.framework}))
        what = f"framework `{framework}`" + (f" ({UNKNOWN[framework]})" if framework in UNKNOWN else "")
        raise CannotRender(
            cell,
            what,
            hint=f"known: {known}; a recipe of your own joins by `recipes` in the settings, and `--engine emulated` "
            "runs the cell on the engine model, whose points say so",
        )
    return max(fitting, key=lambda recipe: recipe.keys)


def deployment_of(
    cell: Cell, facts: Facts, settings: RecipeSettings, recipes: Sequence[Recipe] = RECIPES
) -> Deployment:
    """The deployment of a cell, with the recipe that wrote it and why it was chosen. Raises CannotRender for what the
    recipe has no flags for, InputError for values no engine would take."""
    recipe = choose(cell, recipes)
    return replace(recipe.write(cell, facts, settings), recipe=f"{recipe.name} ({recipe.reason})")
