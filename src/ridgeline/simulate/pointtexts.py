"""Measured points out of texts: tables of articles, and collections of published points put together by hand.

What an article's table leaves out is read from the words around it: the GPU, engine, format, model and layout from the
line above it, else from the lines above earlier tables of the article or from its file name. Lengths that are not said
follow from the row itself: by Little's law tokens per second and GPU x GPUs x time per token / requests is the number
of tokens, input and output, that belong to one output token.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from ridgeline.core.errors import Problem
from ridgeline.core.topology import Topology
from ridgeline.simulate.layoutwords import Layout, Workers, layout_of
from ridgeline.simulate.pointfile import Record, Wrong, listed
from ridgeline.simulate.pointnames import (
    date_in,
    engine_name,
    gpu_name,
    model_name,
    precision_name,
    shipped_precision,
    speculation,
)
from ridgeline.simulate.points import STANDS_IN, Measured, Prefill

Read = tuple[list[Measured], list[str]]
LENGTHS = ((1024, 1024), (8192, 1024), (1024, 8192))  # of public fixed-sequence points
_GPU = re.compile(r"\b(G?B[23]00|H[12]00|MI3\d\dX)\b", re.IGNORECASE)
_ENGINE = re.compile(r"\b(?:dynamo[\s-]+)?(?:sglang|vllm|trt(?:-?llm)?|tensorrt-llm|atom)\b", re.IGNORECASE)
_FORMAT = re.compile(r"\b(nvfp4|mxfp4|fp4|fp8|int4|bf16)\b", re.IGNORECASE)
_NAMED = re.compile(r"`([\w./-]+)`")
_MODELS = (
    ("dsv4", r"deepseek[-\s]?v4[-\s]?pro|dsv4[-\s]?pro"), ("dsr1", r"deepseek[-\s]?r1"), ("glm5", r"glm-?5"),
    ("minimaxm2.5", r"minimax-m2[-.]5"), ("kimik2.5", r"kimi-k2(?:[-.]5)?"), ("qwen3.5", r"qwen3[-.]5"),
    ("gptoss120b", r"gpt-?oss"), ("llama70b", r"llama"),
)  # fmt: skip
_LENGTHS = re.compile(r"\b(\d+)k/(\d+)k\b", re.IGNORECASE)
_LAYOUT = re.compile(r"\b(?:TEP|DEP|TP|DP|EP)\s*=?\s*\d+(?:[\s,/+]*(?:EP|DP|PP)\s*=?\s*\d+)*", re.IGNORECASE)
_UNIT = re.compile(r"\s*m?s$")


def articles(tables: Sequence[Record]) -> Read:
    """The serving points of a list of tables (`file`, `section`, `context`, `header`, `rows`)."""
    found, left_out, others = list[Measured](), list[str](), 0
    before: dict[str, dict[str, str]] = {}
    for table in tables:
        header = [str(name) for name in listed(table.values.get("header"))]
        lower = [name.lower() for name in header]
        if "conc" not in lower or not any(name.startswith(("tok/s/gpu", "tpot")) for name in lower):
            others += 1
            continue
        file = table.text("file").rsplit("/", 1)[-1]
        said = _said(table.text("context"), file, before.setdefault(file, {}))
        for index, cells in enumerate(listed(table.values.get("rows"))):
            values = dict(zip(lower, (_plain(str(cell)) for cell in listed(cells)), strict=False))
            row = Record(values, table.path, table.problems, key=f"{table.key}.rows[{index}]", number=table.number)
            name = f"{table.path.name} table {table.number - 1} row {index}"
            _take(lambda row=row, said=said: _row(row, said), table.problems, name, found, left_out)  # type: ignore[misc]
    if others:
        left_out.append(f"{table.path.name}: {others} of {len(tables)} tables hold no serving points")
    return found, left_out


def _plain(cell: str) -> str:
    """A cell without emphasis, currency and unit."""
    return _UNIT.sub("", cell.replace("**", "").replace("$", "").strip())


def _take(
    read: Callable[[], Measured], problems: list[Problem], name: str, found: list[Measured], left_out: list[str]
) -> None:
    """Read one row of a text. These are words, not data: what cannot be understood is left out by name."""
    before = len(problems)
    try:
        point = read()
    except Wrong:
        point = None
    if point is not None and len(problems) == before:
        found.append(point)
    else:
        left_out.append(f"{name}: {'; '.join(str(problem.message) for problem in problems[before:])}")
        del problems[before:]


def _said(context: str, file: str, before: dict[str, str]) -> dict[str, str]:
    """What the words above a table say; what they leave out, as earlier tables of the article or its name had it."""
    found: dict[str, str] = {}
    for key, pattern in (
        ("gpu", _GPU),
        ("engine", _ENGINE),
        ("format", _FORMAT),
        ("layout", _LAYOUT),
        ("named", _NAMED),
    ):
        said = pattern.search(context)
        if said:
            found[key] = said[1] if key == "named" else said[0]
    if lengths := _LENGTHS.search(context):
        found["isl"], found["osl"] = (str(int(size) * 1024) for size in lengths.groups())
    found["date"] = date_in(context) or ""
    if found.get("named", "").count("/") != 1:
        found.pop("named", None)
    words = file.replace(".mdx", "")
    for key, pattern in (("gpu", _GPU), ("engine", _ENGINE), ("format", _FORMAT)):
        if key not in found and (said := pattern.search(words.replace("-", " "))):
            before.setdefault(key, said[0])
    model = next((short for short, pattern in _MODELS if re.search(pattern, context + " " + words, re.IGNORECASE)), "")
    found["model"] = model_name(found.pop("named")) if "named" in found else model
    found["drafts"] = "mtp" if re.search(r"\bMTP\b", context) and not re.search(r"\bnon-?MTP\b", context, re.I) else ""
    for key in ("gpu", "engine", "format", "isl", "osl"):
        if key in found:
            before[key] = found[key]
        elif key in before:
            found[key] = before[key]
    return found


def _row(row: Record, said: dict[str, str]) -> Measured:
    if not said.get("gpu") or not said.get("model"):
        raise row.wrong("", "no words near the table name " + ("a GPU" if not said.get("gpu") else "a model"))
    assumed: list[str] = []
    found = _row_layout(row, said, assumed)
    conc = row.whole("conc")
    tput, tpot = row.positive("tok/s/gpu"), row.positive("tpot (ms)", "tpot", factor=1e-3)
    gpus = found.decode.topology.gpus * found.decode.workers
    gpus += found.prefill.topology.gpus * found.prefill.workers if found.prefill else 0
    isl, osl = int(said.get("isl", 0)), int(said.get("osl", 0))
    if not isl:
        if tput is None or tpot is None:
            raise row.wrong("", "its lengths are not said")
        isl, osl = lengths_of(tput * gpus * tpot / conc)
        assumed.append(f"lengths taken as {isl}/{osl}, which the row's own numbers say")
    precision = said.get("format", "")
    if not precision:
        precision = shipped_precision(said["model"])
        assumed.append(f"weights taken as {precision}, as shipped")
    drafts, accepted = speculation(said["drafts"], said["model"])
    return Measured(
        row=row.number - 1, hardware=gpu_name(said["gpu"]), engine=engine_name(said.get("engine", "vllm")),
        model=said["model"], precision=precision_name(precision), spec="mtp" if drafts else "none",
        topology=found.decode.topology, workers=found.decode.workers,
        prefill=Prefill(found.prefill.topology, found.prefill.workers) if found.prefill else None,
        conc=conc, isl=isl, osl=osl, drafts=drafts, accepted=accepted, tput=tput, tpot_s=tpot,
        source=row.text("date", "version"), date=said["date"] or None, assumed=(*found.assumed, *assumed),
    )  # fmt: skip


def _row_layout(row: Record, said: dict[str, str], assumed: list[str]) -> Layout:
    """Layout of a row: its own columns, else the words above the table, else eight GPUs."""
    prefill, decode = (layout_of(row.text(side)) for side in ("prefill", "decode"))
    if prefill and decode and (row.text("prefill") != row.text("decode") or "dynamo" in said.get("engine", "").lower()):
        return Layout(decode.decode, prefill.decode)
    words = row.text("decode", "decode tp", "tp", "recipe", "layout") or said.get("layout", "")
    found = layout_of(words) if words else None
    if found is not None:
        return found
    assumed.append("layout is not said, taken as TP8")
    return Layout(Workers(Topology(8)))


def lengths_of(tokens: float) -> tuple[int, int]:
    """The public lengths whose input and output together, for an output token, come nearest to what a row says. Waiting
    for first tokens only lowers what it says."""
    return min(LENGTHS, key=lambda pair: abs(math.log((pair[0] + pair[1]) / pair[1] / max(tokens, 1e-9))))


def collection(whole: Record) -> Read:
    """Published points in one list: each a point of its own or rows of columns, what it shares with the one before it
    under `"src": "same"`. Throughput may be of all GPUs."""
    found, left_out = list[Measured](), list[str]()
    shared: dict[str, Any] = {}
    for index, item in enumerate(whole.values["points"]):
        if not isinstance(item, dict):
            whole.wrong(f"points[{index}]", "must be an object")
            continue
        shared = {**shared, **item} if item.get("src") == "same" else dict(item)
        for number, values in enumerate(_rows(shared)):
            row = Record(values, whole.path, whole.problems, key=f"points[{index}]", number=index + 1)
            name = f"{whole.path.name} point {shared.get('id', index)} row {number}"
            _take(lambda row=row: _point(row), whole.problems, name, found, left_out)  # type: ignore[misc]
    return found, left_out


def _rows(item: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a point, each with what they share."""
    rows, base = item.get("rows"), {key: value for key, value in item.items() if key not in ("rows", "cols")}
    if isinstance(rows, dict):
        named = []
        for name, values in rows.items():
            conc = re.search(r"\bc(\d+)", name)
            own = {"conc": int(conc[1])} if conc else {}
            values = values if isinstance(values, dict) else {}
            named.append({**base, **own, **values, "tier": "dram" if "dram" in name else ""})
        return named
    if isinstance(rows, list):
        cols = [str(name) for name in listed(item.get("cols"))]
        return [{**base, **dict(zip(cols, listed(cells), strict=False))} for cells in rows]
    return [base]


