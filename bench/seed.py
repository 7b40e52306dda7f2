"""One headline, several explanations: DeepSeek-V4-Pro on eight MI355X, DP8EP8, 224 lanes.

    python bench/seed.py

A published validation run said 72,700 input and 414 output tokens per second; an earlier one 66,000 in all. Every line
changes what is assumed about the engine and predicts the same cell: throughput, and the three figures that tell the
explanations apart (cache hit, median first token, mean step). 600 simulated seconds each.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import replace
from typing import Any

from ridgeline.core.topology import Topology
from ridgeline.core.units import nanoseconds
from ridgeline.engine.options import options_from
from ridgeline.simulate.agentic import agent_sessions
from ridgeline.simulate.costparams import ANY_MODEL, parameters_for
from ridgeline.simulate.virtual import simulate
from ridgeline.trace.pacing import AgentPacer, PacingSettings
from ridgeline.trace.prompts import make_prompts

WINDOW_S, LANES = 600, 224
CASES: dict[str, dict[str, Any]] = {
    "graphs, fast kernels, everything stays cached": {},
    "no graphs": {"cudagraph_mode": "NONE"},
    "kernels three times as slow": {"slow": 3.0},
    "hits only on a 32k grid or at a prompt's end": {"checkpoints": "prompt", "checkpoint_interval": 32768},
    "kernels three times as slow, 32k grid": {"slow": 3.0, "checkpoints": "prompt", "checkpoint_interval": 32768},
    "sessions without affinity": {"router": "round-robin"},
    "kernels twice as slow, sessions without affinity": {"slow": 2.0, "router": "round-robin"},
    "cache of 4 M tokens a rank": {"kv_tokens": 4_000_000},
    "cache of 2 M tokens a rank": {"kv_tokens": 2_000_000},
    "cache of 1 M tokens a rank": {"kv_tokens": 1_000_000},
    "kernels twice as slow, cache of 4 M": {"slow": 2.0, "kv_tokens": 4_000_000},
}


def run(**more: Any) -> dict[str, float]:
    parameters = parameters_for("default", "default", measured_only=True)
    parameters = replace(parameters, models={ANY_MODEL: (more.pop("slow", 1.0), 1.0)})
    options = options_from(
        "deepseek-v4-pro", "mi355x", Topology(8, ep=8, dp_attn=True), "fp4", kv_cache_dtype="fp8",
        gpu_memory_utilization=0.86, max_num_seqs=448, max_num_batched_tokens=8192, num_speculative_tokens=3, **more,
    )  # fmt: skip
    sessions = agent_sessions(True)
    pacing = PacingSettings(
        concurrency=LANES,
        benchmark_id="seed",
        seed=42,
        duration_ns=nanoseconds(WINDOW_S),
        warmup_requests_per_lane=1,
        warmup_grace_ns=None,
    )
    replay = simulate(
        AgentPacer(sessions, pacing), make_prompts(sessions, "bytes", model="m", seed=42), options,
        parameters=parameters.for_text(), sample_s=60.0,
    )  # fmt: skip
    done = [r for r in replay.records if r.phase == "profiling" and r.prompt_tokens and r.end_ns]
    prompt, out = sum(r.prompt_tokens or 0 for r in done), sum(r.completion_tokens or 0 for r in done)
    end = max((r.end_ns or 0 for r in replay.records), default=1) / 1e9
    firsts = [((r.first_token_ns or 0) - (r.sent_ns or 0)) / 1e9 for r in done]
    return {
        "input_tokens_per_s": round(prompt / WINDOW_S),
        "output_tokens_per_s": round(out / WINDOW_S),
        "hit": round(sum(r.cached_tokens or 0 for r in done) / max(1, prompt), 3),
        "ttft_p50_s": round(statistics.median(firsts), 2) if firsts else float("nan"),
        "mean_step_ms": round(1e3 * end / max(1, replay.settings["steps"])),
    }


def main() -> int:
    found = {}
    for name, more in CASES.items():
        found[name] = run(**more)
        print(name, found[name], file=sys.stderr, flush=True)
    print(json.dumps({"bench": "seed", "measured": {"input": 72_700, "output": 414}, "cases": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
