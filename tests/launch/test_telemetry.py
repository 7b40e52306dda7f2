"""GPU telemetry in the words of both vendors' tools becomes one table; what a device does not report stays missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.launch.supervisor import Supervisor
from ridgeline.launch.telemetry import (
    DeviceSummary,
    Sample,
    busy_gpus,
    mark,
    read_samples,
    recorder_words,
    since,
    summary,
    table,
)

NVIDIA = """\
timestamp, index, power.draw [W], clocks.current.sm [MHz], clocks.current.memory [MHz], temperature.gpu, \
utilization.gpu [%], memory.used [MiB], clocks_event_reasons.sw_power_cap, clocks_event_reasons.hw_slowdown, \
clocks_event_reasons.hw_thermal_slowdown, clocks_event_reasons.hw_power_brake_slowdown, \
clocks_event_reasons.sw_thermal_slowdown
2026/11/30 14:00:00.100, 0, 671.30 W, 1755 MHz, 3201 MHz, 61, 98 %, 131072 MiB, Active, Not Active, Not Active, \
Not Active, Not Active
2026/11/30 14:00:00.101, 1, [N/A], 1980 MHz, 3201 MHz, 44, 0 %, 4 MiB, Not Active, Not Active, Not Active, Not Active, \
Not Active
2026/11/30 14:00:00.600, 0, 690.10 W, 1740 MHz, 3201 MHz, 63, 100 %, 131072 MiB, Active, Not Active, Active, \
Not Active, Not Active
2026/11/30 14:00:00.601, 1, 88.00 W, 1980 MHz, 3201 MHz, 44, 0 %
"""
AMD = """\
timestamp,gpu,socket_power,gfx_voltage,throttle_status,gfx_0_clk,mem_0_clk,edge,hotspot,mem,gfx_activity,umc_activity
1764511200,0,1012,N/A,THROTTLED,1876,1900,N/A,71,64,97,55
1764511200,1,N/A,N/A,UNTHROTTLED,131,900,N/A,38,32,0,0
timestamp,gpu,socket_power,gfx_voltage,throttle_status,gfx_0_clk,mem_0_clk,edge,hotspot,mem,gfx_activity,umc_activity
1764511201,0,1003,N/A,UNTHROTTLED,1890,1900,N/A,72,65,99,58
1764511201,1,140,N/A
"""


def test_nvidia() -> None:
    first, second, third = read_samples(NVIDIA)
    assert first == Sample(
        at="2026/11/30 14:00:00.100", gpu="0", power_w=671.3, sm_mhz=1755.0, memory_mhz=3201.0, celsius=61.0,
        busy_percent=98.0, memory_mib=131072.0, throttled=("power cap",),
    )  # fmt: skip
    assert (second.gpu, second.power_w, second.throttled) == ("1", None, ())
    assert third.throttled == ("power cap", "hardware thermal")


def test_a_real_recording_of_an_h200() -> None:
    """By our own command, driver 580.159, an idle GPU. The query by the older names is answered with the newer."""
    found = read_samples(Path(__file__).with_name("nvidia-smi-580-h200.csv").read_text())
    assert [sample.power_w for sample in found] == [85.25, 79.65, 79.47]
    assert found[0] == Sample(
        at="2026/11/30 15:44:42.445", gpu="0", power_w=85.25, sm_mhz=345.0, memory_mhz=3201.0, celsius=36.0,
        busy_percent=0.0, memory_mib=0.0,
    )  # fmt: skip


def test_older_drivers_call_the_reasons_otherwise() -> None:
    assert read_samples(NVIDIA.replace("clocks_event_", "clocks_throttle_")) == read_samples(NVIDIA)


def test_amd() -> None:
    found = read_samples(AMD)
    assert [(s.gpu, s.power_w, s.sm_mhz, s.memory_mhz, s.celsius, s.busy_percent, s.throttled) for s in found] == [
        ("0", 1012.0, 1876.0, 1900.0, 71.0, 97.0, ("throttled",)),
        ("1", None, 131.0, 900.0, 38.0, 0.0, ()),
        ("0", 1003.0, 1890.0, 1900.0, 72.0, 99.0, ()),
    ]


@pytest.mark.parametrize("text", ["", "garbage\n1,2,3\n", "timestamp, index\n", "tool has failed\n", NVIDIA[:200]])
def test_what_is_not_understood_gives_nothing(text: str) -> None:
    assert read_samples(text) == ()


def test_a_line_that_was_being_written_is_left_out() -> None:
    cut = NVIDIA[: NVIDIA.index("2026/11/30 14:00:00.600") + 60]
    assert len(read_samples(cut)) == 2


def test_a_summary_by_device() -> None:
    first, second = summary(read_samples(NVIDIA))
    assert first == DeviceSummary(
        gpu="0", samples=2, power_w_mean=680.7, power_w_max=690.1, sm_mhz_mean=1747.5, sm_mhz_min=1740.0,
        celsius_max=63.0, busy_percent_mean=99.0, throttled={"power cap": 1.0, "hardware thermal": 0.5},
    )  # fmt: skip
    assert (second.power_w_mean, second.power_w_max, second.throttled) == (None, None, {})
    assert summary(()) == ()


def test_the_stored_table_says_the_same_whichever_tool_wrote_it() -> None:
    for text in (NVIDIA, AMD):
        lines = table(read_samples(text)).splitlines()
        assert lines[0] == "timestamp,index,power_w,sm_mhz,memory_mhz,celsius,busy_percent,memory_mib,throttled"
        assert len(lines) == 4
    assert table(read_samples(NVIDIA)).splitlines()[2].split(",")[2] == "", "missing, not zero"


def test_a_recording_is_cut_by_marks_and_keeps_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "gpu.csv"
    assert (mark(log), since(log, 0)) == (0, "")
    lines = NVIDIA.splitlines(keepends=True)
    log.write_text("".join(lines[:2]))
    at = mark(log)
    log.write_text(NVIDIA)
    monkeypatch.setattr("ridgeline.launch.telemetry.BEFORE_BYTES", 1)
    assert [sample.gpu for sample in read_samples(since(log, at))] == ["1", "0"]
    monkeypatch.setattr("ridgeline.launch.telemetry.BEFORE_BYTES", 10_000)
    assert [sample.gpu for sample in read_samples(since(log, at))] == ["0", "1", "0"], "and what was just before"
    assert len(read_samples(since(log, 0))) == 3


FAKE = """#!/bin/sh
case "$*" in
  *utilization.gpu*nounits*) echo {busy}; exit 0 ;;
  *clocks_throttle_reasons*) echo 'Field "clocks_throttle_reasons.x" is not a valid field to query.'; exit 2 ;;
  *lms*) ;;
  *) exit 1 ;;
