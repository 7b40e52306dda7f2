"""Rows of single benchmark runs: result files of `vllm bench serve` and tables of SGLang's cookbook.

Neither says all of what ran. A result file names its model and nothing of the GPUs: what its own name and the folders
above say is taken (`glm5_fp8_vllm_tp8_isl1024_osl128_conc4.json` below `..._h200/`), the rest has to be given. A row
of the cookbook names a strategy, which stands for a layout and a draft length.
"""

from __future__ import annotations

import re

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.simulate.layoutwords import MOST_GPUS, Workers, layout_of
from ridgeline.simulate.pointfile import Record
from ridgeline.simulate.pointnames import (
    engine_name,
    gpu_name,
    model_name,
    precision_name,
    shipped_precision,
    speculation,
)
from ridgeline.simulate.points import Measured
from ridgeline.spec.facts.library import find_gpu

_LAYOUT = re.compile(r"(?<![a-z])((?:tp|tep|dep|dp|ep|pp|dcp|pcp)\d+)+(?![a-z0-9])", re.IGNORECASE)
_FORMAT = re.compile(r"(?<![a-z])(nvfp4|mxfp4|fp4|fp8|mxfp8|int4|bf16|fp16)(?![a-z0-9])", re.IGNORECASE)
_ENGINE = re.compile(r"(?<![a-z])(dynamo-)?(vllm|sglang|trt-?llm|trt|tensorrt|atom)(?![a-z])", re.IGNORECASE)
# SGLang's cookbook for DeepSeek-V4: GPUs of a server (its rows give tokens per second and GPU and, by Little's law, the
# server's own), and what a strategy is: tensor parallel with three drafts, data-parallel attention and spread experts
# with one, the same with none. High throughput means 256 requests at once, which six of its eight pairs of rows say.
_GPUS = {"flash": 4, "pro": 8, "h100 flash": 8, "gb300 pro": 4}
_MOST = {"high-throughput": 256}
_STRATEGIES = {"low-latency": (False, 3), "balanced": (True, 1), "high-throughput": (True, 0)}


def bench(record: Record) -> Measured:
    """A result file of `vllm bench serve`, in seconds or, as its own keys say, in milliseconds. Raises Wrong."""
    completed = record.whole("completed", "num_prompts")
    isl = round(record.whole("total_input_tokens") / completed) or 1
    osl = round(record.whole("total_output_tokens") / completed) or 1
    model_id = record.text("model", "model_id")
    said, assumed = _said(record), list[str]()
    words = record.text("layout") or said.get("layout", "")
    found = layout_of(words) if words else None
    if found is None and record.has("tp"):
        sizes = {name: record.whole(name, default=1, most=MOST_GPUS) for name in ("tp", "ep", "pp", "dcp", "pcp")}
        workers = Workers(Topology(**sizes, dp_attn=record.flag("dp_attn")))
    elif found is not None:
        workers = found.decode
    else:
        raise record.wrong("tp", "is not said by the file or its name", "say it with `--given tp=1`")
    hardware = record.text("hardware") or said.get("hardware", "")
    if not hardware:
        raise record.wrong("hardware", "is not said by the file or its name", "say it with `--given hardware=h200`")
    precision = record.text("precision") or said.get("precision", "") or _in(_FORMAT, model_id)
    if not precision:
        precision = shipped_precision(model_id)
        assumed.append(f"weights taken as {precision}, the format the model is shipped in")
    model = model_name(model_id)
    drafts, accepted = speculation(record.text("spec", default="none"), model)
    total = record.positive("total_token_throughput") or (
        (record.positive("input_throughput") or 0.0) + (record.positive("output_throughput") or 0.0)
    )
    if not record.has("total_token_throughput", "input_throughput"):
        total = (record.positive("output_throughput") or 0.0) * (isl + osl) / osl
    mean = record.positive("mean_ttft_ms", factor=1e-3) or record.positive("mean_ttft")
    median = record.positive("median_ttft_ms", factor=1e-3) or record.positive("median_ttft")
    return Measured(
        row=record.number,
        hardware=gpu_name(hardware),
        engine=engine_name(record.text("framework") or said.get("engine", "") or record.text("backend") or "vllm"),
        model=model,
        precision=precision_name(precision),
        spec="mtp" if drafts else "none",
        topology=workers.topology,
        workers=workers.workers,
        conc=min(record.whole("max_concurrency"), completed),
        isl=isl,
        osl=osl,
        drafts=drafts,
        accepted=accepted,
        tput=total / (workers.topology.gpus * workers.workers) if total else None,
        tpot_s=record.positive("median_tpot_ms", "mean_tpot_ms", factor=1e-3) or record.positive("median_tpot"),
        ttft_s=mean or median,
        ttft_median=mean is None and median is not None,
        date=re.sub(r"^(\d{4})(\d\d)(\d\d).*", r"\1-\2-\3", record.text("date")) or None,
        assumed=tuple(assumed),
    )


def _said(record: Record) -> dict[str, str]:
    """What the file's name and the folders above it say: layout, format, engine, GPU."""
    stem, found = record.path.stem.lower(), dict[str, str]()
    for key, pattern in (("layout", _LAYOUT), ("precision", _FORMAT), ("engine", _ENGINE)):
        if said := _in(pattern, stem):
            found[key] = said
    for part in (stem, *(folder.name.lower() for folder in record.path.absolute().parents)):
        for word in re.split(r"[^a-z0-9]+", part):
            if not re.fullmatch(r"(g?[abh]\d{3}|mi\d{3}x)", word):
                continue
            try:
                find_gpu(word)
            except InputError:
                continue
            return found | {"hardware": word}
    return found


def _in(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[0] if found else ""


def cookbook(record: Record) -> Measured:
    """A row of SGLang's cookbook. Raises Wrong for a strategy that stands for nothing known."""
    strategy, hardware = record.text("strategy").lower(), gpu_name(record.text("hw", "hardware"))
    if strategy not in _STRATEGIES:
        raise record.wrong("strategy", f"`{strategy}` is no strategy that is known", f"known: {', '.join(_STRATEGIES)}")
    name = record.text("model", default=f"dsv4{record.text('variant').lower()}")
    model = model_name("dsv4" if name == "dsv4pro" else name)
    spread, drafts = _STRATEGIES[strategy]
    size = (
        _GPUS.get(f"{hardware} {'flash' if 'flash' in model else 'pro'}")
        or _GPUS["flash" if "flash" in model else "pro"]
    )
    topology = Topology(size, ep=size if spread else 1, dp_attn=spread)
    return Measured(
        row=record.number,
        hardware=hardware,
        engine="sglang",
        model=model,
        precision=precision_name(record.text("quant", "precision")),
        spec="mtp" if drafts else "none",
        topology=topology,
        conc=record.whole("conc", "max_concurrency"),
        isl=record.whole("isl"),
        osl=record.whole("osl"),
        drafts=drafts,
        tput=record.positive("tokens_per_sec_per_gpu", "tps_per_gpu"),
        tpot_s=record.positive("tpot_ms", factor=1e-3),
        ttft_s=record.positive("ttft_ms", factor=1e-3),
        source=record.text("quant"),
        most=_MOST.get(strategy),
        assumed=(f"{strategy} taken as {topology.label} with {drafts} drafts",),
    )
