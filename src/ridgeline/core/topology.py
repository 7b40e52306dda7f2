"""How a model is laid out over GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topology:
    """One worker's layout. `dp_attn`: attention is data-parallel over the tp GPUs (one rank a GPU), as InferenceX
    writes it; `ep` is the expert-parallel size inside the same GPUs.

    ep and dcp never multiply the GPU count: they divide work over GPUs that tp, pp and pcp already occupy.
    """

    tp: int
    pp: int = 1
    dcp: int = 1
    pcp: int = 1
    ep: int = 1
    dp_attn: bool = False

    @property
    def gpus(self) -> int:
        """GPUs one worker occupies: tp x pp x pcp."""
        return self.tp * self.pp * self.pcp

    @property
    def dp_ranks(self) -> int:
        """Data-parallel attention ranks: independent schedulers, each with its own KV pool."""
        return self.tp if self.dp_attn else 1

    @property
    def attention_tp(self) -> int:
        """GPUs over which the attention of one rank is split."""
        return 1 if self.dp_attn else self.tp

    @property
    def label(self) -> str:
        """`TP8`, `TP8EP8`, `DP8EP8`, with pp, dcp and pcp when they are not 1."""
        parts = [f"{'DP' if self.dp_attn else 'TP'}{self.tp}"]
        parts += [f"EP{self.ep}"] if self.ep > 1 else []
        parts += [f"{name}{size}" for name, size in (("PP", self.pp), ("DCP", self.dcp), ("PCP", self.pcp)) if size > 1]
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Pool:
    """A group of equal workers with one role in a disaggregated or multi-node cell."""

    role: str  # "prefill" | "decode"
    workers: int
    topology: Topology
    hardware: str | None = None
    settings: tuple[str, ...] = ()  # `additional-settings` as written

    @property
    def gpus(self) -> int:
        return self.workers * self.topology.gpus
