"""GLM-5.2 on eight B300 between 8 and 16 lanes: what is predicted, and which single input moves the cliff.

    python bench/cliff.py

Every line changes one input of the same prediction: the pool, the price of steps, the pacing, the tokens a lane keeps
alive. Prints cache hit, tokens/s/GPU, median first token and time per token for 8, 16 and 32 lanes (an hour each).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from ridgeline.core.topology import Topology
from ridgeline.engine.memory import memory_of
from ridgeline.simulate.agentic import Seen, agent_sessions, agentic_options, agentic_pacing, seen
from ridgeline.simulate.costparams import ANY_MODEL, CostParameters, parameters_for
from ridgeline.simulate.points import Measured
from ridgeline.simulate.virtual import simulate
from ridgeline.trace.pacing import AgentPacer
from ridgeline.trace.prompts import make_prompts
from ridgeline.trace.session import Session

LANES = (8, 16, 32)
POINT = Measured(
    row=0, hardware="b300", engine="sglang", model="glm5.2", precision="fp4", spec="none", topology=Topology(8), conc=8,
    date="2026-07-18",
)  # fmt: skip
PUBLISHED = {8: (0.97, 12_603, 0.4), 16: (0.39, 3421, 14.2), 32: (0.05, 2383, 196.8)}


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


def run(point: Measured, sessions: Sequence[Session], p: CostParameters, kv_tokens: int, length: int = 0) -> Seen:
    options = replace(agentic_options(point), kv_tokens=kv_tokens)
    options = replace(options, max_model_len=length or options.max_model_len)
    replay = simulate(
        AgentPacer(sessions, agentic_pacing(point)), make_prompts(sessions, "bytes", model="m", seed=42), options,
        parameters=p.for_text(), sample_s=60.0,
    )  # fmt: skip
    found = seen(replay, options.topology.gpus)
    assert found is not None, "no request ended"
    return found


def main() -> int:
    options = agentic_options(POINT)
    pool = memory_of(options).pool
    tokens = pool.blocks * pool.block_size
    plain = parameters_for("default", "default", measured_only=True)
    fast = replace(plain, models={ANY_MODEL: (0.5, 0.5)})
    old, recorded = agent_sessions(True, True), agent_sessions(True)
    twice = tuple(longer(session, 2) for session in old)
    today = replace(POINT, date=None)
    cases = {
        "nothing": (POINT, old, plain, tokens, 0),
        "parameters fitted for B200 under SGLang": (POINT, old, parameters_for("b300", "sglang"), tokens, 0),
        "steps twice as fast": (POINT, old, fast, tokens, 0),
        "half the pool": (POINT, old, plain, tokens // 2, 0),
        "twice the pool": (POINT, old, plain, tokens * 2, 0),
        "contexts twice as long": (POINT, twice, plain, tokens, 2 * options.max_model_len),
        "today's pacing": (today, recorded, plain, tokens, 0),
    }
    found: dict[str, dict[int, dict[str, float]]] = {}
    for name, (point, *rest) in cases.items():
        for lanes in LANES:
            got = run(replace(point, conc=lanes), *rest)  # type: ignore[arg-type]
            found.setdefault(name, {})[lanes] = {
                "hit": round(got.hit, 3),
                "tokens_per_s_per_gpu": round(got.tput_per_gpu),
                "ttft_p50_s": round(got.ttft_median_s, 2),
                "itl_ms": round(1e3 * (got.itl_s or 0.0), 1),
                "prompt": round(got.prompt),
            }
            print(name, lanes, found[name][lanes], file=sys.stderr, flush=True)
    print(json.dumps({"bench": "cliff", "pool_tokens": tokens, "published": PUBLISHED, "cases": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
