"""What the GPUs did during a cell is recorded beside the replay and becomes energy measures of its point."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.launch.test_telemetry import fake_tool

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.point import Point, Source
from ridgeline.core.record import Phases, Replay
from ridgeline.core.topology import Topology
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.deploy import Deploy
from ridgeline.sweep.gpus import devices, gpu_record
from ridgeline.sweep.run import Sweep
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload

BENCHMARK = Benchmark("k", "img", "Qwen/Qwen3-8B", "qwen3", "fp8", "vllm", "cluster:h200-nv")
CELL = Cell(BENCHMARK, Scenario("fixed-seq-len", isl=256, osl=64), Arm(Topology(tp=2)), 2)
HEAD = "timestamp,gpu,socket_power\n"


def service(*, gpus: tuple[int, ...] | None = None, node: int | None = None, env: str = "") -> Service:
    told = (("CUDA_VISIBLE_DEVICES", Item(env)),) if env else ()
    return Service("engine", (), told, gpus=gpus, node=node)


def deployment(*services: Service) -> Deployment:
    return Deployment(services, "engine", "m", "vllm")


def test_devices_are_those_that_services_name_or_see_or_the_first() -> None:
    assert devices(CELL, deployment(service(gpus=(4, 5))), 0, 1, {}) == {"4", "5"}
    assert devices(CELL, deployment(service(env="6,7")), 0, 1, {"CUDA_VISIBLE_DEVICES": "0"}) == {"6", "7"}
    assert devices(CELL, deployment(service()), 0, 1, {"HIP_VISIBLE_DEVICES": "2,3"}) == {"2", "3"}
    assert devices(CELL, deployment(service()), 0, 1, {"CUDA_VISIBLE_DEVICES": "GPU-abc"}) == {"0", "1"}
    assert devices(CELL, deployment(service()), 0, 1, {}) == {"0", "1"}
    assert devices(CELL, deployment(service()), 0, 2, {}) is None
    both = deployment(service(gpus=(0,), node=0), service(gpus=(1,), node=1))
    assert devices(CELL, both, 1, 2, {}) == {"1"}


def point(**values: float) -> Point:
    from ridgeline.core.point import Measure, Validity

    measures = {name.replace("__", "."): Measure(value, "") for name, value in values.items()}
    return Point(
        id="p", run_key="k", cell_fingerprint="f", name="n", line="l", series="s", source=Source.MEASURED,
        concurrency=2, gpus=2, facts={}, measures=measures, validity=Validity.VALID,
    )  # fmt: skip


def test_energy_is_of_the_cells_own_devices_over_the_window() -> None:
    phases = Phases(start_ns=0, profiling_start_ns=10**9, profiling_end_ns=5 * 10**9, drained_ns=5 * 10**9)
    replay = Replay(records=(), phases=phases, settings={"origin_unix_ns": 100 * 10**9})
    rows = [f"{second},{gpu},{300 + 100 * gpu}\n" for second in range(99, 108) for gpu in range(4)]
    counted = point(requests__good=10.0, tokens__input=2000.0, tokens__output=500.0)
    record = gpu_record({"n1": HEAD + "".join(rows)}, CELL, deployment(service(gpus=(0, 2))), replay, counted)
    assert record is not None
    assert record.power.reasons == ()
    assert record.power.metrics["total_gpu_energy_j"] == (300 + 500) * 4
    assert record.power.metrics["joules_per_output_token"] == 3200 / 500
    assert {sample.gpu for sample in record.samples} == {"0", "2"}
    short = gpu_record({"n1": HEAD + "".join(rows[:8])}, CELL, deployment(service(gpus=(0, 2))), replay, counted)
    assert short is not None
    assert "benchmark_window_not_bracketed" in short.power.reasons
    assert short.power.measures["power.avg_power_w"].value is None


def test_nodes_keep_their_devices_apart_and_nothing_recorded_is_nothing() -> None:
    replay = Replay(records=(), phases=Phases(), settings={})
    text = HEAD + "100,0,300\n101,0,300\n"
    record = gpu_record({"a": text, "b": text}, CELL, deployment(service(), service(node=1)), replay, point())
    assert record is not None
    assert [device["gpu"] for device in record.plain["devices"]] == ["a:0", "b:0"]
    assert gpu_record({"a": ""}, CELL, deployment(service()), replay, point()) is None
    assert gpu_record({}, CELL, deployment(service()), replay, point()) is None


@pytest.mark.integration
def test_a_swept_cell_has_its_telemetry_and_energy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is the emulated one at real speed, called a real one here: only real ones are recorded."""
    fake_tool(tmp_path / "bin", monkeypatch)
    settings = SweepSettings(requests_per_lane=6, fixed_warmup_per_lane=1)

    def deploy(cell: Cell) -> tuple[Deployment, Source]:
        emulated, _ = Deploy("emulated", RecipeSettings())(cell)
        return replace(emulated, kind="vllm"), Source.MEASURED

    sweep = Sweep([CELL], settings, Workload(settings), deploy, expect=lambda cell, deployment: ())
    with RunFolder.create_or_open(tmp_path / "run", RunHeader(name="g", created_at="2026-01-01T00:00:00Z")) as folder:
        summary = sweep.run(folder)
        assert summary.done == 1, [failure.message for failure in folder.failures()]
        (found,) = folder.points()
        cell = folder.cell_folder(found.run_key)
    told = json.loads((cell / "telemetry.json").read_text())
    assert [device["power_w_mean"] for device in told["devices"]] == [400.0, 200.0]
    assert told["devices"][0]["throttled"] == {"power cap": 1.0}
    assert told["power"]["reasons"] == []
    assert found.value("power.avg_total_gpu_power_w") == pytest.approx(600.0, rel=0.01)
    assert (found.value("power.joules_per_output_token") or 0) > 0
    assert (cell / "logs" / "gpu.csv").read_text().startswith("timestamp,index,power_w,")
