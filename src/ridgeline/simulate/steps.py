"""A `results.json` of one engine measured by itself, without a public harness: what its start said, single steps, and
closed loops of growing conversations.

    facts           weights and KV tokens of starts
    decode_step_ms  steps of B requests at C tokens of context, by model and mode of graphs
    prefill         chunks of c tokens behind C cached ones
    spec            decoding steps with three drafts
    closed_loop     N conversations at once, turn after turn

Names in it are a model's and a mode's (`llama8b_graph`, `qwen3moe_eager`); those of starts begin like a model's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.core.units import GIB
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions, options_from
from ridgeline.simulate.agentic import seen
from ridgeline.simulate.closedloop import ClosedLoop, GrowingPrompts
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.pointfile import listed, named
from ridgeline.simulate.pointnames import gpu_name, model_name
from ridgeline.simulate.points import MODELS, Measured
from ridgeline.simulate.steady import decode_batch, prefill_batch
from ridgeline.simulate.virtual import simulate
from ridgeline.spec.facts.library import find_model

# What even routing, which those steps simulated, changes: measured with them, fused experts at 1 to 8,192 tokens.
EVENNESS, EXPERT_TOP = 1e6, 0.6
_DRAFTS, _ACCEPTED = 3, 2.5
_BLOCK = 16
_MODES = {"graph": "FULL_AND_PIECEWISE", "eager": "NONE", "": "FULL_AND_PIECEWISE"}


class Value(NamedTuple):
    """One measured value and what the model says."""

    point: Measured
    measure: str
    measured: float
    predicted: float


class Found(NamedTuple):
    """Values of a file, what of it is not covered and why, and what is no measurement."""

    values: list[Value]
    left_out: list[str]
    notes: list[str]


def step_values(path: Path, data: Mapping[str, Any], parameters: CostParameters) -> Found:
    """Everything in the file that the model has an answer for. `parameters`: of vLLM on one GPU of the file's kind."""
    gpu = gpu_of(data)
    even = replace(parameters, expert_evenness=EVENNESS, expert_top=EXPERT_TOP)
    values, left_out, notes = list[Value](), list[str](), list[str]()
    parts = (
        _facts(named(data.get("facts")), _models(data), gpu, left_out, notes),
        _decodes(named(data.get("decode_step_ms")), gpu, even, left_out),
        _prefills(named(data.get("prefill")), gpu, even, left_out),
        _drafted(named(data.get("spec")), _models(data), gpu, even, left_out),
        _closed(named(data.get("closed_loop")), gpu, parameters, left_out),
    )
    for part in parts:
        try:
            values += part
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, InputError) as error:
            left_out.append(f"a table that is not understood: {type(error).__name__} {error}")
    left_out, notes = ([f"{path.name}: {reason}" for reason in reasons] for reasons in (left_out, notes))
    return Found(values, left_out, notes)


def gpu_of(data: Mapping[str, Any]) -> str:
    """The GPU of the file's `meta`; an H200 where it says none."""
    said = str(named(data.get("meta")).get("gpu", ""))
    word = re.search(r"\b(G?[ABH]\d{3}|MI\d{3}X)\b", said, re.IGNORECASE)
    return gpu_name(word[0]) if word else "h200"


def _models(data: Mapping[str, Any]) -> list[str]:
    """The models that step tables name."""
    tables = [*named(data.get("decode_step_ms")), *named(data.get("prefill"))]
    return sorted({name.partition("_")[0] for name in tables} | {"llama8b", "qwen3moe"})


def _model(name: str, known: Sequence[str]) -> str | None:
    """The model that the name of a start begins like."""
    return next((model for model in known if model[:1] == name[:1]), None)


def _options(model: str, gpu: str, **more: Any) -> EngineOptions:
    return options_from(MODELS.get(model_name(model), model), gpu, Topology(1), "bf16", **more)


def _known(model: str) -> bool:
    try:
        find_model(MODELS.get(model_name(model), model))
    except InputError:
        return False
    return True


def _point(number: int, gpu: str, what: str, conc: int, isl: int, **more: Any) -> Measured:
    return Measured(
        row=number, hardware=gpu, engine="vllm", model=what, precision="bf16", spec="none", topology=Topology(1),
        conc=conc, isl=isl, osl=1, **more,
    )  # fmt: skip


def _facts(
    facts: Mapping[str, Any], known: Sequence[str], gpu: str, left_out: list[str], notes: list[str]
) -> Iterator[Value]:
    """Weights and KV tokens of every start that came up."""
    for number, (name, item) in enumerate(facts.items()):
        fact, model = named(item), _model(name, known)
        if "error" in fact or "kv_tokens" not in fact:
            notes.append(f"facts {name}: {'a start that failed' if 'error' in fact else 'no KV tokens'}")
            continue
        if model is None:
            left_out.append(f"facts {name}: no model whose name begins so")
            continue
        eagle = name.endswith("eagle")
        options = _options(
            model, gpu, gpu_memory_utilization=float(fact.get("util") or 0.9),
            num_speculative_tokens=_DRAFTS if eagle or name.endswith("ngram") else 0,
            cudagraph_mode=str(fact.get("cudagraph_mode") or "FULL_AND_PIECEWISE").rpartition(".")[2],
            v2_runner=bool(fact.get("v2_runner")), draft_layer=eagle,
        )  # fmt: skip
        if eagle:  # a head of one layer like the model's, and what joins its two inputs
            arch = options.arch
            options = replace(options, arch=replace(arch, mtp=(replace(arch.blocks[-1], count=1),)))
        memory = memory_of(options)
        what = _point(number, gpu, f"start {model}", 1, options.max_model_len, source=name)
        if fact.get("model_gib"):
            yield Value(what, "weights", float(fact["model_gib"]) * GIB, memory.weights.total)
        yield Value(what, "KV tokens", float(fact["kv_tokens"]), memory.capacity.tokens)


