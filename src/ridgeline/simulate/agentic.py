"""An agentic point predicted: which engine it ran on, which sessions were replayed under which rules, what comes out.

The replay of a public point is known but for its content: the canonical hour of the harness, ten warm-up requests a
lane, the whole set or its 256k form by model. Its sessions are made up (`trace.agentx`), so a prediction is one of a
like load, not of the same one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.record import Outcome, Record, Replay
from ridgeline.core.units import nanoseconds
from ridgeline.engine.kvpool import HOST_STATES, copies, own_state_pool, token_bytes
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.engine.plans import recurrent
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.points import MODELS, Measured, served_by
from ridgeline.simulate.virtual import Pools, simulate
from ridgeline.spec.facts.library import find_gpu
from ridgeline.trace.agentx import CUT, agentx_sessions
from ridgeline.trace.pacing import AgentPacer, PacingSettings
from ridgeline.trace.prompts import make_prompts
from ridgeline.trace.session import Session

WINDOW_S = 3600
# Models that the public harness loads with the whole set of sessions; the others get those cut to 256k.
WHOLE_SET = ("dsv4", "dsv4flash", "dsv41flash", "glm5.2", "minimaxm3", "kimik3")
# The harness got its present pacing between 18 and 29 July 2026. Before, gaps between starts were cut to 10 s when a
# trace was loaded, and there was no stage of ten requests a lane before the window.
PACED_SINCE, START_GAP_CAP_S = "2026-07-24", 10.0
NODE_HOST_BYTES = 1.5e12  # of host memory that eight GPUs' cache tiers share
STAGES = (1, 2, 4)


class Seen(NamedTuple):
    """What a replay shows, in the harness's definitions. Seconds, shares; `itl_s` None: no answer of two tokens."""

    tput_per_gpu: float
    itl_s: float | None
    ttft_mean_s: float
    ttft_median_s: float
    hit: float
    prompt: float  # tokens, mean
    answer: float
    requests: int


class Start(NamedTuple):
    """What launch scripts of agentic points say of memory and of a step's tokens; `spread`: with data-parallel
    attention, all ranks together where the engine counts so."""

    share: float
    tokens: int
    spread: int | None = None


# By engine, and by model where scripts differ. Values of the public launch scripts.
STARTS = {
    "sglang": Start(0.85, 8192, 32_768),
    "sglang qwen3.5": Start(0.80, 16_384),
    "sglang dsv4": Start(0.88, 8192, 65_536),
    "vllm": Start(0.90, 8192),
    "vllm minimaxm3": Start(0.90, 16_384),
    "vllm kimik3": Start(0.90, 16_384),
    "trt": Start(0.94, 16_384),
    "atom": Start(0.90, 16_384),
}
_HOPPER_TOKENS = 8192  # SGLang's own choice on GPUs of 160 GB or less, which those scripts leave alone


