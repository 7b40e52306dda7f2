"""What a launch makes of an engine: the engine model's options, from the command line that the checks read.

    services --reader of the engine's kind--> Launch --facts, earlier starts--> EngineOptions, and notes how it is known

KV pool: the bytes that `ridgeline check` proves where an alike start was seen; else the memory asked for less weights
and an estimate of the rest, not below what starts of the model on this GPU took in other layouts. Host tier: the bytes
set aside, as M8 counts them, over the GPUs that share them. What the launch leaves open has the engine's default; what
the model passes over is noted by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ridgeline.core.deployment import Deployment, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.units import GIB
from ridgeline.engine.builds import Build, expert_pad
from ridgeline.engine.formats import Formats
from ridgeline.engine.hosting import offload_of, offloaded_bytes
from ridgeline.engine.kv import longest_that_fits
from ridgeline.engine.kvpool import HOST_STATES, copies, own_state_pool, token_bytes
from ridgeline.engine.launch import Launch
from ridgeline.engine.memory import NON_TORCH, memory_of
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.engine.sglang_flags import sglang_launch
from ridgeline.engine.sizing import Sizing, caches_prefixes, size
from ridgeline.engine.trt_flags import trt_launch
from ridgeline.engine.vllm_flags import vllm_launch
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import ModelArch
from ridgeline.spec.facts.observations import Observation

ENGINE_ROLES = ("engine", "prefill", "decode")
# A part of a config's framework -> the engine whose rules apply: `dynamo-vllm` and `llmd-vllm` run vLLM.
KINDS = (("sglang", "sglang"), ("trt", "trt"), ("atom", "atom"), ("vllm", "vllm"))
# What reads an engine's command line; None: as vLLM's.
READERS = {"vllm": None, "atom": None, "sglang": sglang_launch, "trt": trt_launch}
BY_REQUESTS = ("sglang", "trt", "atom")  # engines that count the sizes of graphs in requests, not in tokens
SHRINKING = ("sglang", "trt")  # engines that start with room for no longest request, and refuse such requests
LARGE_GPU = 70 * GIB
GRAIN = 16  # tokens: SGLang's tree has single ones, whose difference no prompt of thousands shows
SGLANG_SHARE = 0.88  # SGLang computes its fraction from the GPU; what it comes to on GPUs of 80 GB and more, roughly
RETENTION = "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"
# Options that change what a step does and that the model has no word for.
PASSED_OVER = (
    "schedule-policy", "schedule-conservativeness", "scheduling-policy", "max-num-partial-prefills", "enable-dbo",
    "enable-two-batch-overlap", "num-continuous-decode-steps", "mamba-cache-mode", "swa-full-tokens-ratio",
    "max-total-tokens", "enable-pdmux", "cpu-offload-gb", "stream-interval",
)  # fmt: skip


def kind_of(framework: str) -> str:
    """The engine whose rules apply to a config's framework; the framework itself where none is known."""
    return next((name for word, name in KINDS if word in framework), framework)


def launches_of(deployment: Deployment, build: Build, gpu: Gpu, family: str) -> tuple[Launch, ...]:
    """The engines that a deployment starts, as their command lines say; none for kinds that no reader knows.
    `family`: the model's."""
    if build.kind not in READERS or deployment.kind == "emulated":
        return ()
    return tuple(launch_of(s, build, gpu, family) for s in deployment.services if s.role in ENGINE_ROLES)


