"""Measured points as the engine model needs them: what ran, under which load, and what was seen.

Which files hold such points and how they are read: `pointkinds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.topology import Topology

# Short names of the public tables. Speculation says "mtp" without a draft length: three is the recipes' usual one.
MODELS = {
    "dsr1": "deepseek-r1", "dsv4": "deepseek-v4-pro", "llama70b": "llama-3.1-70b", "gptoss120b": "gpt-oss-120b",
    "minimaxm2.5": "minimax-m2.5", "minimaxm3": "minimax-m3", "qwen3.5": "qwen3.5-397b-a17b", "glm5": "glm-5",
    "glm5.1": "glm-5", "glm5.2": "glm-5.2", "kimik2.5": "kimi-k2.5", "kimik3": "kimi-k3",
    "dsv4flash": "deepseek-v4-flash", "dsv41flash": "deepseek-v4.1-flash", "dsv3": "deepseek-v3",
    "dsv3.2": "deepseek-v3.2", "glm5.3": "glm-5.3", "kimik2": "kimi-k2", "minimaxm2.7": "minimax-m2.7",
    "llama8b": "llama-3.1-8b", "llama405b": "llama-3.1-405b", "gptoss20b": "gpt-oss-20b",
    "qwen3moe": "qwen3-30b-a3b",
}  # fmt: skip
# Models whose own dimensions are not to be had: another's stand in.
STANDS_IN = {"dsv41flash": "dimensions of DeepSeek-V4-Flash stand in"}
DRAFTS = 3
# Tokens a verification yields where neither the row nor a golden curve says it: DeepSeek-R1's draft layer is of the
# kind that DeepSeek-V4-Pro's golden curve was measured with (three drafts, thinking).
ACCEPTED = {"dsr1": 2.49}


class Prefill(NamedTuple):
    """The prefill pool of a disaggregated deployment; its decode pool is the point's topology."""

    topology: Topology
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One point. Times in seconds; `tput` tokens per second and GPU, input and output. None: not measured."""

    row: int
    hardware: str
    engine: str
    model: str
    precision: str
    spec: str
    topology: Topology | None
    conc: int
    isl: int | None = None
    osl: int | None = None
    drafts: int = 0
    accepted: float | None = None
    unsaid: bool = False  # the number of drafts is assumed
    workers: int = 1
    prefill: Prefill | None = None
    offload: bool = False
    tput: float | None = None
    tpot_s: float | None = None
    ttft_s: float | None = None
    ttft_median: bool = False  # else the mean
    date: str | None = None  # of the run, YYYY-MM-DD, where the table says it
    hit: float | None = None
    most: int | None = None  # requests that the server works on at once, where its recipe says so
    output_tput: float | None = None  # output tokens per second and GPU, where the input is not said
    source: str = ""  # which run or report, where a file holds several
    assumed: tuple[str, ...] = ()  # what the row does not say and how it was taken

    @property
    def kind(self) -> str:
        return "agentic" if self.isl is None else "fixed"

    @property
    def gpus(self) -> int:
        own = (self.topology.gpus if self.topology else 1) * self.workers
        return own + (self.prefill.topology.gpus * self.prefill.workers if self.prefill else 0)

    @property
    def series(self) -> tuple[object, ...]:
        """All arms of one question: what a frontier is drawn from."""
        return (self.hardware, self.engine, self.model, self.precision, self.spec, self.isl, self.osl)

    @property
    def label(self) -> str:
        """The layout in words."""
        own = self.topology.label if self.topology else "?"
        own += f"x{self.workers}" if self.workers > 1 else ""
        return f"{self.prefill.topology.label}x{self.prefill.workers}+{own}" if self.prefill else own

    @property
    def arm(self) -> tuple[object, ...]:
        return (*self.series, self.label, self.offload)

    @property
    def implied(self) -> float | None:
        """Requests that decoded at once, from the row's own numbers (Little's law): output rate x time per token."""
        if self.tput is None or self.tpot_s is None or not self.isl or not self.osl:
            return None
        return self.tput * self.gpus * self.osl / (self.isl + self.osl) * self.tpot_s

    @property
    def doubtful(self) -> bool:
        """Less than an eighth of the stated requests decoded at once: the row says it ran something else."""
        held = min(self.conc, self.most or self.conc)
        return self.implied is not None and held >= 8 and self.implied < held / 8


def served_by(engine: str) -> str:
    """The engine behind a router: `sglang` of `dynamo-sglang` and `mori-sglang`."""
    for router in ("dynamo-", "mori-", "llmd-"):
        engine = engine.removeprefix(router)
    return engine


def read_points(path: Path) -> list[Measured]:
    """Every point of a file. Raises InputError with all rows that cannot be read, or for an unknown set of columns."""
    from ridgeline.simulate.pointkinds import read_file

    return read_file(path).strict()