esac
echo "timestamp, index, power.draw [W], clocks.current.sm [MHz], temperature.gpu, clocks_event_reasons.sw_power_cap"
while :; do
  now=$(date '+%Y/%m/%d %H:%M:%S.%3N')
  echo "$now, 0, 400.00 W, 1500 MHz, 60, Active"
  echo "$now, 1, 200.00 W, 1500 MHz, 50, Not Active"
  sleep 0.2
done
"""


def fake_tool(folder: Path, monkeypatch: pytest.MonkeyPatch, busy: int = 0) -> None:
    """An nvidia-smi of a driver that has renamed its fields, first on the path."""
    folder.mkdir(exist_ok=True)
    (folder / "nvidia-smi").write_text(FAKE.replace("{busy}", str(busy)))
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_without_a_tool_the_recorder_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    done = subprocess.run(recorder_words(), env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_gpu_is_busy_when_one_of_them_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(tmp_path / "idle", monkeypatch, 0)
    assert not busy_gpus()
    fake_tool(tmp_path / "busy", monkeypatch, 97)
    assert busy_gpus()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not busy_gpus()


def test_the_supervisor_records_every_node_and_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(tmp_path / "bin", monkeypatch)
    words = ("{python}", str(Path(__file__).with_name("service.py")), "{port:http}", "good")
    service = Service(name="engine", argv=tuple(map(Item, words)), readiness=Readiness(served_model="m"))
    deployment = Deployment((service,), "engine", "m", "command")
    with Supervisor(deployment, tmp_path / "live", telemetry=True) as supervisor:
        (log,) = supervisor.gpu_logs.values()
        while len(read_samples(log.read_text())) < 4:
            pass
        (recorder,) = supervisor._recorders
    assert recorder.poll() is not None
    found = summary(read_samples(log.read_text()))
    assert [(device.gpu, device.power_w_mean, device.throttled) for device in found] == [
        ("0", 400.0, {"power cap": 1.0}),
        ("1", 200.0, {}),
    ]
