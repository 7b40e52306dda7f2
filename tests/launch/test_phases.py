"""A start's phases are read off its log; a start in which nothing moves is noticed, and said where."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import psutil
import pytest

from ridgeline.core.clock import ManualClock
from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.autopsy import _lives, autopsy
from ridgeline.launch.contained import Contained
from ridgeline.launch.phases import Phases
from ridgeline.launch.stall import Effort, StallWatch
from ridgeline.launch.supervisor import Supervisor
from ridgeline.launch.watch import StartWatch

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
    assert watch.still() == (0.0, 0.0)
    at[0] = 10.0
    assert watch.still() == (10.0, 10.0)
    for moved in (Effort(5, 0.0, 0), Effort(5, 0.0, 8 << 20), Effort(6, 0.0, 8 << 20)):
        now[0] = moved
        at[0] += 10.0
        assert watch.still() == (0.0, 0.0)
        at[0] += 3.0
        assert watch.still() == (3.0, 3.0)


def test_computing_moves_and_does_not_get_on() -> None:
    at = [0.0]
    watch = StallWatch(lambda: Effort(9, at[0] * 0.9, 0), lambda: at[0])
    for second in range(100):
        at[0] = float(second)
        still = watch.still()
    assert still == (0.0, 99.0)


@pytest.mark.parametrize("look_every_s", [1.0, 7.0])
def test_a_poll_loop_is_no_move_however_long_it_goes_on(look_every_s: float) -> None:
    at = [0.0]
    watch = StallWatch(lambda: Effort(9, at[0] * 0.02, int(at[0] * 4096)), lambda: at[0])
    while at[0] < 2000:
        still = watch.still()
        at[0] += look_every_s
    assert still.moved_s == still.got_on_s > 1990


def test_a_process_that_ends_is_a_move() -> None:
    at, now = [0.0], [Effort(5, 60.0, 1 << 30)]
    watch = StallWatch(lambda: now[0], lambda: at[0])
    watch.still()
    at[0], now[0] = 50.0, Effort(5, 20.0, 1 << 20)
    assert watch.still() == (0.0, 0.0)


class Scripted:
    """A service that does what a test says."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "engine.log"
        self.log.write_text("Starting to load model x\n")
        self.now = Effort(0, 0.0, 0)
        self.asked: list[str] = []

    def effort(self) -> Effort:
        return self.now

    def autopsy(self, why: str = "") -> str:
        self.asked.append(why)
        return f"{why}stacks"


def watched(process: Scripted, clock: ManualClock, *, busy: bool = False) -> StartWatch:
    return StartWatch(
        "engine", process, stall_s=60.0, spin_s=600.0, gpus=lambda: busy, clock=lambda: clock.now_ns() / 1e9
    )  # type: ignore[arg-type]


def look_until(watch: StartWatch, clock: ManualClock, seconds: int, effort_at) -> None:
    for second in range(seconds):
        clock.advance_to(clock.at_ns + 1_000_000_000)
        watch.process.now = effort_at(second)
        watch.look()


def test_a_start_that_computes_and_gets_nowhere_is_given_up_later(tmp_path: Path) -> None:
    clock, process = ManualClock(), Scripted(tmp_path)
    watch = watched(process, clock)
    look_until(watch, clock, 590, lambda second: Effort(0, second * 1.0, 0))
    with pytest.raises(EnvironmentFailed, match=r"gets nowhere: .* for 60\d s \(phase weights"):
        look_until(watch, clock, 60, lambda second: Effort(0, 590 + second * 1.0, 0))
    assert watch.stacks_file.read_text().endswith("stacks")
    assert "gets nowhere" in process.asked[0]


def test_a_busy_gpu_is_a_move_and_does_not_get_on_for_ever(tmp_path: Path) -> None:
    clock, process = ManualClock(), Scripted(tmp_path)
    watch = watched(process, clock, busy=True)
    look_until(watch, clock, 590, lambda second: Effort(0, 0.0, 0))
    with pytest.raises(EnvironmentFailed, match="gets nowhere"):
        look_until(watch, clock, 60, lambda second: Effort(0, 0.0, 0))
    idle = watched(Scripted(tmp_path), clock)
    with pytest.raises(EnvironmentFailed, match=r"hangs: no log line, CPU, GPU or I/O for 6\d s"):
        look_until(idle, clock, 90, lambda second: Effort(0, 0.0, 0))


