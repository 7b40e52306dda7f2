"""How an engine is started, under vLLM's names and with its defaults: the one value the simulator, the emulated server
and the checks agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.acceptance import golden_lengths
from ridgeline.engine.formats import Formats, formats_of
from ridgeline.engine.graphs import MODES, Ladder, ladder
from ridgeline.spec.facts.golden import shipped_curves
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.library import find_gpu, find_model
from ridgeline.spec.facts.model import ModelArch

ROUTERS = ("session", "round-robin", "least-loaded", "cache-aware")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """One engine: a model on GPUs in a topology, with its limits. Limits are per data-parallel rank, as in vLLM."""

    arch: ModelArch
    gpu: Gpu
    topology: Topology
    precision: str
    formats: Formats
    engine: str = "vllm"  # engine build whose cost parameters and rules apply
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int = 16
    gpu_memory_utilization: float = 0.9
    kv_cache_dtype: str = "auto"  # "auto" (bf16) | "fp8"
    expert_padding: int | None = None  # columns that an expert's shard is rounded up to; None: as the build does
    kv_rows: str = "packed"  # how the attention backend stores DeepSeek-V4's latents: engine/kvlayers.py
    hybrid_kv_cache_manager: bool = True  # windows and states have groups of their own
    enable_prefix_caching: bool = True
    long_prefill_token_threshold: int = 0  # 0: no limit per request and step
    async_scheduling: bool = True
    watermark: float = 0.0  # share of blocks kept free when admitting
    scheduler_reserve_full_isl: bool = True  # admit only when the whole prompt would fit
    cudagraph_mode: str = "FULL_AND_PIECEWISE"
    cudagraph_capture_sizes: tuple[int, ...] | None = None
    max_cudagraph_capture_size: int | None = None
    dense_capture: bool = False  # a graph for each of the small sizes ("interactivity" performance mode)
    v2_runner: bool = False  # vLLM's newer model runner, whose graphs are others
    num_speculative_tokens: int = 0
    draft_layer: bool = True  # drafts come from the model's own layer; else from something that costs no memory here
    acceptance_length: float | None = None  # tokens a verification yields, the bonus token included; None: golden
    prefill_schedule_interval: int = 1  # new requests are admitted in every so many-th step
    prefill_first: bool = False  # SGLang's order: a step prefills or decodes
    checkpoints: str = "all"  # where windows and states can be resumed: "all" | "prompt" | "chunks"
    checkpoint_interval: int = 0  # tokens; and at multiples of these
    host_kv_tokens: int = 0  # second tier in host memory, tokens per rank
    host_lease_s: float = 5.0  # how long blocks found there are kept from eviction while they wait to be loaded
    kv_cache_memory_bytes: int | None = None  # cache of one GPU, instead of what memory arithmetic gives
    kv_tokens: int | None = None  # overrides both, per rank
    router: str = "session"  # how requests are spread over data-parallel ranks
    seed: int = 0

    @property
    def in_flight_tokens(self) -> int:
        """Tokens of unfinished batches that windowed caches must keep: two batches with async scheduling."""
        stages = self.topology.pp
        overlapping = self.async_scheduling and (stages == 1 or self.v2_runner)
        return (stages + overlapping) * self.max_num_batched_tokens

    @property
    def accepted_per_step(self) -> float:
        """Tokens of a decoding step: the acceptance length given, or the golden one of the model and draft length."""
        drafts = self.num_speculative_tokens
        if not drafts:
            return 1.0
        if self.acceptance_length is not None:
            return self.acceptance_length
        found = golden_lengths(shipped_curves(), self.arch.name, drafts)
        # Without a curve: 0.8, the middle of what golden curves say about the first draft, at every position.
        return found[0].length if found else sum(0.8**position for position in range(drafts + 1))

    @property
    def spec_decode(self) -> bool:
        return self.num_speculative_tokens > 0

    @property
    def graphs(self) -> Ladder:
        """What is captured. Engines other than vLLM capture every batch that they may run. Raises InputError in vLLM's
        words where it refuses to start."""
        sizes, top = self.cudagraph_capture_sizes, self.max_cudagraph_capture_size
        if top is None and sizes is None and self.engine != "vllm":
            top = self.max_num_seqs * (1 + self.num_speculative_tokens)
        try:
            return ladder(
                max_num_seqs=self.max_num_seqs,
                max_num_batched_tokens=self.max_num_batched_tokens,
                spec_tokens=self.num_speculative_tokens,
                mode=self.cudagraph_mode,
                sizes=sizes,
                top=top,
                dense=self.dense_capture,
                v2_runner=self.v2_runner,
            )
        except ValueError as error:
            raise InputError([Problem(str(error), key="cudagraph_capture_sizes")]) from error


def options_from(
    arch: ModelArch | str, gpu: Gpu | str, topology: Topology, precision: str | None = None, **overrides: Any
) -> EngineOptions:
    """Options from facts (or their names) and overrides; vLLM's defaults fill the rest.

    `precision` None: as the checkpoint is shipped. Overrides that are None count as not given. Defaults that depend on
    the GPU: 8,192 batched tokens and 1,024 sequences from 70 GiB of memory on, else 2,048 and 256 (vLLM's API server).
    Raises InputError with every problem found.
    """
    model = find_model(arch) if isinstance(arch, str) else arch
    device = find_gpu(gpu) if isinstance(gpu, str) else gpu
    given = {key: value for key, value in overrides.items() if value is not None}
    known = {item.name for item in fields(EngineOptions)} - {"arch", "gpu", "topology", "precision", "formats"}
    problems = [
        Problem(f"is not an engine option; known: {', '.join(sorted(known))}", key=key)
        for key in given
        if key not in known
    ]
    large = device.memory_bytes >= 70 * GIB
    given.setdefault("max_model_len", model.max_len)
    given.setdefault("max_num_seqs", 1024 if large else 256)
    given.setdefault("max_num_batched_tokens", 8192 if large else 2048)
    problems += _problems(model, topology, given)
    if problems:
        raise InputError(problems)
    formats = formats_of(model, precision, device) if precision else Formats(model.experts_format, model.linear_format)
    return EngineOptions(
        arch=model, gpu=device, topology=topology, precision=precision or "as shipped", formats=formats, **given
    )


_COUNTS = (
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "kv_cache_memory_bytes", "kv_tokens"
)  # fmt: skip


def _problems(model: ModelArch, topology: Topology, given: dict[str, Any]) -> Sequence[Problem]:
    found = [
        Problem(f"must be a positive integer, is {given[key]!r}", key=key)
        for key in _COUNTS
        if key in given and (not isinstance(given[key], int) or given[key] < 1)
    ]
    if not 0 < given.get("gpu_memory_utilization", 0.9) <= 1:
        found.append(Problem("must be above 0 and at most 1", key="gpu_memory_utilization"))
    if not 0 <= given.get("watermark", 0.0) < 1:
        found.append(Problem("must be at least 0 and below 1", key="watermark"))
    if given.get("router", ROUTERS[0]) not in ROUTERS:
        found.append(Problem(f"must be one of {', '.join(ROUTERS)}", key="router"))
    if given.get("cudagraph_mode", "NONE") not in MODES:
        found.append(Problem(f"must be one of {', '.join(MODES)}", key="cudagraph_mode"))
    drafts, length = given.get("num_speculative_tokens", 0), given.get("acceptance_length")
    if drafts < 0:
        found.append(Problem(f"must be at least 0, is {drafts}", key="num_speculative_tokens"))
    if length is not None and not 1 <= length <= drafts + 1:
        found.append(Problem(f"must be 1 to {drafts + 1} with {drafts} draft tokens", key="acceptance_length"))
    if given.get("checkpoints", "all") not in ("all", "prompt", "chunks"):
        found.append(Problem("must be one of all, prompt, chunks", key="checkpoints"))
    for key in ("tp", "pp", "dcp", "pcp", "ep"):
        if getattr(topology, key) < 1:
            found.append(Problem(f"must be at least 1, is {getattr(topology, key)}", key=key))
    if topology.ep > 1 and not model.moe:
        hint = "leave the expert-parallel size at 1"
        found.append(Problem(f"{model.name} has no experts to spread over {topology.ep} ranks", key="ep", hint=hint))
    world = topology.tp * topology.pcp
    if topology.ep > 1 and world % topology.ep:
        found.append(Problem(f"{topology.ep} does not divide the {world} GPUs of a stage", key="ep"))
    return found
