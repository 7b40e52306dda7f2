"""How long a full sweep of InferenceX's two master files takes as a whole process, start-up and printing included.

The peer is not installed: its stored figures, measured on two shared cores at commit 843c6254 with the same files, are
2.9 s of wall time and 1.37 s of user time for 1,820 rows. Target: a third of its user time, aim: a fifth.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
RIDGELINE = Path(sys.executable).parent / "ridgeline"
SWEEP = ["plan", "full-sweep", "--config-files", "configs/amd-master.yaml", "configs/nvidia-master.yaml"]
SWEEP += ["--runner-config", "configs/runners.yaml"]
PEER_WALL_S, PEER_USER_S, PEER_ROWS = 2.9, 1.37, 1820
REPEATS = 5


def measure(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float, bytes]:
    """Medians of wall and user seconds over REPEATS processes, and the output of the last."""
    wall, user, output = [], [], b""
    for _ in range(REPEATS):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        output = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True).stdout
        wall.append(time.perf_counter() - start)
        user.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime)
    return statistics.median(wall), statistics.median(user), output


def main() -> int:
    folder = (ROOT / os.environ.get("RIDGELINE_GOLDEN", "../shared") / "data" / "inferencex").resolve()
    if not (folder / "configs").is_dir():
        sys.stdout.write("skipped: InferenceX's configs are not here (RIDGELINE_GOLDEN)\n")
        return 0
    with tempfile.TemporaryDirectory() as cache:
        # byte code as an installation has it; parsed files are never cached
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
            "PYTHONPYCACHEPREFIX": cache
        }
        for command in (["--help"], SWEEP):
            subprocess.run([RIDGELINE, *command], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
        wall, user, output = measure([str(RIDGELINE), *SWEEP], folder, environment)
        help_wall, help_user, _ = measure([str(RIDGELINE), "--help"], folder, environment)
    rows = len(json.loads(output))
    sys.stdout.write(
        f"full sweep of both files, {rows} rows, median of {REPEATS}: {wall:.2f} s wall, {user:.2f} s user\n"
        f"peer (stored), {PEER_ROWS} rows: {PEER_WALL_S:.2f} s wall, {PEER_USER_S:.2f} s user\n"
        f"ratio: {PEER_WALL_S / wall:.1f} times faster by wall, {PEER_USER_S / user:.1f} by user (target 3, aim 5)\n"
        f"ridgeline --help: {help_wall * 1000:.0f} ms wall, {help_user * 1000:.0f} ms user (bound 200)\n"
    )
    return 0 if rows == PEER_ROWS and user <= PEER_USER_S / 3 and help_wall < 0.2 else 1


if __name__ == "__main__":
    sys.exit(main())
