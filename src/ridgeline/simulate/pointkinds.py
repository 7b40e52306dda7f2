"""Kinds of files with measured serving points, told apart by their columns or keys, to `Measured` points.

- fixed-sequence points (`decode_tp`, `isl`, `osl`, `tput_per_gpu`), as CSV or as rows of the public API with `metrics`
- tables of fixed-sequence results (`tp`, `isl`, `total_tput_per_gpu`) and of agentic ones (`conc`, no `isl`)
- aggregates of one agentic run (`request_metrics`)
- tables of SGLang's cookbook (`strategy`), result files of `vllm bench serve` (pointbench.py)
- lists of tables out of articles, collections of published points (pointtexts.py)
- `results.json` of an engine measured step by step (`decode_step_ms`, `prefill`; steps.py)

What a row does not say is taken from `given`, else assumed by name (`Measured.assumed`) or refused with what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.topology import Topology
from ridgeline.core.where import Where
from ridgeline.simulate.layoutwords import MOST_GPUS, Layout, Workers, layout_of
from ridgeline.simulate.pointfile import Content, Record, Wrong, content_of
from ridgeline.simulate.pointnames import (
    date_in,
    drafts_unsaid,
    engine_name,
    gpu_name,
    model_name,
    precision_name,
    speculation,
)
from ridgeline.simulate.points import MODELS, STANDS_IN, Measured, Prefill
from ridgeline.spec.facts.library import find_model

GIVEN = ("hardware", "framework", "model", "precision", "spec", "tp", "ep", "dp_attn", "pp", "dcp", "pcp", "layout",
         "isl", "osl", "conc")  # fmt: skip
_UNITS = 300  # a row whose numbers say that so many times the stated requests decoded at once is in other units
_WIDEST = 16  # GPUs of a tensor-parallel worker
_NO_TIER = ("none", "off", "false", "a", "b", "", "no", "0")


class Reading(NamedTuple):
    """A file's points, what is wrong in it, what was left out of it (and why), and steps if it holds any."""

    path: Path
    points: list[Measured]
    problems: list[Problem]
    left_out: list[str]
    steps: Mapping[str, Any] | None = None

    def strict(self) -> list[Measured]:
        """The points. Raises InputError when anything was wrong."""
        if self.problems:
            raise InputError(self.problems)
        return self.points


class Kind(NamedTuple):
    """A kind of record: names that all must be there, of each group one."""

    name: str
    needs: tuple[tuple[str, ...], ...]
    read: Callable[[Record], Measured | None]


def read_file(path: Path, given: Mapping[str, str] | None = None) -> Reading:
    """Everything a file holds. `given`: what its rows do not say, by the names of `GIVEN`; a row's own value counts.

    Raises InputError for a file that cannot be opened, holds nothing, or whose columns are of no known kind.
    """
    problems: list[Problem] = []
    content = content_of(path, problems)
    if isinstance(content.whole, Mapping) and {"decode_step_ms", "prefill", "facts", "closed_loop"} & set(
        content.whole
    ):
        return Reading(path, [], problems, [], content.whole)
    from ridgeline.simulate.pointtexts import articles, collection  # larger readers, rarely needed

    if isinstance(content.whole, Mapping) and isinstance(content.whole.get("points"), list):
        return _assembled(path, problems, collection(content.records[0]))
    if isinstance(content.whole, list) and content.records and {"header", "rows"} <= set(content.records[0].values):
        return _assembled(path, problems, articles(content.records))
    for record in content.records:
        record.values = {**record.values, **{k: v for k, v in (given or {}).items() if not record.has(k)}}
    kind = _kind_of(path, content)
    found: list[Measured] = []
    left_out: list[str] = []
    for record in content.records:
        before = len(problems)
        try:
            point = kind.read(record)
        except Wrong:
            point = None
        if point is not None and len(problems) == before and _sound(point, record):
            found.append(point)
    return _assembled(path, problems, (found, left_out))


