"""Where cells lie, for choosing among them: fixed lengths by their steady state, sessions in virtual time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG

from ridgeline.cli.search import chosen_cells
from ridgeline.core.cell import Arm, Cell, Scenario
from ridgeline.core.topology import Pool, Topology
from ridgeline.sweep.predict import placed_all, predict
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.spending import candidate_of
from ridgeline.sweep.workload import Workload
from ridgeline.trace.synth import quickstart_trace

SETTINGS = SweepSettings(duration_s=60, speed=16, max_sessions=4)
FIXED = Scenario("fixed-seq-len", isl=1024, osl=128)


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return tuple(chosen_cells([CONFIG.with_name("pools.yaml")], None, "*"))


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload(SETTINGS, Path(quickstart_trace()))


def pools(cell: Cell, prefill: int, decode: int, tp: int = 1, **more: object) -> Cell:
    sizes = (Pool("prefill", prefill, Topology(tp)), Pool("decode", decode, Topology(tp)))
    found = tuple(pool for pool in sizes if pool.workers)
    return replace(cell, scenario=FIXED, arm=Arm(pools=found), **more)  # type: ignore[arg-type]


def place(cell: Cell, workload: Workload) -> tuple[float, float]:
    (found,) = placed_all([cell], SETTINGS, workload)
    assert found.point is not None, found.refusal
    x, y = found.point.value("interactivity.p50"), found.point.value("throughput_per_gpu.total")
    assert x is not None and y is not None
    return x, y


def test_sessions_on_pools_are_candidates_of_an_adaptive_sweep(cells: tuple[Cell, ...], workload: Workload) -> None:
    found = placed_all(cells, SETTINGS, workload)
    placed = [(one.cell, one.point, one.engine) for one in found if one.point is not None]
    candidates = [candidate_of(*one, start_s=600.0, cell_s=3600.0) for one in placed]
    assert [one.run_cost for one in candidates if one] == [4.0, 4.0], "four GPUs for an hour"
    assert len({one.arm for one in candidates if one}) == 1


def test_places_come_in_the_order_of_the_cells(cells: tuple[Cell, ...], workload: Workload) -> None:
    mixed = [replace(cells[0], scenario=FIXED), cells[0], replace(cells[1], scenario=FIXED)]
    found = placed_all(mixed, SETTINGS, workload)
    assert [(one.cell.scenario.kind, one.cell.concurrency) for one in found] == [
        (cell.scenario.kind, cell.concurrency) for cell in mixed
    ]
    assert found[1].point == predict(cells[0], SETTINGS, workload).point


def test_the_steady_state_is_what_virtual_time_walks_to(cells: tuple[Cell, ...], workload: Workload) -> None:
    cell = replace(cells[0], scenario=FIXED, arm=Arm(topology=Topology(1)), concurrency=4)
    (steady,), walked = placed_all([cell], SETTINGS, workload), predict(cell, SETTINGS, workload)
    assert steady.point is not None and walked.point is not None, (steady.refusal, walked.refusal)
    for name in ("interactivity.p50", "throughput_per_gpu.total", "duration"):
        assert steady.point.value(name) == pytest.approx(walked.point.value(name), rel=0.3), name


def test_more_lanes_are_slower_for_a_user_and_better_for_a_gpu(cells: tuple[Cell, ...], workload: Workload) -> None:
    places = [place(pools(cells[0], 1, 1, concurrency=lanes), workload) for lanes in (1, 4, 16, 64)]
    assert [x for x, _ in places] == sorted((x for x, _ in places), reverse=True)
    assert [y for _, y in places] == sorted(y for _, y in places)


def test_a_decode_pool_of_two_serves_a_user_faster_than_one(cells: tuple[Cell, ...], workload: Workload) -> None:
    one, two = (place(pools(cells[0], 1, count, concurrency=64), workload) for count in (1, 2))
    assert two[0] > one[0]


def test_a_pool_alone_is_so_many_engines(cells: tuple[Cell, ...], workload: Workload) -> None:
    alone = pools(cells[0], 0, 1, concurrency=8)
    twice = pools(cells[0], 0, 2, concurrency=16)
    assert place(twice, workload) == pytest.approx(place(alone, workload)), "per user and GPU the same"


def test_what_the_model_does_not_cover_says_so(cells: tuple[Cell, ...], workload: Workload) -> None:
    wide = replace(pools(cells[0], 1, 1), arm=Arm(pools=(Pool("decode", 1, Topology(2, ep=8, dp_attn=True)),)))
    (found,) = placed_all([wide], SETTINGS, workload)
    assert found.point is None
    assert "does not cover 4 data-parallel ranks of 2 GPUs each" in found.refusal
