"""What two cells of one sweep are loaded with."""

from __future__ import annotations

import pytest

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.topology import Topology
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload
from ridgeline.trace.synth import quickstart_trace

BENCHMARK = Benchmark("k", "img", "Qwen/Qwen3-8B", "qwen3", "fp8", "emulated", "cluster:h200-nv")
SCENARIOS = [Scenario("fixed-seq-len", isl=160, osl=4), Scenario("agentic-coding", duration_s=60)]


def first_bodies(workload: Workload, cell: Cell, run_id: str) -> list[bytes]:
    load = workload.load(cell, run_id, "served")
    load.pacer.begin(0)
    return [b"".join(load.prompts.body(send)) for send in load.pacer.advance(0).sends]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.kind)
def test_cells_of_one_seed_share_no_prompt_on_the_server_they_share(scenario: Scenario) -> None:
    workload = Workload(SweepSettings(requests_per_lane=5), quickstart_trace())
    small, large = (Cell(BENCHMARK, scenario, Arm(Topology(1)), lanes) for lanes in (2, 4))
    first, second = first_bodies(workload, small, "run-a"), first_bodies(workload, large, "run-b")
    assert first and second and not set(first) & set(second)
    assert first_bodies(workload, small, "run-a") == first, "equal ids give equal bytes"