def _assembled(path: Path, problems: list[Problem], read: tuple[Iterable[Measured], list[str]]) -> Reading:
    points, left_out = read
    kept, twice = once_each(points)
    left_out += [f"{path.name} line {b}: repeats line {a} word for word and counts once" for a, b in twice]
    return Reading(path, kept, problems, left_out)


def once_each(points: Iterable[Measured]) -> tuple[list[Measured], list[tuple[int, int]]]:
    """Points without copies that agree in every number: a copied row is no repeat of a run."""
    seen: dict[Measured, int] = {}
    kept, twice = [], []
    for point in points:
        bare = replace(point, row=0)
        if bare in seen:
            twice.append((seen[bare], point.row))
        else:
            seen[bare] = point.row
            kept.append(point)
    return kept, twice


def _sound(point: Measured, record: Record) -> bool:
    """Whether a row can be compared at all; else the problem is noted."""
    values = (point.tput, point.tpot_s, point.ttft_s, point.hit, point.output_tput)
    if all(value is None for value in values):
        record.wrong("", "holds no measured value", "throughput, time per token, time to first token or cache hits")
        return False
    if point.implied is not None and point.implied > _UNITS * point.conc:
        message = (
            f"throughput and time per token say that {point.implied:,.0f} requests decoded at once, not {point.conc}"
        )
        record.wrong("", message, "times are in seconds where a column's name ends in _s, in milliseconds after _ms")
        return False
    return True


def _kind_of(path: Path, content: Content) -> Kind:
    names = set(content.columns or ())
    if not names:
        for record in content.records[:50]:
            names |= set(record.values)
    for record in content.records[:1]:
        names |= set(record.values)
    if {"task", "metrics"} <= names:
        hint = "give the benchmarks of the same runs"
        raise InputError([Problem("holds results of evaluations, and no serving points", Where(str(path)), hint=hint)])
    missing = {kind: [group for group in kind.needs if not names & set(group)] for kind in kinds()}
    for kind, lacks in missing.items():
        if not lacks:
            return kind
    near = min(missing, key=lambda kind: len(missing[kind]) / len(kind.needs))
    message = "has no columns that are understood" if content.columns else "has no keys that are understood"
    if len(missing[near]) < len(near.needs) / 2:
        lacks_words = ", ".join(" or ".join(f"`{name}`" for name in group) for group in missing[near])
        message = f"looks like {near.name}, but has no {lacks_words}"
    hint = "kinds that are read: " + "; ".join(kind.name for kind in kinds())
    raise InputError([Problem(message, Where(str(path), 1 if content.columns else 0), hint=hint)])


def kinds() -> tuple[Kind, ...]:
    """All kinds of rows, the narrower first."""
    from ridgeline.simulate.pointbench import bench, cookbook

    tput, conc = ("total_tput_per_gpu", "tput_per_gpu", "output_tput_per_gpu"), ("conc", "max_concurrency")
    return (
        Kind("an aggregate of an agentic run", (("request_metrics",), ("conc",), ("hw", "hardware")), _aggregate),
        Kind(
            "rows of the public API",
            (("metrics",), ("hardware",), ("framework",), ("decode_tp", "prefill_tp"), ("conc",)),
            _public,
        ),
        Kind(
            "fixed-sequence points", (("decode_tp",), ("isl",), ("osl",), ("conc",), ("tput_per_gpu", "median_tpot_s")),
            _public,
        ),
        Kind(
            "a table of SGLang's cookbook",
            (("hw",), ("strategy",), ("isl",), ("osl",), conc, ("tpot_ms",)),
            cookbook,
        ),
        Kind(
            "a result file of vllm bench serve",
            (("max_concurrency",), ("total_input_tokens",), ("total_output_tokens",), ("output_throughput",)),
            bench,
        ),
        Kind(
            "a table of fixed-sequence results",
            (("hardware",), ("isl",), ("osl",), conc, ("tp", "layout"), (*tput, "tpot_ms", "ttft_ms")),
            _table,
        ),
        Kind("an agentic table", (("hardware",), ("conc",), tput), _agentic),
    )  # fmt: skip