def _point(row: Record) -> Measured:
    words = " ".join(row.text(key) for key in ("topo", "arm", "gpu"))
    if not row.has("conc"):
        raise row.wrong("conc", "its concurrency is not said")
    found, assumed = (
        layout_of(row.text("arm") or row.text("topo")) or layout_of(_after_gpu(row.text("gpu"))),
        list[str](),
    )
    count = re.match(r"\s*(\d+)\s*x", row.text("gpu"))
    if found is None:
        found = Layout(Workers(Topology(int(count[1]) if count else 8)))
        assumed.append(f"layout is not said, taken as {found.decode.topology.label}")
    model_words = row.text("model")
    precision = _FORMAT.search(model_words)
    model = model_name(re.sub(r"[\s-]*(nvfp4|mxfp4|fp4|fp8|int4|bf16)\b", "", model_words, flags=re.IGNORECASE))
    spec = re.search(r"\b(mtp|dspark|eagle3?)[-\s]?\d*", words, re.IGNORECASE)
    drafts, accepted = speculation(spec[0] if spec else "none", model)
    gpus = found.decode.topology.gpus * found.decode.workers
    total = row.positive("total_tps")
    if total is None and row.has("input_tps") and row.has("output_tps"):
        total = (row.positive("input_tps") or 0.0) + (row.positive("output_tps") or 0.0)
    per_gpu = row.positive("total_tps_per_gpu", "tps_per_gpu") or (total / gpus if total else None)
    output = row.positive("output_tps", "out_tps")
    seen = row.positive("interactivity_mean")
    gpu = re.search(r"[A-Za-z]+\d+X?", re.sub(r"^\d+\s*x", "", row.text("gpu")))
    engine = row.text("engine") or row.text("id")
    return Measured(
        row=row.number, hardware=gpu_name(gpu[0] if gpu else ""), engine=engine_name(engine),
        model=model, precision=precision_name(precision[0] if precision else shipped_precision(model)),
        spec="mtp" if drafts else "none", topology=found.decode.topology, workers=found.decode.workers,
        prefill=Prefill(found.prefill.topology, found.prefill.workers) if found.prefill else None,
        offload=found.offload or bool(row.text("tier")), conc=row.whole("conc"), drafts=drafts, accepted=accepted,
        tput=per_gpu, tpot_s=row.positive("tpot_ms", factor=1e-3) or (1 / seen if seen else None),
        ttft_s=row.positive("ttft_p50_s", "ttft_p50"), ttft_median=True,
        hit=row.share("gpu_kv_hit", "hit", "prefix_hit"), date=date_in(row.text("src")),
        output_tput=output / gpus if output and per_gpu is None else None,
        assumed=(*found.assumed, *assumed, *((STANDS_IN[model],) if model in STANDS_IN else ())),
    )  # fmt: skip


def _after_gpu(text: str) -> str:
    """The layout behind a GPU's name: `4xMI355X TP4/EP4`."""
    return text.partition(" ")[2]
