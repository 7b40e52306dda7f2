"""A sweep killed at any moment leaves no process behind and loses no finished cell."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.command import CONFIG, QUICK, command, processes_with, sweep

from ridgeline.results.runfolder import RunFolder

KILLS = 20
WITHIN_S = 2.0


@pytest.mark.integration
def test_twenty_kills_leave_no_process_and_no_lost_cell(tmp_path: Path) -> None:
    out = tmp_path / "run"
    random_moment = random.Random(20)
    finished: dict[str, str | None] = {}
    for kill in range(KILLS):
        tag = f"kill-{os.getpid()}-{kill}"
        running = subprocess.Popen(
            command("sweep", CONFIG, "--out", out, *QUICK),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "RIDGELINE_TEST_TAG": tag},
        )
        time.sleep(random_moment.uniform(0.2, 6.0))
        running.kill()
        running.wait()
        end = time.monotonic() + WITHIN_S
        while (left := processes_with(tag)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left, f"kill {kill}: processes {left} outlived the sweep by {WITHIN_S} s"
        if not (out / "run.json").exists():
            continue
        now = {point.id: point.measured_at for point in RunFolder.open(out).points()}
        assert finished.items() <= now.items(), f"kill {kill}: a finished cell was lost or repeated"
        finished = now
    done = sweep(out)
    assert done.returncode == 0, done.stderr
    points = RunFolder.open(out).points()
    assert len(points) == 3
    assert finished.items() <= {point.id: point.measured_at for point in points}.items()
    assert not list(out.glob("cells/.*"))
