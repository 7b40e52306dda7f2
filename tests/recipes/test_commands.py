"""What a reviewer would read: commands of whole search spaces, held as text. `python -m tests.recipes.test_commands`
writes the texts again; look at the difference before keeping it."""

from __future__ import annotations

import pytest
from tests.golden import golden
from tests.recipes.cells import (
    DEP8,
    EXPECTED,
    FIXED,
    POOLS,
    ROUTER,
    SEED_2503,
    SEED_2540,
    TEP8,
    TP8,
    cell,
    told,
)

from ridgeline.cli.search import chosen_cells
from ridgeline.core.cell import Arm, Cell, Component
from ridgeline.core.topology import Pool, Topology
from ridgeline.recipes.settings import RecipeSettings

QWEN = {"model": "Qwen/Qwen3-235B-A22B", "model_prefix": "qwen3", "precision": "bf16", "key": "qwen3-bf16-h200-vllm"}
MTP, PLAIN = Arm(TP8, spec_decoding="mtp"), Arm(TP8)
DISAGG = Arm(
    pools=(
        Pool("prefill", 1, Topology(4), settings=("PREFILL_NODES=1",)),
        Pool("decode", 2, Topology(16, ep=16, dp_attn=True), settings=("DECODE_NODES=4",)),
    ),
    router=Component("sglang-router", "0.3.2"),
    kv_p2p_transfer="mori",
)
DYNAMO = Arm(
    pools=(Pool("prefill", 1, Topology(1, ep=8, dp_attn=True)), Pool("decode", 2, Topology(4))),
    router=Component("dynamo-router", "1.3.1"),
    kv_p2p_transfer="nixl",
)


def offloaded(name: str, **changes: object) -> Cell:
    backend = Component(name)
    topology = DEP8 if name == "native" else TP8
    arm = Arm(topology, kv_offloading="dram", kv_offload_backend=backend, cpu_dram_gb=2000)
    return cell(arm=arm, concurrency=16, **changes)


SPACES: dict[str, list[Cell]] = {
    "seed-2503": SEED_2503,
    "seed-2540": SEED_2540,
    "dsv4-b200-b300": [
        cell(arm=arm, concurrency=48, key=f"dsv4-{gpu}", runner=gpu, image="vllm/vllm-openai:v0.26.0")
        for gpu in ("b200-dgxc", "cluster:b300-nv")
        for arm in (MTP, Arm(DEP8, spec_decoding="mtp", router=ROUTER))
    ],
    "dsv4-sglang": [
        cell(arm=MTP, key="dsv4-b200-sglang", framework="sglang", runner="b200"),
        cell(
            arm=Arm(DEP8, spec_decoding="mtp", router=Component("sglang-router", "0.3.2")),
            key="dsv4-b300-sglang",
            framework="sglang",
            runner="b300",
        ),
        cell(arm=Arm(TEP8, spec_decoding="mtp"), key="dsv4-mi355x-sglang", framework="sglang"),
    ],
    "generic-vllm": [
        cell(arm=Arm(Topology(4)), concurrency=64, runner="h200", scenario=FIXED, **QWEN),
        cell(arm=Arm(Topology(8, ep=8)), concurrency=16, runner="mi300x", **QWEN),
        cell(arm=POOLS, concurrency=64, runner="h200", scenario=FIXED, **QWEN),
    ],
    "kv-stores": [offloaded(name) for name in ("native", "vllm-simple", "lmcache", "mooncake")]
    + [offloaded("hicache", framework="sglang", runner="b300", key="dsv4-b300-sglang")],
    "other-engines": [
        cell(arm=Arm(DEP8, spec_decoding="mtp"), framework="atom", key="dsv4-atom"),
        cell(arm=Arm(DEP8, spec_decoding="mtp"), framework="trt", key="dsv4-trt", runner="b200"),
        cell(arm=DISAGG, framework="sglang-disagg", key="dsv4-disagg", runner="mi355x-disagg"),
        cell(arm=DYNAMO, framework="dynamo-vllm", key="dsv4-dynamo", runner="gb200", concurrency=256, scenario=FIXED),
        cell(arm=DYNAMO, framework="dynamo-sglang", key="dsv4-dynamo-sglang", runner="gb200", scenario=FIXED),
    ],
}


@pytest.mark.parametrize("name", SPACES)
def test_the_commands_are_those_that_were_reviewed(name: str) -> None:
    assert told(SPACES[name]) == (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "cells"), [("seed-2503", SEED_2503), ("seed-2540", SEED_2540)])
def test_the_seeds_are_the_cells_of_their_configs(name: str, cells: list[Cell]) -> None:
    found = chosen_cells([golden(f"examples/{name}.yaml")], None, "*")
    assert [one.fingerprint for one in found] == [one.fingerprint for one in cells]


def test_an_accuracy_run_differs_by_real_verification_only() -> None:
    synthetic = ',"rejection_sample_method":"synthetic","synthetic_acceptance_length":2.49'
    throughput, accuracy = told(SEED_2540), told(SEED_2540, RecipeSettings(accuracy=True))
    assert throughput.count(synthetic) == len(SEED_2540)
    assert accuracy == throughput.replace(synthetic, "")


if __name__ == "__main__":
    for space, cells in SPACES.items():
        (EXPECTED / f"{space}.txt").write_text(told(cells), encoding="utf-8")
