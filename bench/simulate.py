"""How fast virtual time passes: simulated seconds per wall second on one core, and what a whole matrix takes.

    python bench/simulate.py            one cell: 8 data-parallel ranks, 224 lanes, contexts around 100,000 tokens
    python bench/simulate.py --matrix   also 40 cells of 3,600 s over two processes: TP8 and DP8EP8, 1 to 224 lanes

DeepSeek-V4-Pro on MI355X with three draft tokens, synthetic agent sessions (`trace synth`, contexts up to 256k). Prints
one JSON line: CPU seconds to read the sessions; the rate of the large cell when its prompts have to be made (the one
that counts), and once they are there, as for every further cell of a matrix; peak memory.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from ridgeline.core.topology import Topology
from ridgeline.core.units import nanoseconds
from ridgeline.engine.options import options_from
from ridgeline.simulate.virtual import simulate
from ridgeline.trace import load
from ridgeline.trace.pacing import AgentPacer, PacingSettings
from ridgeline.trace.prompts import PromptSource, make_prompts
from ridgeline.trace.session import Session
from ridgeline.trace.synth import synthesise

WINDOW_S = 3600
LANES = (1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64, 80, 96, 128, 176, 224)


@lru_cache(maxsize=1)
def sessions() -> tuple[Session, ...]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.jsonl"
        with path.open("w") as file:
            for session in synthesise(393, max_context=256_000):
                file.write(json.dumps(session) + "\n")
        return load(path).sessions


@lru_cache(maxsize=1)
def prompts() -> PromptSource:
    """Layouts are made once a session and shared by the cells of a process, as `ridgeline simulate` does."""
    return make_prompts(sessions(), "bytes", model="m", seed=42)


def cell(lanes: int, topology: Topology, window_s: int = WINDOW_S) -> dict[str, float]:
    """One cell: wall seconds, simulated seconds, and what it was like."""
    limits = {"max_num_seqs": max(8, 2 * lanes), "max_num_batched_tokens": 8192, "num_speculative_tokens": 3}
    options = options_from(
        "deepseek-v4-pro", "mi355x", topology, "fp4", kv_cache_dtype="fp8", gpu_memory_utilization=0.86, **limits
    )
    pacing = PacingSettings(concurrency=lanes, benchmark_id="bench", seed=42, duration_ns=nanoseconds(window_s))
    pacer = AgentPacer(sessions(), pacing)
    made = prompts()
    start, cpu = time.perf_counter(), time.process_time()
    replay = simulate(pacer, made, options)
    wall, spent = time.perf_counter() - start, time.process_time() - cpu
    done = [record for record in replay.records if record.prompt_tokens and record.phase == "profiling"]
    prompt = sum(record.prompt_tokens or 0 for record in done)
    return {
        "lanes": lanes,
        "wall_s": wall,
        "cpu_s": spent,
        "simulated_s": max(record.end_ns or 0 for record in replay.records) / 1e9,
        "steps": replay.settings["steps"],
        "requests": len(replay.records),
        "mean_context": prompt / max(1, len(done)),
        "hit": sum(record.cached_tokens or 0 for record in done) / max(1, prompt),
        "tokens_per_s_per_gpu": (prompt + sum(record.completion_tokens or 0 for record in done)) / window_s / 8,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _one(job: tuple[int, bool]) -> dict[str, float]:
    lanes, spread = job
    return cell(lanes, Topology(8, ep=8, dp_attn=True) if spread else Topology(8))


def matrix() -> Iterator[dict[str, float]]:
    """40 cells over two processes, the largest first. Sessions and the prompts made so far are shared."""
    gc.freeze()
    jobs = sorted(((lanes, spread) for lanes in LANES for spread in (False, True)), reverse=True)
    with get_context("fork").Pool(2) as pool:
        yield from pool.imap(_one, jobs, chunksize=1)


def main() -> int:
    start = time.process_time()
    sessions()
    read = time.process_time() - start
    large = cell(224, Topology(8, ep=8, dp_attn=True))
    again = cell(224, Topology(8, ep=8, dp_attn=True))
    found: dict[str, object] = {
        "bench": "simulate",
        "simulated_s_per_cpu_s": round(large["simulated_s"] / large["cpu_s"]),
        "with_prompts_made": round(again["simulated_s"] / again["cpu_s"]),
        "sessions_cpu_s": round(read, 1),
        "large_cell": {key: round(value, 3) for key, value in large.items()},
    }
    if "--matrix" in sys.argv:
        start = time.perf_counter()
        cells = list(matrix())
        found["matrix"] = {
            "cells": len(cells),
            "wall_s": round(time.perf_counter() - start, 1),
            "cpu_s": round(sum(one["cpu_s"] for one in cells), 1),
            "simulated_s_per_cpu_s": round(
                sum(one["simulated_s"] for one in cells) / sum(one["cpu_s"] for one in cells)
            ),
            "mib": round(max(one["mib"] for one in cells)),
        }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