def layout(record: Record, prefix: str = "") -> Layout:
    """The layout of a row: sizes in columns of their own, or words in `tp` or `layout`. Raises Wrong."""
    words = record.text("layout", "topology", "topo") or record.text(f"{prefix}tp")
    if not words:
        raise record.wrong(f"{prefix}tp", "is missing", "say it with `--given tp=8`")
    if not words.replace(".0", "").isdigit():
        found = layout_of(words, _counted(record, prefix) if re.match(r"\s*\d+\s*p", words, re.I) else None)
        if found is None:
            name = next(n for n in ("layout", "topology", "topo", f"{prefix}tp") if record.has(n))
            hint = "e.g. TP8, TEP8, DEP8, DP8EP8, TP4PP2, TP8DCP8, 1P2D TP8, P1x3/D4x4"
            raise record.wrong(name, f"`{words}` is no layout that is understood", hint)
        return found
    topology = Topology(
        record.whole(f"{prefix}tp", most=MOST_GPUS),
        pp=record.whole(f"{prefix}pp", "pp", "pp_size", default=1, most=MOST_GPUS),
        dcp=record.whole(f"{prefix}dcp_size", "dcp_size", "dcp", default=1, most=MOST_GPUS),
        pcp=record.whole(f"{prefix}pcp_size", "pcp_size", "pcp", default=1, most=MOST_GPUS),
        ep=record.whole(f"{prefix}ep", "ep", default=1, most=MOST_GPUS),
        dp_attn=record.flag(f"{prefix}dp_attention", "dp_attention", "dp_attn"),
    )
    if topology.ep > topology.tp * topology.pcp:  # experts are spread over GPUs that are there
        wide = replace(topology, tp=topology.ep, pcp=1, dp_attn=topology.dp_attn and topology.ep > 1)
        return Layout(Workers(wide, 1, (f"experts over {topology.ep} GPUs: a worker taken as {wide.label}",)))
    return Layout(Workers(topology))


def _counted(record: Record, prefix: str) -> Topology | None:
    """A worker's layout where words only count workers."""
    size = record.text(f"{prefix}tp", "tp", "worker_tp")
    return Topology(int(size)) if size.isdigit() else None


def _pool(record: Record, side: str) -> Workers:
    """One pool of a disaggregated row. Where the GPUs of a worker are more than its layout says (early rows and those
    of some engines write tp as 1 or leave out the rest), they count: attention is then data-parallel over all."""
    own = layout(record, f"{side}_").decode
    topology, said = own.topology, own.assumed
    count = record.whole(f"{side}_num_workers", default=1, least=0, most=MOST_GPUS) or 1
    gpus = record.whole(f"num_{side}_gpu", default=0, least=0, most=MOST_GPUS)
    each = gpus // count if gpus and gpus % count == 0 else 0
    wrong = topology.tp > 1 and topology.ep > 1 and each == topology.tp * topology.ep  # tp x ep written for GPUs
    if not each or each == topology.gpus or wrong or each % topology.gpus:
        return Workers(topology, count, said)
    spread = topology.dp_attn or topology.ep > 1
    wide = Topology(each, ep=each if spread else 1, dp_attn=topology.dp_attn)
    return Workers(wide, count, (f"a {side} worker of {each} GPUs taken as {wide.label}, not {topology.label}",))


