"""How long recorded sessions take to be ready: from a cold start to the body of the first request.

    python bench/traces.py [--trace PATH] [--sessions 48,0] [--repeat 3]

Ready means: read, built into session trees, prompts at hand, the pacing machine begun and the first body made. CPU and
peak memory are those of a fresh process, imports included; medians. 0 sessions: all. The trace is looked for below
RIDGELINE_GOLDEN unless one is given.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from parts.nullserver import known

TARGETS = {48: "2 s, 300 MB", 0: "8 s"}


def ready(path: Path, sessions: int) -> dict[str, float]:
    """The measured process."""
    began = time.monotonic()
    from ridgeline.trace import load
    from ridgeline.trace.pacing import AgentPacer, PacingSettings
    from ridgeline.trace.prompts import make_prompts

    corpus = load(path, limit=sessions or None)
    prompts = make_prompts(corpus, "bytes", model="m")
    pacer = AgentPacer(corpus.sessions, PacingSettings(concurrency=16, benchmark_id="bench"))
    pacer.begin(0)
    body = prompts.body(pacer.advance(0).sends[0])
    return {
        "sessions": len(corpus.sessions),
        "cpu_s": time.process_time(),
        "wall_s": time.monotonic() - began,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "body_kb": sum(map(len, body)) / 1000,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, default=known("traces/weka/traces.jsonl.gz"))
    parser.add_argument("--sessions", default="48,0")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.trace is None:
        print("skipped: no trace (give --trace PATH)")
        return 0
    if given.child is not None:
        print(json.dumps(ready(given.trace, given.child)))
        return 0
    for sessions in map(int, given.sessions.split(",")):
        command = [sys.executable, __file__, "--trace", str(given.trace), "--child", str(sessions)]
        runs = [
            json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(given.repeat)
        ]
        seen = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        target = TARGETS.get(sessions)
        print(
            f"{seen['sessions']:.0f} sessions ready in {seen['cpu_s']:.2f} CPU-s ({seen['wall_s']:.2f} s), peak "
            f"{seen['peak_mb']:.0f} MB, first body {seen['body_kb']:.0f} kB"
            + (f"   target: {target}" if target else "")
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