def start_of(point: Measured, memory_bytes: float) -> Start:
    """Share of memory and token budget of one step and rank, of an engine started by the public scripts."""
    engine = served_by(point.engine)
    found = STARTS.get(f"{engine} {point.model}") or STARTS.get(engine) or STARTS["vllm"]
    ranks = point.topology.dp_ranks if point.topology else 1
    tokens = (found.spread or found.tokens) if ranks > 1 else found.tokens
    if engine != "sglang":
        return found._replace(tokens=tokens)
    if ranks == 1 and memory_bytes <= 160e9:
        tokens = min(tokens, _HOPPER_TOKENS)
    return found._replace(tokens=tokens // ranks)  # SGLang's budget is one of all ranks


def agentic_options(point: Measured) -> EngineOptions:
    """How the engine of an agentic point was probably started: room for twice the lanes, the scripts' memory and
    budget.

    A layout whose GPUs cannot hold the weights was run on several stages: the fewest that can. vLLM caches no prefixes
    of models with recurrent states unless it is told to, which scripts with drafts or a host tier do. Raises
    InputError: unknown model, no layout, a model that fits no number of stages.
    """
    if point.topology is None:
        raise InputError(
            [Problem("its layout is not said", key="tp", hint="e.g. `--given tp=8`, `--given layout=DEP8`")]
        )
    topology, gpu = point.topology, find_gpu(point.hardware)
    if topology.dp_attn and topology.ep == 1:
        topology = replace(topology, ep=topology.tp)
    sglang = "sglang" in point.engine
    start = start_of(point, gpu.memory_bytes)
    for stages in STAGES:
        options = options_from(
            MODELS.get(point.model, point.model),
            gpu,
            replace(topology, pp=topology.pp * stages),
            point.precision,
            engine=served_by(point.engine),
            kv_cache_dtype="fp8",
            num_speculative_tokens=point.drafts,
            acceptance_length=point.accepted,
            max_num_seqs=max(8, 2 * point.conc),
            max_num_batched_tokens=start.tokens,
            prefill_first=sglang,
            gpu_memory_utilization=start.share,
        )
        try:
            plan = memory_of(options).plan
        except InputError:
            if stages == STAGES[-1]:
                raise
            continue
        break
    plain = not point.drafts and not point.offload
    if plain and "vllm" in point.engine and recurrent(options.arch):
        options = replace(options, enable_prefix_caching=False)
    if point.offload:
        history = NODE_HOST_BYTES / 8 * copies(options, plan)
        if own_state_pool(options):
            history /= 1 + HOST_STATES
        options = replace(options, host_kv_tokens=int(history / token_bytes(options, plan)))
    return options


def agentic_pacing(point: Measured, window_s: int = WINDOW_S) -> PacingSettings:
    """How the harness of the point's date paces. Warm-up is waited for without end: a published point's did end."""
    return PacingSettings(
        concurrency=point.conc,
        benchmark_id="evaluate",
        seed=42,
        duration_ns=nanoseconds(window_s),
        warmup_requests_per_lane=0 if old_pacing(point) else 10,
        warmup_grace_ns=None,
    )


def old_pacing(point: Measured) -> bool:
    """Whether a point is older than the present pacing. Without a date it is not."""
    return point.date is not None and point.date < PACED_SINCE


@lru_cache(maxsize=3)
def agent_sessions(whole: bool, old: bool = False) -> tuple[Session, ...]:
    """The set that is replayed: whole or cut to 256k, with recorded gaps or those of the old pacing."""
    return agentx_sessions(longest=None if whole else CUT, start_gap_cap_s=START_GAP_CAP_S if old else None)


def predicted(point: Measured, parameters: CostParameters, window_s: int = WINDOW_S) -> Seen | None:
    """What the model says of an agentic point; None when no request ends. Raises InputError for what is not covered."""
    options, engine, gpus = agentic_engines(point, parameters.for_text())
    sessions = agent_sessions(point.model in WHOLE_SET, old_pacing(point))
    replay = simulate(
        AgentPacer(sessions, agentic_pacing(point, window_s)),
        make_prompts(sessions, "bytes", model="m", seed=42),
        options,
        engine=engine,
        sample_s=60.0,
    )
    return seen(replay, gpus)


def agentic_engines(point: Measured, parameters: CostParameters) -> tuple[EngineOptions, Engine | Pools, int]:
    """The options of an engine that answers, all engines of a point, and their GPUs: one engine a worker, with a
    prefill pool in front where the point has one, each pool started as an engine of its own layout would be. Raises
    InputError."""
    options = agentic_options(point)
    gpus = options.topology.gpus * point.workers
    if point.prefill is None and point.workers == 1:
        return options, engine_of(options, parameters, lazy=True), gpus
    decode = tuple(engine_of(options, parameters, lazy=True) for _ in range(point.workers))
    prefill: tuple[Engine, ...] = ()
    if point.prefill is not None:
        # A prefill worker makes no drafts; it caches prompts as any engine does.
        alone = replace(point, topology=point.prefill.topology, prefill=None, workers=1)
        own = replace(agentic_options(alone), num_speculative_tokens=0, acceptance_length=None)
        prefill = tuple(engine_of(own, parameters, lazy=True) for _ in range(point.prefill.workers))
        gpus += own.topology.gpus * point.prefill.workers
    return options, Pools(prefill, decode), gpus


def seen(replay: Replay, gpus: int) -> Seen | None:
    """A replay in the harness's definitions: requests of the profiling phase that succeeded, those that end in the
    grace included, over the time from the first of them sent to the last one answered."""
    done = [r for r in replay.records if r.phase == "profiling" and r.outcome is Outcome.OK and r.prompt_tokens]
    if not done:
        return None
    seconds = (max(r.end_ns or 0 for r in done) - min(r.sent_ns or 0 for r in done)) / 1e9
    prompt, answer = sum(r.prompt_tokens or 0 for r in done), sum(r.completion_tokens or 0 for r in done)
    firsts = [((r.first_token_ns or 0) - (r.sent_ns or 0)) / 1e9 for r in done]
    gaps = _gaps(done)
    return Seen(
        tput_per_gpu=(prompt + answer) / seconds / gpus,
        itl_s=statistics.fmean(gaps) if gaps else None,
        ttft_mean_s=statistics.fmean(firsts),
        ttft_median_s=statistics.median(firsts),
        hit=sum(r.cached_tokens or 0 for r in done) / prompt,
        prompt=prompt / len(done),
        answer=answer / len(done),
        requests=len(done),
    )


def _gaps(done: Sequence[Record]) -> list[float]:
    """Time per token after the first, of every request."""
    return [
        ((r.last_token_ns or 0) - (r.first_token_ns or 0)) / 1e9 / (r.completion_tokens - 1)
        for r in done
        if r.completion_tokens and r.completion_tokens > 1
    ]
