"""Benchmark, scenario, arm and cell: what is to be measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ridgeline.core.topology import Pool, Topology
from ridgeline.core.where import Where


@dataclass(frozen=True, slots=True)
class Component:
    """A named part of the stack with its version (router, KV offload backend)."""

    name: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One entry of a config file."""

    key: str
    image: str
    model: str
    model_prefix: str
    precision: str
    framework: str
    runner: str
    multinode: bool = False
    disagg: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """`fixed-seq-len` carries isl and osl (tokens); `agentic-coding` carries a duration (seconds)."""

    kind: Literal["fixed-seq-len", "agentic-coding"]
    isl: int | None = None
    osl: int | None = None
    duration_s: int | None = None

    @property
    def name(self) -> str:
        """`1k1k`, `8k1k`, `512_128`, `agentic`."""
        if self.kind == "agentic-coding":
            return "agentic"
        return {(1024, 1024): "1k1k", (8192, 1024): "8k1k"}.get(
            (self.isl or 0, self.osl or 0), f"{self.isl}_{self.osl}"
        )


@dataclass(frozen=True, slots=True)
class Arm:
    """One search-space entry: a topology and its options. Single-node arms have `topology`, others have `pools`."""

    topology: Topology | None = None
    pools: tuple[Pool, ...] = ()
    spec_decoding: str = "none"
    kv_offloading: str = "none"
    kv_offload_backend: Component | None = None
    router: Component | None = None
    kv_p2p_transfer: str | None = None
    cpu_dram_gb: int = 0
    pinned_caps: int | None = None  # the concurrency whose caps all cells of the arm have, so that they share a start

    @property
    def gpus(self) -> int:
        return self.topology.gpus if self.topology else sum(pool.gpus for pool in self.pools)

    @property
    def label(self) -> str:
        """`TP8EP8`, or `1xTP4+2xDP16EP16` for pools; with `mtp`, offload backend and pinned caps when set."""
        if self.topology:
            text = self.topology.label
        else:
            text = "+".join(f"{pool.workers}x{pool.topology.label}" for pool in self.pools)
        text += f"-{self.spec_decoding}" if self.spec_decoding != "none" else ""
        text += f"-{self.kv_offload_backend.name}" if self.kv_offload_backend else ""
        return text + (f"-caps{self.pinned_caps}" if self.pinned_caps else "")


@dataclass(frozen=True)
class Cell:
    """One point to run: benchmark x scenario x arm x concurrency (lanes, i.e. live session trees)."""

    benchmark: Benchmark
    scenario: Scenario
    arm: Arm
    concurrency: int
    where: Where | None = field(default=None, compare=False)
    variant: str = field(default="", compare=False)  # tells arms of one label apart; part of the name, not of the cell

    @property
    def gpus(self) -> int:
        return self.arm.gpus

    @cached_property
    def name(self) -> str:
        """Readable and unique inside one expansion: `CONFIG-KEY/SCENARIO/ARM/cN`, with `ARM~VARIANT` where arms share
        a label."""
        variant = f"~{self.variant}" if self.variant else ""
        return f"{self.benchmark.key}/{self.scenario.name}/{self.arm.label}{variant}/c{self.concurrency}"

    @cached_property
    def line(self) -> str:
        """The line a cell belongs to: benchmark, scenario and arm, without the concurrency."""
        return self.name.rsplit("/", 1)[0]

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the canonical cell: stable over files, key order and Python versions."""
        return digest(canonical(self))


def canonical(value: Any) -> Any:
    """Plain JSON data of a frozen value, without fields that do not take part in equality and without Nones."""
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        items = {name: canonical(getattr(value, name)) for name, f in fields.items() if f.compare}
        return {name: item for name, item in items.items() if item is not None}
    if isinstance(value, Mapping):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [canonical(item) for item in value]
    return value


def digest(data: Any) -> str:
    """sha256 (hex) of JSON data: sorted keys, no blanks, ASCII, NaN refused."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
