"""Names in tables of measurements: GPUs, engines, precisions, speculation and models, as people write them, to the ones
that facts and parameters go by. What is no name of anything stays as it is, to be refused by name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ridgeline.core.errors import InputError
from ridgeline.simulate.points import ACCEPTED, DRAFTS, MODELS
from ridgeline.spec.facts.library import find_gpu, find_model

_ENGINES = ("sglang", "vllm", "trt", "atom")
_ROUTERS = ("dynamo", "mori", "llmd", "llm-d")
_TRT = re.compile(r"tensor\s*rt(-?\s*llm)?|trt-?llm", re.IGNORECASE)
_PRECISIONS = {
    "nvfp4": "fp4", "mxfp4": "fp4", "w4a4": "fp4", "w4a8": "fp4", "mxfp8": "fp8", "fp8_e4m3": "fp8", "w8a8": "fp8",
    "fp16": "bf16", "float16": "bf16", "bfloat16": "bf16", "half": "bf16", "w4a16": "int4", "awq": "int4",
    "gptq": "int4",
}  # fmt: skip
# Ways to draft whose own names end in a digit.
_METHODS = re.compile(r"eagle-?3|eagle|mtp|nextn|dspark|dflash|n-?gram|medusa|suffix|draft|spec", re.IGNORECASE)
_NO_DRAFTS = ("", "none", "off", "false", "no", "0", "disabled", "non-mtp")


class Speculation(NamedTuple):
    """Draft tokens and tokens a step yields (None: the golden length)."""

    drafts: int
    accepted: float | None


@lru_cache(maxsize=256)
def gpu_name(text: str) -> str:
    """`H100_SXM`, `8xB300`, `cluster:h100-dgxc`, `GB200 NVL72` to the label that parameters go by."""
    label = re.sub(r"^\d+\s*x\s*", "", text.strip().lower()).replace(" ", "-")
    try:
        return find_gpu(label).name.lower()
    except InputError:
        return text.strip().lower()


def engine_name(text: str) -> str:
    """`TensorRT-LLM`, `vLLM 0.26.0`, `Dynamo vLLM` to `trt`, `vllm`, `dynamo-vllm`; a router in front comes first."""
    said = _TRT.sub("trt", text.strip().lower())
    engine = next((name for name in _ENGINES if name in said), None)
    if engine is None:
        return re.sub(r"[^a-z0-9._-]+", "-", said)[:40]
    router = next((name for name in _ROUTERS if name in said), None)
    return f"{router.replace('-', '')}-{engine}" if router else engine


def precision_name(text: str) -> str:
    """Our four names for the formats of weights, where the text is a flavour of one."""
    said = text.strip().lower()
    return _PRECISIONS.get(said, said)


def speculation(text: str, model: str = "") -> Speculation:
    """Draft tokens and acceptance length of `mtp`, `MTP-3`, `eagle3`, `dspark5 AL3.51`, `none`. A number of drafts that
    is not said is the recipes' usual one; so is the length of a model without a golden curve then."""
    said = text.strip().lower()
    if said in _NO_DRAFTS:
        return Speculation(0, None)
    length = re.search(r"\bal\s*[=:]?\s*([\d.]+)", said)
    rest = _METHODS.sub(" ", said[: length.start()] if length else said)
    count = re.search(r"(?<!\d)\d{1,2}(?!\d)", rest)  # nobody drafts hundreds
    drafts = int(count[0]) if count else DRAFTS
    if not drafts:
        return Speculation(0, None)
    accepted = float(length[1].rstrip(".")) if length else None
    if accepted is None and drafts == DRAFTS:
        accepted = ACCEPTED.get(model)
    return Speculation(drafts, accepted)


def drafts_unsaid(text: str) -> bool:
    """Whether a row that speculates leaves out how: `mtp`, not `MTP-3` or `AL 2.5`."""
    return speculation(text).drafts > 0 and not re.search(r"\d", _METHODS.sub(" ", text.lower()))


@lru_cache(maxsize=512)
def model_name(text: str) -> str:
    """The short name of a model that has one (`deepseek-ai/DeepSeek-V4-Pro` is `dsv4`), else the text."""
    said = text.strip()
    if said.lower() in MODELS:
        return said.lower()
    squashed = _squashed(said.rsplit("/", 1)[-1])
    for short, name in MODELS.items():
        if squashed in (_squashed(short), _squashed(name)):
            return short
    try:
        arch = find_model(said).name
    except InputError:
        return said
    return _short_names().get(arch, said)


@lru_cache(maxsize=1)
def _short_names() -> dict[str, str]:
    found: dict[str, str] = {}
    for short, name in MODELS.items():
        found.setdefault(find_model(name).name, short)
    return found


def _squashed(text: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", text.lower())


def shipped_precision(model: str) -> str:
    """The precision a model is shipped in, by our names of it; fp8 where no model of that name is known."""
    try:
        return precision_name(find_model(MODELS.get(model, model)).experts_format)
    except InputError:
        return "fp8"


def date_in(text: str) -> str | None:
    """The first date in a text, YYYY-MM-DD."""
    found = re.search(r"\d{4}-\d\d-\d\d", text)
    return found[0] if found else None
