"""How one engine is launched: what its command line and environment say, as one value that the checks read.

Options that the command line leaves out have the engine's own defaults; `given` tells which were said, `where` where.
What cannot be understood is kept in `problems` and `unread`, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.core.deployment import Item, Service
from ridgeline.core.errors import Problem
from ridgeline.core.topology import Topology
from ridgeline.core.where import Where
from ridgeline.engine.argv import Flag
from ridgeline.engine.builds import Build


@dataclass(frozen=True, slots=True)
class Speculation:
    """Draft tokens of a launch. `length`: the synthetic acceptance length, None when acceptance is real."""

    method: str
    drafts: int
    length: float | None = None
    rejection: str = "standard"
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One engine process group. Limits are per data-parallel rank."""

    service: Service
    build: Build
    topology: Topology
    flags: Mapping[str, Flag]
    env: Mapping[str, Item]
    model: str = ""
    rank_tp: int = 1  # GPUs over which one data-parallel rank's attention is split, where there are ranks
    utilization: float = 0.9  # vLLM: fraction of total; SGLang: --mem-fraction-static
    kv_bytes: int | None = None  # --kv-cache-memory-bytes
    max_model_len: int | None = None  # None: the model's own
    auto_len: bool = False
    max_num_seqs: int | None = None  # None: not known (engine without a known default)
    budget: int | None = None  # tokens of one step on one rank
    block_size: int = 16
    kv_dtype: str = "auto"
    kv_rows: str = "packed"
    prefix_caching: bool = True
    async_scheduling: bool = True
    mode: str = "FULL_AND_PIECEWISE"
    sizes: tuple[int, ...] | None = None
    top: int | None = None
    dense: bool = False
    eager: bool = False
    compile_mode: str | None = None
    v2_runner: bool = False
    speculation: Speculation | None = None
    hybrid: bool = True
    connector: Mapping[str, Any] = field(default_factory=dict)
    native_offload_gib: float | None = None
    moe_backend: str | None = None
    attention_backend: str | None = None
    prefill_interval: int | None = None
    long_prefill: int = 0  # prompt tokens of one request in a step; 0: no limit
    reserves: bool = True  # a prompt is admitted only when all of it has room
    prefill_alone: bool = False  # a step prefills or decodes, never both
    blocks_override: int | None = None
    redundant_experts: int = 0
    hicache_ratio: float | None = None
    hicache_gb: float | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def ranks(self) -> int:
        """Data-parallel ranks: independent schedulers, each with a pool of its own."""
        return self.topology.tp // self.rank_tp if self.topology.dp_attn else 1

    @property
    def attention(self) -> Topology:
        """The layout of one rank's attention: what splits its heads, its tables and its cache."""
        whole = self.topology
        if not whole.dp_attn or self.rank_tp == 1:
            return whole
        return Topology(self.rank_tp, whole.pp, whole.dcp, whole.pcp)

    @property
    def label(self) -> str:
        """The layout in a word: `DP8EP8`, or `DP2TP16EP32` where ranks have several GPUs."""
        if self.attention is self.topology:
            return self.topology.label
        return self.topology.label.replace(f"DP{self.topology.tp}", f"DP{self.ranks}TP{self.rank_tp}", 1)

    @property
    def query(self) -> int:
        """Tokens a decoding sequence has in a step."""
        return 1 + (self.speculation.drafts if self.speculation else 0)

    @property
    def batches(self) -> int:
        """Batches in flight: pipeline stages, and one more with asynchronous scheduling (two without stages)."""
        stages = self.topology.pp
        if not self.async_scheduling:
            return stages
        return 2 if stages == 1 else stages + 1 if self.v2_runner else stages

    @property
    def in_flight(self) -> int:
        """Tokens of unfinished batches that windowed caches keep."""
        return self.batches * (self.budget or 0)

    @property
    def mtp(self) -> bool:
        """The model's own draft layer is loaded."""
        return bool(
            self.speculation and self.speculation.method in ("mtp", "MTP", "deepseek_mtp", "nextn", "NEXTN", "EAGLE")
        )

    def given(self, name: str) -> bool:
        return name in self.flags

    def where(self, *names: str) -> Where | None:
        """The place of the first of these options that the command line says, else of the command itself."""
        found = next((self.flags[name].where for name in names if name in self.flags), None)
        return found or next((item.origin for item in self.service.argv if item.origin), None)
