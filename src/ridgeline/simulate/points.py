"""Measured points as the engine model needs them: what ran, under which load, and what was seen.

Column formats that are read, told apart by their header:

- fixed-sequence points (`decode_tp`, `isl`, `osl`, `median_tpot_s`, `tput_per_gpu`), aggregated and disaggregated rows
- tables of fixed-sequence results (`tp`, `ep`, `isl`, `total_tput_per_gpu`, `ttft_ms`, `tpot_ms`)
- agentic tables (`conc`, `total_tput_per_gpu` or `tput_per_gpu`, no `isl`)
- `results.json` of an engine measured step by step (`decode_step_ms`, `prefill`)
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.topology import Topology
from ridgeline.core.where import Where

# Short names of the public tables. Speculation says "mtp" without a draft length: three is the recipes' usual one.
MODELS = {
    "dsr1": "deepseek-r1", "dsv4": "deepseek-v4-pro", "llama70b": "llama-3.1-70b", "gptoss120b": "gpt-oss-120b",
    "minimaxm2.5": "minimax-m2.5", "minimaxm3": "minimax-m3", "qwen3.5": "qwen3.5-397b-a17b", "glm5": "glm-5",
    "glm5.1": "glm-5", "glm5.2": "glm-5.2", "kimik2.5": "kimi-k2.5", "kimik3": "kimi-k3",
}  # fmt: skip
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
    workers: int = 1
    prefill: Prefill | None = None
    offload: bool = False
    tput: float | None = None
    tpot_s: float | None = None
    ttft_s: float | None = None
    ttft_median: bool = False  # else the mean
    date: str | None = None  # of the run, YYYY-MM-DD, where the table says it
    hit: float | None = None

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
        return self.implied is not None and self.conc >= 8 and self.implied < self.conc / 8


def read_points(path: Path) -> list[Measured]:
    """Every point of a file. Raises InputError with all rows that cannot be read, or an unknown set of columns."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError([Problem(f"cannot be read: {error}", Where(str(path)))]) from error
    columns = set(rows[0]) if rows else set()
    if {"decode_tp", "isl", "osl", "tput_per_gpu"} <= columns:
        read = _fixed
    elif {"conc", "isl", "osl"} <= columns and {"tp", "total_tput_per_gpu"} <= columns:
        read = _table
    elif "conc" in columns and columns & {"total_tput_per_gpu", "tput_per_gpu"}:
        read = _agentic
    else:
        hint = "columns of fixed-sequence points, of their tables, or of agentic tables"
        raise InputError([Problem("has no columns that are understood", Where(str(path), 1), hint=hint)])
    found, problems = [], []
    for number, row in enumerate(rows, 2):
        try:
            found.append(read(number, row))
        except (KeyError, ValueError, TypeError) as error:
            problems.append(Problem(f"cannot be understood: {error}", Where(str(path), number)))
    if problems:
        raise InputError(problems)
    return found