def _tables(kind: str, tables: Mapping[str, Any], left_out: list[str]) -> Iterator[tuple[str, str, list[Any]]]:
    """(name, model, rows) of a step table whose model and mode are known."""
    for name, items in tables.items():
        model, _, mode = name.partition("_")
        if mode not in _MODES or not isinstance(items, list) or not _known(model):
            left_out.append(f"{kind} {name}: no model or mode of that name")
            continue
        yield name, model, items


def _decodes(tables: Mapping[str, Any], gpu: str, p: CostParameters, left_out: list[str]) -> Iterator[Value]:
    for name, model, items in _tables("decode", tables, left_out):
        price = StepCost(_options(model, gpu, cudagraph_mode=_MODES[name.partition("_")[2]]), p)
        for number, item in enumerate(items):
            predicted = price.seconds([decode_batch(item["B"], item["C"])])
            point = _point(number, gpu, f"decode {name}", item["B"], item["C"])
            yield Value(point, "step time", item["ms"] / 1e3, predicted)


def _prefills(tables: Mapping[str, Any], gpu: str, p: CostParameters, left_out: list[str]) -> Iterator[Value]:
    for name, model, items in _tables("prefill", tables, left_out):
        price = StepCost(_options(model, gpu, cudagraph_mode=_MODES[name.partition("_")[2]]), p)
        most = price.options.max_num_batched_tokens
        for number, item in enumerate(items):
            tokens, cached = item["c"], item["C"]
            seconds, done = 0.0, 0
            while done < tokens:  # a chunk larger than a step's budget is several steps
                count = min(most, tokens - done)
                chunk = prefill_batch(count, cached + done, _BLOCK)
                chunk.attached = count / _BLOCK if done else (count + cached) / _BLOCK
                seconds += price.seconds([chunk], from_idle=not done)
                done += count
            point = _point(number, gpu, f"prefill {name}", 1, tokens, source=f"behind {cached}")
            yield Value(point, "step time", item["ms"] / 1e3, seconds)


def _drafted(
    tables: Mapping[str, Any], known: Sequence[str], gpu: str, p: CostParameters, left_out: list[str]
) -> Iterator[Value]:
    """Decoding steps that verify drafts: a draft layer's, or drafts looked up in the text, at no cost to the GPU."""
    for name, table in tables.items():
        model = _model(name, known)
        rows = table.get("rows") if isinstance(table, Mapping) else None
        if model is None or not isinstance(rows, list):
            left_out.append(f"spec {name}: no model of that name or no rows")
            continue
        options = _options(
            model, gpu, cudagraph_mode="FULL_DECODE_ONLY", num_speculative_tokens=_DRAFTS,
            acceptance_length=_ACCEPTED,
        )  # fmt: skip
        price = StepCost(options, p)
        for number, item in enumerate(rows):
            batch = decode_batch(item["B"], item["C"], 1 + _DRAFTS)
            predicted = price.seconds([batch])
            if not name.endswith("eagle"):
                predicted -= price.drafts_s([batch]) * price.time_factor * p.device
            yield Value(
                _point(number, gpu, f"drafted {name}", item["B"], item["C"]), "step time", item["ms"] / 1e3, predicted
            )


def _closed(loop: Mapping[str, Any], gpu: str, p: CostParameters, left_out: list[str]) -> Iterator[Value]:
    """Closed loops: output throughput, time per token, the median first token and the share of prompt tokens found."""
    model = str(loop.get("model", ""))
    if not loop.get("levels"):
        return
    if not _known(model):
        left_out.append(f"closed_loop: no facts about model `{model}`")
        return
    options = _options(model, gpu)
    for number, level in enumerate(listed(loop["levels"])):
        sizes = level["params"]
        pacer = ClosedLoop(level["N"], sizes["turns"], sizes["start"], sizes["grow"], sizes["out"])
        replay = simulate(pacer, GrowingPrompts(pacer), options, parameters=p)
        found = seen(replay, 1)
        if found is None:
            left_out.append(f"closed_loop N={level['N']}: no request ends")
            continue
        point = _point(number, gpu, f"closed loop {model}", level["N"], sizes["start"], ttft_median=True)
        output = found.tput_per_gpu * found.answer / (found.prompt + found.answer)
        for measure, value, said in (
            ("output tokens/s/GPU", level.get("out_tok_s"), output),
            ("time per token", _seconds(level.get("itl_mean")), found.itl_s),
            ("first token", level.get("ttft_p50"), found.ttft_median_s),
            ("cache hit", level.get("hit_rate"), found.hit),
        ):
            if value is not None and said is not None:
                yield Value(point, measure, float(value), said)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
