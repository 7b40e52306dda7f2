"""Memory of one launch on one GPU, as far as it can be known before a start: exact parts as numbers, the rest as an
interval from earlier starts.

    requested = ceil(total x utilisation)
    cache     = requested - weights - constructor buffers - overhead        (overhead: see engine/overhead.py)
    needed    = what the longest request takes                              (see engine/kv.py)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.builds import expert_pad
from ridgeline.engine.formats import Formats, formats_run
from ridgeline.engine.kv import KvPlan
from ridgeline.engine.launch import Launch
from ridgeline.engine.overhead import Key, Overhead, alike, extra_weights, overhead
from ridgeline.engine.plans import plan_of, recurrent
from ridgeline.engine.weights import Weights, constructor_buffers, weights
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import ModelArch
from ridgeline.spec.facts.observations import Observation


class Sizing(NamedTuple):
    """Bytes on one rank. `low` and `high`: the cache that is certainly, and at most, there; None where open."""

    requested: int
    weights: Weights
    buffers: float
    extra: float  # weights seen beyond the formula in alike starts
    doubt: float  # padding that a build of unknown version may not have
    overhead: Overhead
    plan: KvPlan | None  # None: no rule unifies this model's pages; `refusal` says why
    refusal: str
    length: int
    needed: int
    low: float | None
    high: float

    @property
    def loaded(self) -> float:
        """What the engine counts as weights."""
        return self.weights.total + self.buffers + self.extra


@lru_cache(maxsize=512)
def weights_of(arch: ModelArch, topology: Topology, formats: Formats, mtp: bool, pad: int) -> Weights:
    """`weights`, remembered: many cells share a layout."""
    return weights(arch, topology, formats, mtp=mtp, pad=pad)


def launch_plan(arch: ModelArch, launch: Launch) -> tuple[KvPlan | None, str]:
    """The cache plan of a launch, or None and why not."""
    further = launch.speculation.drafts if launch.speculation else 0
    if caches_prefixes(arch, launch) and recurrent(arch):
        further += 1  # the state of the boundary before
    fp8 = launch.kv_dtype.startswith("fp8")
    return plan_of(
        arch, launch.attention, launch.block_size, fp8, launch.kv_rows, launch.mtp, further, launch.hybrid
    )  # fmt: skip


def caches_prefixes(arch: ModelArch, launch: Launch) -> bool:
    """Whether prefixes are cached: vLLM leaves that off for recurrent models unless it is told to, as scripts with
    drafts are taken to do."""
    told = launch.build.kind != "vllm" or launch.given("enable-prefix-caching") or launch.speculation is not None
    return launch.prefix_caching and (told or not recurrent(arch))


def launch_weights(arch: ModelArch, launch: Launch, formats: Formats, pad: int) -> Weights:
    """Weights of one GPU: experts over all GPUs, everything else over one rank's."""
    whole = weights_of(arch, launch.topology, formats, launch.mtp, pad)
    if launch.attention is launch.topology:
        return whole
    return weights_of(arch, launch.attention, formats, launch.mtp, pad)._replace(routed=whole.routed)


def key_of(launch: Launch, arch: ModelArch, gpu: Gpu, image: str) -> Key:
    """What earlier starts of this launch are known by."""
    drafts = launch.speculation.drafts if launch.speculation else 0
    return Key(image, arch.name, gpu.name, launch.label, launch.budget or 0, "", drafts)


def extra_known(observations: Sequence[Observation], launch: Launch, arch: ModelArch, gpu: Gpu, image: str) -> bool:
    """Whether a start of this very image has shown its weights."""
    return any(alike(item, key_of(launch, arch, gpu, image)) for item in observations)


def size(
    launch: Launch, arch: ModelArch, gpu: Gpu, formats: Formats, observations: Sequence[Observation], image: str
) -> Sizing:
    """The memory of one rank of a vLLM launch. Starts with weights of another precision tell of overhead alone."""
    same = [o for o in observations if not o.precision or formats_run(arch, o.precision, gpu) == formats]
    pad = expert_pad(launch.build, formats, gpu.vendor)
    parts = launch_weights(arch, launch, formats, pad)
    doubt = 0.0
    if launch.build.assumed and not extra_known(same, launch, arch, gpu, image):
        doubt = parts.routed - launch_weights(arch, launch, formats, min(pad, 128)).routed
    buffers = sum(constructor_buffers(arch, gpu.vendor, launch.budget or 0, mtp=launch.mtp).values())
    key = key_of(launch, arch, gpu, image)
    extra = extra_weights(same, key, (parts.total + buffers) / GIB) * GIB
    seen = overhead(observations, key)
    requested = math.ceil(gpu.memory_bytes * launch.utilization)
    length = min(launch.max_model_len or arch.max_len, arch.max_len if launch.max_model_len is None else 1 << 40)
    plan, refusal = launch_plan(arch, launch)
    needed = plan.needed(length, launch.in_flight) if plan else 0
    if launch.kv_bytes is not None:
        low: float | None = float(launch.kv_bytes)
        high = float(launch.kv_bytes)
    else:
        room = requested - parts.total - buffers - extra
        low = None if seen.high is None else room - seen.high * GIB
        high = room + doubt - seen.low * GIB
    return Sizing(requested, parts, buffers, extra, doubt, seen, plan, refusal, length, needed, low, high)
