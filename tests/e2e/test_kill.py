"""A sweep killed at any moment leaves no process, port or lease behind and loses no finished cell."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG, QUICK, command, processes_with, sweep
from tests.e2e.leases import held_leases, leased_ports, listening

from ridgeline.results.runfolder import RunFolder

KILLS, LANES = 20, 2  # half of them beside the other half: the time of a kill is that of two interpreters' starts
WITHIN_S = 2.0
CELLS = 3
# Steps after which the kill comes, a random while later: random in what is hit, however slow the machine is.
BEFORE = ("spawned", "begin")  # nothing is leased yet
STEPS = (*BEFORE, "start", "ready", "replay", "progress", "done")


@pytest.mark.integration
def test_twenty_kills_leave_no_process_no_port_and_no_lost_cell(tmp_path: Path) -> None:
    with ThreadPoolExecutor(LANES) as pool:
        lanes = [pool.submit(kills, tmp_path / f"lane{lane}", lane, KILLS // LANES) for lane in range(LANES)]
        for lane in lanes:
            lane.result()


def kills(tmp_path: Path, lane: int, count: int) -> None:
    """Kill sweeps one after the other, and let the last one go on to its end."""
    tmp_path.mkdir()
    chance = random.Random(20 + lane)
    out, finished = tmp_path / "run", dict[str, str | None]()
    for kill in range(count):
        tag, tmpdir = f"kill-{os.getpid()}-{lane}-{kill}-", tmp_path / f"tmp{kill}"
        tmpdir.mkdir()
        step = chance.choice(STEPS)
        said = tmpdir / "stderr"
        with said.open("w") as errors:
            running = subprocess.Popen(
                command("sweep", CONFIG, "--out", out, *QUICK, "--json"),
                stderr=errors,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "RIDGELINE_TEST_TAG": tag, "TMPDIR": str(tmpdir)},
            )
        assert running.stdout is not None
        if step != "spawned":
            events = (json.loads(line)["event"] for line in running.stdout)
            assert step in events, f"kill {kill}: it ended before `{step}`: {said.read_text()}"
        time.sleep(chance.uniform(0.0, 0.8))
        running.kill()
        running.communicate()
        end = time.monotonic() + WITHIN_S
        while (left := processes_with(tag)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left, f"kill {kill} after {step}: processes {left} outlived the sweep by {WITHIN_S} s"
        ports = leased_ports(tmpdir)
        assert ports or step in BEFORE, f"kill {kill} after {step}: nothing was leased"
        assert listening(ports) == [], f"kill {kill} after {step}: somebody still listens"
        assert held_leases(tmpdir) == [], f"kill {kill} after {step}: leases outlived the sweep"
        if not (out / "run.json").exists():
            continue
        now = {point.id: point.measured_at for point in RunFolder.open(out).points()}
        assert finished.items() <= now.items(), f"kill {kill}: a finished cell was lost or repeated"
        out, finished = (out, now) if len(now) < CELLS else (tmp_path / f"run{kill}", {})  # every kill has work to hit
    done = sweep(out)
    assert done.returncode == 0, done.stderr
    points = RunFolder.open(out).points()
    assert len(points) == CELLS
    assert finished.items() <= {point.id: point.measured_at for point in points}.items()
    assert not list(out.glob("cells/.*"))
