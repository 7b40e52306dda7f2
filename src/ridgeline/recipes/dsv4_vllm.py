"""DeepSeek-V4-Pro with vLLM on MI355X, B200 and B300, and on the GPUs that it only just fits.

What they share is stated once; what differs is where the memory of the GPU ends, which expert kernels exist, and how
many sequences a rank admits. Sources: vLLM's own option documentation (0.26 to 0.32) and public start-ups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.engine.builds import Build, build_of
from ridgeline.recipes.argv import Env
from ridgeline.recipes.capture import covering
from ridgeline.recipes.limits import admitted, context, memory_share, per_rank
from ridgeline.recipes.offload import offload
from ridgeline.recipes.origin import Value, asked, here
from ridgeline.recipes.placement import Ranks, ranks_of
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.recipes.single import single_node, timeout
from ridgeline.recipes.speculation import speculation
from ridgeline.recipes.vllm import Vllm, graphs, parallel_of, service

# First release whose ROCm model file runs the fused dispatch/GEMM/combine kernel under this name.
AITER_MEGA_MOE = (0, 32, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a GPU decides. `seqs`: sequences that a rank admits. None leaves a choice to the engine."""

    utilization: Value[float]
    batched: Value[int]
    seqs: int
    moe_backend: Value[str] | None = None
    all2all: Value[str] | None = None
    interval: Value[int] | None = None
    env: Env = field(default_factory=dict)


AITER: Env = MappingProxyType({"VLLM_ROCM_USE_AITER": here("1"), "VLLM_ROCM_USE_AITER_MOE": here("1")})


def mi355x(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """Eight (or four) MI355X. Data-parallel ranks admit the cell's concurrency each: twice that on every rank would
    only widen graph capture."""
    ranks = _single(cell)
    fused = _fused(build_of(cell.benchmark.image, "vllm"), ranks)
    choices = Choices(
        utilization=here(0.86),  # 0.90 asks for more than one fleet was seen to have free (256 of 288 GiB)
        batched=here(8192),
        seqs=cell.concurrency if ranks.dp > 1 else admitted(cell),
        moe_backend=here("aiter_mega_moe") if fused else here("aiter"),
        all2all=here("mori_high_throughput") if fused else None,
        env=AITER,
    )
    return _deployment(cell, facts, settings, choices)


def b200(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """Eight B200."""
    return _deployment(cell, facts, settings, _nvidia(cell, here(0.90), here(8192)))


def b300(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """Eight B300: as B200, with room for twice the batched tokens where one pool serves all GPUs."""
    batched = here(8192) if _single(cell).dp > 1 else here(16384)
    return _deployment(cell, facts, settings, _nvidia(cell, here(0.92), batched))


def _nvidia(cell: Cell, utilization: Value[float], batched: Value[int]) -> Choices:
    """Ranks prefill together, every eighth step, so that one rank's prefill does not cost all others their decode
    graphs."""
    ranks = _single(cell)
    return Choices(
        utilization=utilization,
        batched=batched,
        seqs=per_rank(admitted(cell), ranks.dp),
        moe_backend=here("deep_gemm_mega_moe") if ranks.expert_parallel else None,
        interval=here(8) if ranks.dp > 1 else None,
    )


def narrow(cell: Cell, facts: Facts, settings: RecipeSettings) -> Deployment:
    """GPUs whose memory the weights nearly fill (eight H200 hold 124 of 139.8 GiB each): all that is free is asked for,
    and few tokens are in flight, since windows keep pages for each of them."""
    seqs = per_rank(admitted(cell), _single(cell).dp)
    amd = facts.gpu.vendor == "amd"
    choices = Choices(utilization=here(0.95), batched=here(2048), seqs=seqs, env=AITER if amd else {})
    return _deployment(cell, facts, settings, choices)


def _deployment(cell: Cell, facts: Facts, settings: RecipeSettings, choices: Choices) -> Deployment:
    ranks, seqs, batched = _single(cell), choices.seqs, choices.batched
    drafting = speculation(cell, settings, "mtp", here(3))
    stores = offload(cell, ranks.dp)
    options = Vllm(
        model=asked(cell.benchmark.model, cell),
        served_model_name=asked(cell.benchmark.model, cell),
        parallel=parallel_of(cell),
        trust_remote_code=here(True),
        tokenizer_mode=here("deepseek_v4"),
        gpu_memory_utilization=memory_share(facts, choices.utilization),
        kv_cache_dtype=here("fp8"),  # the engine turns it into the fp8_ds_mla layout: 584 bytes a row
        block_size=here(256),
        max_model_len=context(cell, facts.arch),
        max_num_seqs=asked(seqs, cell),
        max_num_batched_tokens=batched,
        async_scheduling=here(True),
        enable_prefix_caching=here(True) if cell.scenario.kind == "agentic-coding" else here(False),
        prefill_schedule_interval=choices.interval,
        capture=covering(seqs, drafting.query if drafting else 1, batched.of, cell.where),
        compilation_config=graphs(here("FULL_AND_PIECEWISE")),
        moe_backend=choices.moe_backend,
        all2all_backend=choices.all2all,
        speculative_config=drafting.vllm() if drafting else None,
        store=stores.store,
        reasoning_parser=here("deepseek_v4"),
        tool_call_parser=here("deepseek_v4"),
        enable_auto_tool_choice=here(True),
    )
    engine = service(options, env={**choices.env, **stores.env}, timeout_s=timeout(settings))
    return single_node(cell, engine, settings, kind="vllm", stores=stores)


def _single(cell: Cell) -> Ranks:
    if cell.arm.topology is None:
        raise CannotRender(cell, "DeepSeek-V4-Pro over several nodes", hint="the generic vLLM recipe has pools")
    return ranks_of(cell.arm.topology)


def _fused(build: Build, ranks: Ranks) -> bool:
    """The fused expert kernel of ROCm needs data-parallel attention with experts spread over one node."""
    return ranks.dp > 1 and ranks.tp == 1 and ranks.expert_parallel and build.version >= AITER_MEGA_MOE