def test_bytes_of_a_phase_are_its_own() -> None:
    phases = Phases()
    assert not phases.moved_bytes(5 << 30), "what was there before the first look is nobody's"
    assert phases.moved_bytes(7 << 30)
    phases.feed("Starting to load model x\n", 10.0)
    assert phases.moved_bytes(9 << 30)
    assert [(step.name, step.bytes) for step in phases.steps] == [("start", 2 << 30), ("weights", 2 << 30)]
    assert phases.current.text(20.0) == "weights, 2.0 GiB at 0.20 GiB/s, 10 s"
    phases.moved_bytes(1 << 30)  # a process is gone, and its counters with it
    assert phases.current.bytes == 2 << 30


HANGS = """
import threading, time
print('Starting to load model x', flush=True)
def waits_for_a_peer(): time.sleep(600)
threading.Thread(target=waits_for_a_peer, daemon=True).start()
waits_for_a_peer()
"""
SPINS = """
print('Starting to load model x', flush=True)
def turns_round():
    while True: pass
turns_round()
"""


def given_up(tmp_path: Path, code: str, **limits: float) -> tuple[str, str]:
    """The message and the stacks of a start that is given up."""
    service = Service(name="engine", argv=(Item("{python}"), Item("-c"), Item(code)), readiness=Readiness())
    supervisor = Supervisor(Deployment((service,), "engine", "m", "command"), tmp_path, **limits)  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFailed) as caught, supervisor:
        pytest.fail("must not become ready")
    assert "engine.stacks.txt" in (caught.value.hint or "")
    return caught.value.message, supervisor.logs["engine.stacks"].read_text()


@pytest.mark.integration
def test_a_start_that_hangs_is_given_up_with_its_phase_and_the_stacks_of_its_threads(tmp_path: Path) -> None:
    message, text = given_up(tmp_path, HANGS, stall_s=2.0)
    assert re.search(r"hangs: no log line, CPU, GPU or I/O for \d+ s \(phase weights", message)
    assert text.count("waits_for_a_peer (<string>:4)") == 2, "both threads"
    assert re.search(r"state sleeping, 2 threads, [\d.]+ s CPU, \d+ MiB, waits in", text)
    assert "== last lines of engine.log\nStarting to load model x" in text


@pytest.mark.integration
def test_a_start_that_spins_is_given_up_with_its_stacks(tmp_path: Path) -> None:
    message, text = given_up(tmp_path, SPINS, spin_s=3.0)
    assert "gets nowhere" in message
    assert "turns_round (<string>:4)" in text


@pytest.mark.integration
def test_without_py_spy_processes_die_with_a_dump(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = Contained(["python3", "-c", HANGS], env={**os.environ, "PYTHONFAULTHANDLER": "1"}, cwd=tmp_path, log=log)
    end = time.monotonic() + 10
    while "Starting" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    text = autopsy(process.guardian_pid, log, why="because\n", dump=lambda pid: None)
    process.close()
    assert text.startswith("because\n")
    assert "stacks by faulthandler" in text
    stacks = text.partition("stacks by faulthandler")[2].partition("== last lines")[0]
    assert stacks.count("in waits_for_a_peer") == 2, "both threads"


def test_a_process_may_end_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    process = psutil.Process()
    assert _lives(process)

    def gone(self: psutil.Process) -> str:
        raise psutil.NoSuchProcess(self.pid)

    monkeypatch.setattr(psutil.Process, "status", gone)
    assert not _lives(process)


def test_a_tree_that_is_gone_has_only_its_log(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("last words\n")
    text = autopsy(2**22 - 1, tmp_path / "x.log")
    assert "== pid" not in text
    assert "last words" in text
