"""GLM-5.2 on eight B300 between 8 and 16 lanes: what was predicted, and which single input moves the cliff.

    python bench/cliff.py

Every line changes one input of the same prediction: the pool, the time between turns, the tokens a lane keeps alive.
Prints cache hit, tokens/s/GPU and median first token for 1 to 32 lanes (1,200 simulated seconds each).
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import replace

from ridgeline.core.topology import Topology
from ridgeline.core.units import nanoseconds
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.evaluate import agent_sessions, agentic_options
from ridgeline.simulate.points import Measured
from ridgeline.simulate.virtual import simulate
from ridgeline.trace.pacing import AgentPacer, PacingSettings
from ridgeline.trace.prompts import make_prompts
from ridgeline.trace.session import Session

LANES = (8, 16, 32)
WINDOW_S = 1200


def point(conc: int) -> Measured:
    return Measured(
        row=0, hardware="b300", engine="sglang", model="glm5.2", precision="fp4", spec="none", topology=Topology(8),
        conc=conc,
    )  # fmt: skip


def longer(session: Session, factor: int) -> Session:
    """Every block is `factor` times as long: the same shape, more tokens."""
    conversations = tuple(
        replace(
            conversation,
            turns=tuple(
                replace(
                    turn,
                    input_tokens=turn.input_tokens * factor,
                    declared_prefix_tokens=turn.declared_prefix_tokens * factor,
                )
                for turn in conversation.turns
            ),
        )
        for conversation in session.conversations
    )
    return replace(session, conversations=conversations, block_size=session.block_size * factor)


def quicker(session: Session, factor: float) -> Session:
    """Time between turns divided by `factor`."""

    def short(value: int | None) -> int | None:
        return None if value is None else int(value / factor)

    conversations = tuple(
        replace(
            conversation,
            turns=tuple(
                replace(turn, at_ns=short(turn.at_ns), delay_ns=short(turn.delay_ns)) for turn in conversation.turns
            ),
        )
        for conversation in session.conversations
    )
    branches = tuple(replace(branch, start_ns=short(branch.start_ns)) for branch in session.branches)
    return replace(session, conversations=conversations, branches=branches)


def run(options: EngineOptions, sessions: tuple[Session, ...], lanes: int) -> tuple[float, float, float, float]:
    pacing = PacingSettings(concurrency=lanes, benchmark_id="cliff", seed=42, duration_ns=nanoseconds(WINDOW_S))
    replay = simulate(
        AgentPacer(sessions, pacing), make_prompts(sessions, "bytes", model="m", seed=42), options,
        parameters=parameters_for("default", "default", measured_only=True), sample_s=60.0,
    )  # fmt: skip
    done = [r for r in replay.records if r.phase == "profiling" and r.prompt_tokens and r.end_ns]
    prompt = sum(r.prompt_tokens or 0 for r in done)
    total = prompt + sum(r.completion_tokens or 0 for r in done)
    first = statistics.median([((r.first_token_ns or 0) - (r.sent_ns or 0)) / 1e9 for r in done] or [float("nan")])
    return (
        sum(r.cached_tokens or 0 for r in done) / max(1, prompt),
        total / WINDOW_S / 8,
        first,
        prompt / max(1, len(done)),
    )


def main() -> int:
    options = agentic_options(point(16))
    pool = memory_of(options).pool
    tokens = pool.blocks * pool.block_size
    plain = agent_sessions(None, options.max_model_len)
    cases = {
        "as predicted": (1.0, plain),
        "half the pool": (0.5, plain),
        "a quarter of the pool": (1 / 4, plain),
        "a fifth of the pool": (1 / 5, plain),
        "turns follow ten times as fast": (1.0, tuple(quicker(session, 10) for session in plain)),
        "contexts twice as long": (1.0, tuple(longer(session, 2) for session in plain)),
    }
    found = {}
    for name, (share, sessions) in cases.items():
        for lanes in LANES:
            changed = replace(agentic_options(point(lanes)), kv_tokens=int(tokens * share))
            hit, tput, first, context = run(changed, sessions, lanes)
            found[f"{name}, c{lanes}"] = {
                "hit": round(hit, 3),
                "tokens_per_s_per_gpu": round(tput),
                "ttft_p50_s": round(first, 2),
                "context": round(context),
            }
            print(name, lanes, found[f"{name}, c{lanes}"], file=sys.stderr, flush=True)
    print(json.dumps({"bench": "cliff", "pool_tokens": tokens, "cases": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
