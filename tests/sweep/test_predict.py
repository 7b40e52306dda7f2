"""Cells become predicted points, pools among them; every point says how far to trust it, and what is not covered has a
name."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG

from ridgeline.cli.main import main
from ridgeline.cli.search import chosen_cells
from ridgeline.core.cell import Arm, Cell, Scenario
from ridgeline.core.topology import Pool, Topology
from ridgeline.sweep.predict import Prediction, predict, predict_all
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload
from ridgeline.trace.synth import quickstart_trace

SETTINGS = SweepSettings(duration_s=60, requests_per_lane=3, max_sessions=4)
FIXED = Scenario("fixed-seq-len", isl=4096, osl=64)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload(SETTINGS, Path(quickstart_trace()))


@pytest.fixture(scope="module")
def cell() -> Cell:
    return replace(chosen_cells([CONFIG], None, "*")[0], scenario=FIXED, concurrency=4)


def predicted(cell: Cell, workload: Workload, arm: Arm) -> Prediction:
    return predict(replace(cell, arm=arm), SETTINGS, workload)


def pools(prefill: int, decode: int, topology: Topology) -> Arm:
    sizes = (Pool("prefill", prefill, topology), Pool("decode", decode, topology))
    return Arm(pools=tuple(pool for pool in sizes if pool.workers))


def test_pools_are_walked_and_their_kv_travels(cell: Cell, workload: Workload) -> None:
    found = predicted(cell, workload, pools(1, 1, Topology(1)))
    assert found.point is not None and found.replay is not None
    assert found.point.gpus == 2
    assert found.replay.settings["pools"] == {"prefill": 1, "decode": 1}
    asked = sum(record.prompt_tokens or 0 for record in found.replay.records)
    cached = sum(record.cached_tokens or 0 for record in found.replay.records)
    assert found.replay.settings["kv_transfer_bytes"] > 0.8 * (asked - cached) * 1024
    assert {sample.endpoint for sample in found.replay.samples} == {"virtual/prefill0", "virtual/decode0"}


def test_a_decode_pool_is_not_held_up_by_prompts(cell: Cell, workload: Workload) -> None:
    split, whole = (predicted(cell, workload, pools(*count, Topology(1))) for count in ((1, 1), (0, 1)))
    assert split.point is not None and whole.point is not None
    slow, fast = (longest_gap(found) for found in (whole, split))
    assert fast < 0.5 * slow, "its steps hold no prefill"
    assert all(record.chunks == 64 for record in split.replay.records if record.completion_tokens)  # type: ignore[union-attr]


def longest_gap(found: Prediction) -> int:
    assert found.replay is not None
    return max(b - a for r in found.replay.records for a, b in zip(r.chunk_ns[1:], r.chunk_ns[2:], strict=False))


def test_equal_engines_behind_a_router_share_the_sessions(cell: Cell, workload: Workload) -> None:
    one, two = (predicted(cell, workload, pools(0, count, Topology(1))) for count in (1, 2))
    assert one.point is not None and two.point is not None
    assert (one.point.value("ttft.p50") or 0) > (two.point.value("ttft.p50") or 0)


def test_the_same_cell_is_predicted_twice_alike(cell: Cell, workload: Workload) -> None:
    first, again = (predicted(cell, workload, pools(1, 2, Topology(1))) for _ in range(2))
    assert first.replay == again.replay


def test_stages_of_a_pipeline_are_walked(cell: Cell, workload: Workload) -> None:
    found = predicted(cell, workload, Arm(Topology(1, pp=2)))
    assert found.point is not None
    assert found.point.gpus == 2


def test_shared_contexts_are_predicted_or_refused_as_engines_do(cell: Cell, workload: Workload) -> None:
    for arm in (Arm(Topology(1, pcp=2)), pools(1, 1, Topology(1, pcp=2))):
        found = predicted(cell, workload, arm)
        assert found.point is not None and found.point.gpus in (2, 4)
    for arm in (Arm(Topology(2, dcp=2)), pools(1, 1, Topology(2, dcp=2))):  # key heads enough for both GPUs
        found = predicted(cell, workload, arm)
        assert found.point is None
        assert "are repeated 1 times, less than 2" in found.refusal


def test_every_prediction_has_a_band(cell: Cell, workload: Workload) -> None:
    for arm in (Arm(Topology(1)), pools(1, 1, Topology(1))):
        found = predicted(cell, workload, arm)
        assert found.point is not None
        band = found.point.provenance["band"]
        assert band["share"] == 0.8
        assert 1.0 < band["factor"] < 3.0


def test_the_table_ends_with_the_band(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(CONFIG), "--duration", "30", "--warmup", "0", "--sessions", "3"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.endswith("80% of tok/s/GPU")
    assert lines
    assert all("x/÷ 1." in line for line in lines)


def test_cells_at_a_time_are_the_cells_one_by_one(cell: Cell, workload: Workload) -> None:
    agentic = replace(cell, scenario=Scenario("agentic-coding"))
    cells = [replace(agentic, concurrency=lanes) for lanes in (3, 1, 2)]
    one_by_one = list(predict_all(cells, SETTINGS, workload, jobs=1))
    at_a_time = list(predict_all(cells, SETTINGS, workload, jobs=2))
    assert one_by_one == at_a_time
    assert [found.cell.concurrency for found in at_a_time] == [3, 1, 2]
    bare = list(predict_all(cells, SETTINGS, workload, jobs=2, replays=False))
    assert [found.point for found in bare] == [found.point for found in at_a_time]
    assert all(found.replay is None for found in bare)


def test_a_signal_of_this_process_means_nothing_to_those_it_starts(cell: Cell, workload: Workload) -> None:
    """A pool ends its processes by SIGTERM; one with a handler of its own would be waited for without end."""

    def deaf(*_: object) -> None:
        return

    before = signal.signal(signal.SIGTERM, deaf)
    try:
        found = predict_all([cell, replace(cell, concurrency=2)], SETTINGS, workload, jobs=2, replays=False)
        assert next(found).point is not None
        found.close()  # type: ignore[attr-defined]  # while the other is at work
        assert signal.getsignal(signal.SIGTERM) is deaf
    finally:
        signal.signal(signal.SIGTERM, before)


def test_how_far_to_trust_a_prediction_depends_on_what_was_fitted(cell: Cell, workload: Workload) -> None:
    """Wider for sessions and for a model that no fit on this GPU has seen; of tokens/s/GPU in any case."""

    def factor(cell: Cell) -> float:
        point = predict(cell, SETTINGS, workload).point
        assert point is not None and point.provenance["band"]["measure"] == "tokens/s/GPU"
        return point.provenance["band"]["factor"]

    known = replace(cell, benchmark=replace(cell.benchmark, model="meta-llama/Meta-Llama-3.1-70B", precision="fp8"))
    unseen = replace(cell, benchmark=replace(cell.benchmark, model="Qwen/Qwen3-8B", precision="bf16"))
    wide = Arm(Topology(8))
    sessions = replace(unseen, scenario=Scenario("agentic-coding"), concurrency=1)
    assert factor(replace(known, arm=wide)) < factor(replace(unseen, arm=wide)) < factor(replace(sessions, arm=wide))
