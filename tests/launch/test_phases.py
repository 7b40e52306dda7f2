"""A start's phases are read off its log; a start in which nothing moves is noticed, and said where."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.phases import Phases
from ridgeline.launch.stall import Effort, StallWatch, stacks
from ridgeline.launch.supervisor import Supervisor

REAL = Path(__file__).parent / "engines" / "vllm-0.32.0-cpu-dp2.log"
LINES = (
    (2.0, "Starting to load model /models/x...\n"),
    (10.0, "Loading safetensors checkpoint shards:   0% Completed | 0/40 [00:00<?, ?it/s]\r"),
    (20.0, "Loading safetensors checkpoint shards:  25% Completed | 10/40 [00:10<00:30]\r"),
    (50.0, "Loading safetensors checkpoint shards: 100% Completed | 40/40 [00:40<00:00]\n"),
    (51.0, "Model loading took 97.30 GiB memory and 49.0 seconds\n"),
    (60.0, "Dynamo bytecode transform time: 9.1 s\n"),
    (90.0, "GPU KV cache size: 1,984,512 tokens\n"),
    (95.0, "Capturing CUDA graphs (decode, FULL):  20%|##  | 7/35 [00:03<00:12]\r"),
    (110.0, "Capturing CUDA graphs (decode, FULL): 100%|####| 35/35 [00:15<00:00]\n"),
    (112.0, "INFO:     Application startup complete.\n"),
)


def fed(until: float) -> Phases:
    phases = Phases()
    for at, text in LINES:
        if at <= until:
            phases.feed(text, at)
    return phases


def test_phases_come_in_order_with_their_times() -> None:
    phases = fed(200.0)
    phases.end(113.0)
    assert [step.name for step in phases.steps] == [
        *("start", "weights", "load", "compile", "kv", "capture", "serving"),
    ]
    weights = phases.steps[1]
    assert (weights.began, weights.ended, weights.done, weights.total) == (2.0, 51.0, 40, 40)
    assert phases.current.ended == 113.0


def test_what_is_counted_has_an_estimate() -> None:
    phases = fed(20.0)
    assert (phases.current.done, phases.current.total) == (10, 40)
    assert phases.current.eta_s(22.0) == pytest.approx(60.0)  # 10 in 20 s, 30 to go
    assert phases.current.text(22.0) == "weights 10 of 40, 20 s, about 60 s to go"
    assert fed(60.0).current.eta_s(61.0) is None


def test_pieces_may_end_anywhere() -> None:
    whole = "".join(text for _, text in LINES)
    for size in (1, 7, 64):
        phases = Phases()
        for start in range(0, len(whole), size):
            phases.feed(whole[start : start + size], float(start))
        assert [step.name for step in phases.steps] == [step.name for step in fed(200.0).steps]


def test_a_real_log_has_its_phases() -> None:
    phases = Phases()
    phases.feed(REAL.read_text(), 1.0)
    assert [step.name for step in phases.steps] == ["start", "weights", "kv", "serving"]


def test_stillness_is_counted_from_the_last_move() -> None:
    at = [0.0]
    now = [Effort(0, 0.0, 0)]
    watch = StallWatch(lambda: now[0], lambda: at[0])
    assert watch.still_s() == 0.0
    at[0] = 10.0
    assert watch.still_s() == 10.0
    for moved in (Effort(5, 0.0, 0), Effort(5, 0.6, 0), Effort(5, 0.6, 2 << 20), Effort(5, 0.1, 2 << 20)):
        now[0] = moved
        at[0] += 10.0
        assert watch.still_s() == 0.0
        at[0] += 3.0
        assert watch.still_s() == 3.0


def test_a_poll_loop_is_no_move() -> None:
    at = [0.0]
    watch = StallWatch(lambda: Effort(9, at[0] * 0.001, int(at[0] * 10)), lambda: at[0])
    watch.still_s()
    for second in range(1, 100):
        at[0] = float(second)
        still = watch.still_s()
    assert still == 99.0


def test_a_tree_that_is_gone_has_no_stacks() -> None:
    assert "pid" not in stacks(2**22 - 1).replace("py-spy", "")


HANGS = "import time; print('Starting to load model x', flush=True); time.sleep(600)"


@pytest.mark.integration
def test_a_start_that_hangs_is_given_up_with_its_phase_and_stacks(tmp_path: Path) -> None:
    service = Service(name="engine", argv=(Item("{python}"), Item("-c"), Item(HANGS)), readiness=Readiness())
    deployment = Deployment((service,), "engine", "m", "command")
    supervisor = Supervisor(deployment, tmp_path, stall_s=2.0)
    with (
        pytest.raises(EnvironmentFailed, match=r"hangs: no log line, CPU or I/O for \d+ s \(phase weights") as caught,
        supervisor,
    ):
        pytest.fail("must not become ready")
    assert "engine.stacks.txt" in (caught.value.hint or "")
    text = supervisor.logs["engine.stacks"].read_text()
    assert "time.sleep(600)" in text, "the command line of the hanging process"
    assert "waits in" in text