def read_steps(path: Path) -> Mapping[str, Any]:
    """A `results.json` of steps measured one by one. Raises InputError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {"decode": data["decode_step_ms"], "prefill": data["prefill"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError([Problem(f"holds no measured steps: {error}", Where(str(path)))]) from error


def _fixed(number: int, row: Mapping[str, str]) -> Measured:
    disagg = row.get("disagg") == "True"
    decode = _layout(row["decode_tp"], row.get("decode_ep"), row.get("decode_dp_attention"))
    prefill = None
    if disagg:
        own = _layout(row["prefill_tp"], row.get("prefill_ep"), row.get("prefill_dp_attention"))
        prefill = Prefill(own, max(1, int(row.get("prefill_num_workers") or 1)))
    spec = row.get("spec_method") or "none"
    return Measured(
        row=number,
        hardware=row["hardware"],
        engine=row["framework"],
        model=row["model"],
        precision=row["precision"],
        spec=spec,
        topology=decode,
        conc=int(row["conc"]),
        isl=int(row["isl"]),
        osl=int(row["osl"]),
        drafts=0 if spec == "none" else DRAFTS,
        accepted=None if spec == "none" else ACCEPTED.get(row["model"]),
        workers=max(1, int(row.get("decode_num_workers") or 1)) if disagg else 1,
        prefill=prefill,
        tput=_number(row.get("tput_per_gpu")),
        tpot_s=_number(row.get("median_tpot_s")),
    )


def _table(number: int, row: Mapping[str, str]) -> Measured:
    drafts, accepted = _speculation(row.get("spec") or "none")
    if drafts == DRAFTS:
        accepted = accepted or ACCEPTED.get(row["model"])
    tput, output = _number(row.get("total_tput_per_gpu")), _number(row.get("output_tput_per_gpu"))
    if tput is None and output is not None:
        tput = output * (int(row["isl"]) + int(row["osl"])) / int(row["osl"])
    return Measured(
        row=number,
        hardware=row["hardware"],
        engine=row["framework"],
        model=row["model"],
        precision=row["precision"],
        spec="mtp" if drafts else "none",
        topology=_layout(row["tp"], row.get("ep"), row.get("dp_attn")),
        conc=int(row["conc"]),
        isl=int(row["isl"]),
        osl=int(row["osl"]),
        drafts=drafts,
        accepted=accepted,
        tput=tput,
        tpot_s=_scaled(row.get("tpot_ms"), 1e-3),
        ttft_s=_scaled(row.get("ttft_ms"), 1e-3),
    )


def _agentic(number: int, row: Mapping[str, str]) -> Measured:
    """Also tables of one model alone (Kimi K3's), which leave out what all their rows share."""
    drafts, accepted = _speculation(row.get("spec") or row.get("spec_method") or "none")
    tp = row.get("tp", "8")
    offload = (row.get("offload") or row.get("offload_mode") or "off") not in ("none", "off", "false", "a", "b", "")
    # Where a table has both, time between tokens is of the whole response; the other ends with the last content event.
    tpot = _number(row.get("mean_itl_s")) or _number(row.get("mean_tpot_s")) or _scaled(row.get("mean_tpot_ms"), 1e-3)
    seen = _number(row.get("mean_intvty"))
    median = _number(row.get("p50_ttft_s"))
    date = re.search(r"\d{4}-\d\d-\d\d", row.get("date") or row.get("run_or_date") or "")
    return Measured(
        row=number,
        hardware=row["hardware"],
        engine=row.get("framework", "vllm"),
        model=row.get("model", "kimik3"),
        precision=row.get("precision", "fp4"),
        spec="mtp" if drafts else "none",
        topology=_layout(tp, row.get("ep"), row.get("dp_attn")) if tp.isdigit() else None,
        conc=int(row["conc"]),
        drafts=drafts,
        accepted=accepted,
        offload=offload,
        tput=_number(row.get("total_tput_per_gpu")) or _number(row.get("tput_per_gpu")),
        tpot_s=tpot or (1 / seen if seen else None),
        ttft_s=median or _number(row.get("mean_ttft_s")) or _scaled(row.get("mean_ttft_ms"), 1e-3),
        ttft_median=median is not None,
        date=date[0] if date else None,
        hit=_number(row.get("gpu_kv_hit")),
    )


def _layout(tp: str, ep: str | None, spread: str | None) -> Topology:
    return Topology(int(tp), ep=int(ep or 1), dp_attn=str(spread).lower() == "true")


def _speculation(text: str) -> tuple[int, float | None]:
    """Draft tokens and acceptance length of `mtp`, `dspark5 AL3.51`, `none`."""
    if text in ("none", ""):
        return 0, None
    count, length = re.search(r"[a-z](\d+)", text), re.search(r"AL([\d.]+)", text)
    return int(count[1]) if count else DRAFTS, float(length[1]) if length else None


def _number(text: str | None) -> float | None:
    return float(text) if text not in (None, "") else None


def _scaled(text: str | None, factor: float) -> float | None:
    number = _number(text)
    return None if number is None else number * factor