def launch_of(service: Service, build: Build, gpu: Gpu, family: str) -> Launch:
    """The launch of one engine service, by the reader of its build's kind."""
    read = READERS[build.kind]
    if read is not None:
        return read(service, build)
    return vllm_launch(service, build, large_gpu=gpu.memory_bytes >= LARGE_GPU, family=family)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is known of a launch beside its command line. `free_gib`: memory found free on this fleet's GPUs; `share`:
    host bytes that the cell allows each of its GPUs, 0 where it says none."""

    arch: ModelArch
    gpu: Gpu
    precision: str
    formats: Formats
    image: str
    engine: str  # build whose cost parameters apply
    observations: Sequence[Observation] = ()
    free_gib: float | None = None
    services: Sequence[Service] = ()
    share: float = 0.0
    router: str = "session"
    seed: int = 0


class Launched(NamedTuple):
    """Options, and in words how its cache is known and what of the launch is not modelled."""

    options: EngineOptions
    notes: tuple[str, ...]


def options_of_launch(launch: Launch, around: Around) -> Launched:
    """The engine that a launch starts. Raises InputError for a command line that cannot be read and graphs that the
    engine refuses, EnvironmentFailed for what is not modelled, by name, and a host tier of unknown size."""
    if launch.problems:
        raise InputError(launch.problems)
    if launch.ranks > 1 and launch.rank_tp > 1:
        raise EnvironmentFailed(
            f"the engine model does not cover {launch.ranks} data-parallel ranks of {launch.rank_tp} GPUs each yet"
        )
    arch, kind = around.arch, launch.build.kind
    block = max(launch.block_size, GRAIN) if kind == "sglang" else launch.block_size
    sized = size(replace(launch, block_size=block), arch, around.gpu, around.formats, around.observations, around.image)
    if sized.plan is None:
        raise EnvironmentFailed(f"this model's cache pages cannot be laid out by the rules known here: {sized.refusal}")
    options = _without_pool(launch, around, block, sized.length)
    room, known = pool_bytes(launch, sized, options, around)
    notes = [f"cache: {known}"]
    if launch.auto_len or kind in SHRINKING:
        length = longest_that_fits(sized.plan, room, sized.length, options.in_flight_tokens)
        if 0 < length < sized.length:
            notes.append(f"requests of more than {length:,} tokens are refused: the cache holds no longer one")
            options = replace(options, max_model_len=length)
    options = replace(options, kv_cache_memory_bytes=room)
    if room <= 0:
        memory_of(options)  # raises, with what asks for how much
    options = replace(options, host_kv_tokens=host_tokens(launch, options, around))
    options.graphs  # noqa: B018  # what the engine refuses to capture is said here
    notes += [f"`--{name}` is not modelled" for name in PASSED_OVER if launch.given(name)]
    return Launched(options, tuple(notes))


def _without_pool(launch: Launch, around: Around, block: int, length: int) -> EngineOptions:
    """Everything but memory. Sizes that an engine counts in requests become tokens."""
    arch, speculation = around.arch, launch.speculation
    drafts = speculation.drafts if speculation else 0
    by_requests = launch.build.kind in BY_REQUESTS
    each = 1 + drafts if by_requests else 1
    kept = launch.env.get(RETENTION)
    options = options_from(
        arch,
        around.gpu,
        launch.topology,
        around.precision,
        engine=around.engine,
        max_model_len=length,
        max_num_seqs=launch.max_num_seqs,
        max_num_batched_tokens=launch.budget,
        block_size=block,
        gpu_memory_utilization=launch.utilization or SGLANG_SHARE,
        kv_cache_dtype="fp8" if launch.kv_dtype.startswith("fp8") else None,
        kv_rows=launch.kv_rows,
        hybrid_kv_cache_manager=launch.hybrid,
        enable_prefix_caching=caches_prefixes(arch, launch),
        long_prefill_token_threshold=launch.long_prefill,
        async_scheduling=launch.async_scheduling,
        scheduler_reserve_full_isl=launch.reserves,
        cudagraph_mode=launch.mode,
        cudagraph_capture_sizes=None if launch.sizes is None else tuple(each * size for size in launch.sizes),
        max_cudagraph_capture_size=None if launch.top is None else each * launch.top,
        dense_capture=launch.dense and not by_requests,
        v2_runner=launch.v2_runner,
        num_speculative_tokens=drafts,
        draft_layer=launch.mtp,
        expert_padding=expert_pad(launch.build, around.formats, around.gpu.vendor),
        acceptance_length=speculation.length if speculation else None,
        prefill_schedule_interval=launch.prefill_interval,
        prefill_first=launch.prefill_alone,
        checkpoints="prompt" if kept is not None else None,
        checkpoint_interval=int(kept.text) if kept is not None and kept.text.isdigit() else None,
        router=around.router,
        seed=around.seed,
    )
    return replace(options, formats=around.formats)


def pool_bytes(launch: Launch, sized: Sizing, options: EngineOptions, around: Around) -> tuple[int, str]:
    """Bytes of cache on one GPU, and how they are known."""
    assert sized.plan is not None
    if launch.blocks_override is not None:
        return launch.blocks_override * sized.plan.bytes_per_block, f"{launch.blocks_override:,} blocks are forced"
    estimate = memory_of(replace(options, kv_tokens=options.max_model_len))
    rest = estimate.activation + estimate.other
    if launch.build.kind == "sglang":
        seen = around.free_gib
        free = seen * GIB if seen is not None else options.gpu.memory_bytes - NON_TORCH  # all but a context's
        whose = "found free" if seen is not None else "taken to be free"
        share = options.gpu_memory_utilization
        return round(free * share - sized.loaded), f"{free / GIB:.2f} GiB {whose} x {share:g} - weights"
    if launch.build.kind == "trt":
        left = options.gpu.memory_bytes - sized.loaded - rest
        return round(left * launch.utilization), f"{launch.utilization:g} of what an estimate leaves free after loading"
    if launch.kv_bytes is not None:
        return launch.kv_bytes, "its bytes are given"
    if sized.low is not None:
        where = "; ".join(sorted({item.source for item in sized.overhead.seen}))
        return int(sized.low), f"overhead {sized.overhead.text}, from {where}"
    took = max(rest, sized.overhead.low * GIB, *related(launch, around).values())
    text = f"overhead of {took / GIB:.2f} GiB is estimated, no alike start was seen"
    near = next((layout for layout, seen in related(launch, around).items() if seen == took), None)
    text += f" ({near} of this model took as much)" if near else ""
    return int(sized.requested - sized.loaded - took), text


def related(launch: Launch, around: Around) -> dict[str, float]:
    """Bytes that neither weights nor cache took in starts of the model on this GPU, by layout: in other ones, and with
    no more tokens in a step, since that memory grows with them."""
    name = around.arch.name.rsplit("/", 1)[-1].lower()
    return {
        seen.topology: seen.overhead_gib * GIB
        for seen in around.observations
        if seen.overhead_gib is not None
        and seen.model.rsplit("/", 1)[-1].lower() == name
        and seen.gpu.lower() == around.gpu.name.lower()
        and seen.batched_tokens <= (launch.budget or 0)
    }


def host_tokens(launch: Launch, options: EngineOptions, around: Around) -> int:
    """Tokens of one rank that its share of host memory holds; 0 without a host tier."""
    name = offload_of(launch)
    if not name:
        return 0
    if launch.hicache_ratio is not None and launch.hicache_gb is None:
        pool = memory_of(options).pool
        return int(launch.hicache_ratio * pool.blocks * pool.block_size)
    held = offloaded_bytes(launch, around.services)
    each = around.share if held is None else held / launch.topology.gpus
    if not each:
        hint = "give --runner-config, which says how much host memory the runner has"
        raise EnvironmentFailed(f"`{name}` offloads KV into host memory of unknown size", hint=hint)
    return hosted_tokens(options, each, name)


def hosted_tokens(options: EngineOptions, each: float, backend: str) -> int:
    """Tokens of one rank that `each` bytes of host memory a GPU hold. Every GPU of a rank keeps its own part of a token
    there, equal or not; stores beside the engine have a latent that all of them hold once. SGLang's states take their
    part."""
    plan = memory_of(replace(options, kv_tokens=options.max_model_len)).plan
    once = any(store in backend.lower() for store in ("lmcache", "mooncake"))
    history = each * (copies(options, plan) if once else 1)
    if own_state_pool(options):
        history /= 1 + HOST_STATES
    return int(history / token_bytes(options, plan))