def _public(record: Record) -> Measured:
    """A row of the public database: CSV or API, single-node, multi-node or disaggregated, fixed-sequence or agentic."""
    metrics = record.inside("metrics") if "metrics" in record.values else record
    model, spec = model_name(record.text("model")), record.text("spec_method", "spec", "spec_decoding", default="none")
    drafts, accepted = speculation(spec, model)
    disagg = record.flag("disagg")
    sizes = Record({**metrics.values, **record.values}, record.path, record.problems, line=record.line, key=record.key,
                   raw=record.raw, number=record.number)  # fmt: skip
    prefill = None
    if disagg:
        decode, pool = _pool(sizes, "decode"), _pool(sizes, "prefill")
        prefill = Prefill(pool.topology, pool.workers)
        assumed = (*pool.assumed, *decode.assumed)
    else:
        decode = layout(sizes, "decode_").decode
        assumed = decode.assumed
        if decode.topology.gpus > _WIDEST:  # early rows of routers leave their pools out
            wide = Topology(decode.topology.gpus, ep=decode.topology.gpus, dp_attn=True)
            assumed = (*assumed, f"pools are not said: {wide.gpus} GPUs taken as one worker {wide.label}")
            decode = Workers(wide)
    agentic = record.text("benchmark_type").startswith("agentic") or not (record.has("isl") and record.has("osl"))
    mean = metrics.positive("mean_ttft", "mean_ttft_s") or metrics.positive("mean_ttft_ms", factor=1e-3)
    median = metrics.positive("median_ttft", "median_ttft_s", "p50_ttft")
    per_token = ("mean_itl", "mean_tpot") if agentic else ("median_tpot_s", "median_tpot", "mean_tpot")
    return _named(
        record,
        model=model,
        spec=spec if drafts else "none",
        topology=decode.topology,
        conc=record.whole("conc"),
        isl=None if agentic else record.whole("isl"),
        osl=None if agentic else record.whole("osl"),
        drafts=drafts,
        accepted=accepted,
        unsaid=drafts_unsaid(spec),
        workers=decode.workers,
        prefill=prefill,
        offload=record.text("offload_mode", "kv_offloading").lower() not in _NO_TIER,
        tput=metrics.positive("tput_per_gpu", "total_tput_per_gpu"),
        tpot_s=metrics.positive(*per_token)
        or metrics.positive(*(f"{name.removesuffix('_s')}_ms" for name in per_token), factor=1e-3),
        ttft_s=mean or median,
        ttft_median=mean is None and median is not None,
        date=date_in(record.text("date", "run_or_date")),
        hit=metrics.share("gpu_cache_hit_rate", "gpu_kv_hit", "overall_cache_hit_rate", "server_gpu_cache_hit_rate"),
        assumed=assumed,
    )


def _table(record: Record) -> Measured:
    model, spec = model_name(record.text("model")), record.text("spec", "spec_method", default="none")
    drafts, accepted = speculation(spec, model)
    isl, osl = record.whole("isl"), record.whole("osl")
    total, output = record.positive("total_tput_per_gpu", "tput_per_gpu"), record.positive("output_tput_per_gpu")
    if total is None and output is not None:
        total = output * (isl + osl) / osl
    found = layout(record)
    return _named(
        record,
        model=model,
        spec="mtp" if drafts else "none",
        **_laid_out(found),
        conc=record.whole("conc", "max_concurrency"),
        isl=isl,
        osl=osl,
        drafts=drafts,
        accepted=accepted,
        unsaid=drafts_unsaid(spec),
        tput=total,
        tpot_s=record.positive("tpot_ms", factor=1e-3) or record.positive("tpot_s", "median_tpot_s"),
        ttft_s=record.positive("ttft_ms", factor=1e-3) or record.positive("ttft_s"),
        ttft_median="ttft p50" in record.text("latency_stat").lower() or record.text("latency_stat") == "median",
        date=date_in(record.text("date", "run_or_date")),
        source=record.text("source"),
    )


