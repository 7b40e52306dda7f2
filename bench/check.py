"""How long the preflight of a search space of 40 cells takes, beyond starting the program.

The space is that of InferenceX's public pull request 2540 (DeepSeek-V4-Pro on eight MI355X), its command lines written
by the recipe. Target: 2 s of user time after start-up. Start-up is `check --explain M1`, which imports the same rules.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RIDGELINE = Path(sys.executable).parent / "ridgeline"
TARGET_S, CELLS, REPEATS = 2.0, 40, 5


def user_seconds(*words: str) -> tuple[float, bytes]:
    """Median user seconds of REPEATS processes, and the output of the last. Exit 1 (a FAIL) is an answer too."""
    times, output = [], b""
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([RIDGELINE, "check", *words], capture_output=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr.decode())
        output = done.stdout
        times.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    return statistics.median(times), output


def main() -> int:
    space = (ROOT / os.environ.get("RIDGELINE_GOLDEN", "../shared") / "examples" / "seed-2540.yaml").resolve()
    if not space.is_file():
        print("skipped: no search space (RIDGELINE_GOLDEN)")
        return 0
    start, _ = user_seconds("--explain", "M1")
    whole, output = user_seconds(str(space), "--json")
    cells = len(output.splitlines())
    spent = whole - start
    print(f"{cells} cells: {whole:.2f} s user, {start:.2f} s of it start-up")
    print(f"checks: {spent:.2f} s (target {TARGET_S} s)")
    return 0 if spent < TARGET_S and cells == CELLS else 1


if __name__ == "__main__":
    sys.exit(main())
