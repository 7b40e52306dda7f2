"""Cells and facts that tests of recipes share, and how a deployment is written down for comparison."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario
from ridgeline.core.deployment import Deployment
from ridgeline.core.topology import Pool, Topology
from ridgeline.core.where import Where
from ridgeline.recipes.registry import deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.library import find_gpu, find_model

EXPECTED = Path(__file__).parent / "expected"
AGENTIC = Scenario("agentic-coding", duration_s=3600)
FIXED = Scenario("fixed-seq-len", isl=1024, osl=1024)
ROUTER = Component("vllm-router", "0.1.14")
DSV4 = Benchmark(
    key="dsv4-fp4-mi355x-vllm-agentic-mtp",
    image="vllm/vllm-openai-rocm:v0.26.0",
    model="deepseek-ai/DeepSeek-V4-Pro",
    model_prefix="dsv4",
    precision="fp4",
    framework="vllm",
    runner="cluster:mi355x-amds",
)
HERE = Where("config.yaml", 12, 9)


def cell(benchmark: Benchmark = DSV4, arm: Arm | None = None, concurrency: int = 32, **changes: object) -> Cell:
    """A cell; `changes` replace fields of the benchmark."""
    scenario = changes.pop("scenario", AGENTIC)
    assert isinstance(scenario, Scenario)
    benchmark = replace(benchmark, **changes)  # type: ignore[arg-type]
    return Cell(benchmark, scenario, arm or Arm(Topology(8), spec_decoding="mtp"), concurrency, where=HERE)


def facts(of: Cell) -> Facts:
    return Facts(find_model(of.benchmark.model), find_gpu(of.benchmark.runner))


def deploy(of: Cell, settings: RecipeSettings | None = None) -> Deployment:
    return deployment_of(of, facts(of), settings or RecipeSettings())


def words(deployment: Deployment, name: str = "engine") -> list[str]:
    return [item.text for item in deployment.service(name).argv]


def option(argv: list[str], flag: str) -> str:
    """The word after a flag that stands there once."""
    assert argv.count(flag) == 1, f"{flag} stands {argv.count(flag)} times in {argv}"
    return argv[argv.index(flag) + 1]


def told(cells: Iterable[Cell], settings: RecipeSettings | None = None) -> str:
    """What a reviewer would read: per cell its recipe, and per service its place, environment, files and command with
    one flag a line."""
    lines = []
    for of in cells:
        deployment = deploy(of, settings)
        lines.append(f"== {of.name}  {deployment.recipe}  entry {deployment.entry}")
        for service in deployment.services:
            place = "" if service.node is None else f" on node {service.node} gpus {service.gpus}"
            after = f" after {', '.join(service.after)}" if service.after else ""
            lines.append(f"{service.name} ({service.role}){place}{after}; ports {', '.join(service.ports)}")
            lines += [f"  {name}={value}" for name, value in service.env]
            lines += [f"  file {name}: {value}" for name, value in service.files or ()]
            line: list[str] = []
            for word in (item.text for item in service.argv):
                if word.startswith("-") and line:
                    lines.append("  " + " ".join(line))
                    line = []
                line.append(shlex.quote(word))
            lines.append("  " + " ".join(line))
    return "\n".join(lines) + "\n"


def seed(runs: Iterable[tuple[Topology, Component | None, Iterable[int]]], image: str) -> list[Cell]:
    """The cells of a search space on eight MI355X."""
    return [
        cell(arm=Arm(topology, spec_decoding="mtp", router=router), concurrency=concurrency, image=image)
        for topology, router, concurrencies in runs
        for concurrency in concurrencies
    ]


TP8, TP4, TEP8 = Topology(8), Topology(4), Topology(8, ep=8)
DEP8 = Topology(8, ep=8, dp_attn=True)
SEED_2503 = seed(
    [(TP8, None, (1, 4, 8, 16, 32, 40, 48)), (DEP8, ROUTER, (32,))],
    "vllm/vllm-openai-rocm:nightly-b88916617d3d2249bff0dae5cecb6b727c980a20",
)
SEED_2540 = seed(
    [
        (TP8, None, (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40)),
        (TP4, None, (1, 2, 4, 6, 8, 12, 16, 20)),
        (TEP8, None, (8, 16, 24, 32, 40, 48, 56)),
        (DEP8, ROUTER, (32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224)),
    ],
    "vllm/vllm-openai-rocm:v0.26.0",
)
POOLS = Arm(
    pools=(
        Pool("prefill", 2, Topology(4), settings=("PREFILL_NODES=1",)),
        Pool("decode", 1, Topology(8, ep=8, dp_attn=True)),
    ),
    router=Component("vllm-router", "0.1.17"),
    kv_p2p_transfer="nixl",
)