def _agentic(record: Record) -> Measured:
    """Also tables of one model alone (Kimi K3's), which leave out what all their rows share."""
    model = model_name(record.text("model", default="kimik3"))
    spec = record.text("spec", "spec_method", default="none")
    drafts, accepted = speculation(spec, model)
    tier = record.text("offload", "offload_mode", "kv_offloading").lower() not in _NO_TIER
    if not record.has("tp", "layout", "topology", "topo"):
        record.values = {**record.values, "tp": "8"}
    found = layout(record)
    # Where a table has both, time between tokens is of the whole response; the other ends with the last content event.
    tpot = record.positive("mean_itl_s", "mean_tpot_s") or record.positive("mean_tpot_ms", factor=1e-3)
    seen = record.positive("mean_intvty", "p50_intvty", "median_intvty")
    median = record.positive("p50_ttft_s", "median_ttft_s") or record.positive("p50_ttft_ms", factor=1e-3)
    mean = record.positive("mean_ttft_s") or record.positive("mean_ttft_ms", factor=1e-3)
    total, output = record.positive("total_tput_per_gpu", "tput_per_gpu"), record.positive("output_tput_per_gpu")
    return _named(
        record,
        model=model,
        spec="mtp" if drafts else "none",
        **_laid_out(found, tier),
        conc=record.whole("conc"),
        drafts=drafts,
        accepted=accepted,
        tput=total,
        tpot_s=tpot or (1 / seen if seen else None),
        ttft_s=median or mean,
        ttft_median=median is not None,
        date=date_in(record.text("date", "run_or_date")),
        hit=record.share("gpu_kv_hit", "gpu_cache_hit_rate"),
        output_tput=output if total is None else None,
        source=record.text("source"),
    )


def _aggregate(record: Record) -> Measured:
    """One agentic run as the harness sums it up."""
    model = model_name(record.text("infmax_model_prefix", "model"))
    spec = record.text("spec_decoding", default="none")
    drafts, accepted = speculation(spec, model)
    requests = record.inside("request_metrics")
    latency, per_gpu = requests.inside("latency"), requests.inside("throughput").inside("per_gpu")
    server = record.inside("server_metrics").inside("cache")
    found = layout(record)
    return _named(
        record,
        model=model,
        spec="mtp" if drafts else "none",
        **_laid_out(found, record.text("kv_offloading").lower() not in _NO_TIER),
        conc=record.whole("conc"),
        drafts=drafts,
        accepted=accepted,
        tput=per_gpu.positive("total_tput_tps"),
        tpot_s=latency.inside("full_response_itl").positive("mean") or latency.inside("itl").positive("mean"),
        ttft_s=latency.inside("ttft").positive("p50"),
        ttft_median=True,
        date=date_in(record.text("date", "run_or_date")),
        hit=server.share("gpu_cache_hit_rate", "overall_cache_hit_rate"),
    )


def _laid_out(found: Layout, tier: bool = False) -> dict[str, Any]:
    prefill = Prefill(found.prefill.topology, found.prefill.workers) if found.prefill else None
    return {
        "topology": found.decode.topology, "workers": found.decode.workers, "prefill": prefill,
        "offload": tier or found.offload, "assumed": found.assumed,
    }  # fmt: skip


def _named(record: Record, *, model: str, assumed: tuple[str, ...] = (), **more: Any) -> Measured:
    """A point with its names; the model's stand-in is among what was assumed."""
    hardware = record.text("hardware", "hw")
    engine = record.text("framework", "engine", default="vllm")
    precision = record.text("precision", "quant", default="fp4")
    if not hardware:
        raise record.wrong("hardware", "is missing", "say it with `--given hardware=h200`")
    if not model:
        raise record.wrong("model", "is missing", "say it with `--given model=NAME`")
    if model in STANDS_IN:
        assumed = (*assumed, STANDS_IN[model])
    if more["topology"].ep > 1 and not _has_experts(model):
        assumed = (*assumed, "no experts to spread: ep left out")
        more["topology"] = replace(more["topology"], ep=1)
    return Measured(
        row=record.number, hardware=gpu_name(hardware), engine=engine_name(engine), model=model,
        precision=precision_name(precision), assumed=assumed, **more,
    )  # fmt: skip


def _has_experts(model: str) -> bool:
    """Whether a model has experts; one that is not known may have."""
    try:
        return find_model(MODELS.get(model, model)).moe
    except InputError:
        return True
