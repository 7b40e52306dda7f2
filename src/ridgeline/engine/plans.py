"""The cache plan of an engine, from how it is started: the one that checks, simulator and emulated server share."""

from __future__ import annotations

from functools import lru_cache

from ridgeline.core.topology import Topology
from ridgeline.engine.kv import KvPlan, plan_groups
from ridgeline.engine.kvlayers import kv_layers
from ridgeline.spec.facts.model import ModelArch, Recurrent


@lru_cache(maxsize=512)
def plan_of(
    arch: ModelArch, topology: Topology, block: int, fp8: bool, rows: str, mtp: bool, drafts: int, hybrid: bool
) -> tuple[KvPlan | None, str]:
    """The plan, or None and why there is none. `mtp`: the draft layer's cache counts; `drafts`: further states that a
    request holds; other arguments as in `kv_layers` and `plan_groups`."""
    layers = kv_layers(arch, topology, block=block, fp8=fp8, mtp=mtp, rows=rows, state_extra=drafts)
    try:
        return plan_groups(layers, hybrid=hybrid), ""
    except ValueError as error:
        return None, str(error)


def recurrent(arch: ModelArch) -> bool:
    """Whether a model keeps states instead of a cache that grows, in some of its layers."""
    return any(isinstance(block.attention, Recurrent) for block in arch.blocks)
