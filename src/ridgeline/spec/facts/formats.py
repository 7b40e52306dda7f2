"""How a checkpoint stores its weights, read from a `config.json`'s quantisation section."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class Formats(NamedTuple):
    """Storage of routed experts and of the other linear layers: "bf16", "fp8", "mxfp4", "nvfp4" or "int4"."""

    experts: str
    linear: str


def shipped_formats(config: Mapping[str, Any], text: Mapping[str, Any], name: str = "", moe: bool = True) -> Formats:
    """The formats of a checkpoint; bf16 where nothing is said. Exports that keep attention unquantised name it in
    their ignore list; embeddings, heads, routers and norms are never quantised. Exports whose section lies in a file
    of its own (ModelOpt's `hf_quant_config.json`) say the format in their name; of experts' models, such exports
    leave the other layers as they were."""
    found = config.get("quantization_config") or text.get("quantization_config") or {}
    method = str(found.get("quant_method") or found.get("quant_algo") or "").lower()
    if not found:
        named = next((form for form in ("nvfp4", "mxfp4", "fp8") if name.lower().endswith(f"-{form}")), "bf16")
        return Formats(named, "bf16" if named.endswith("fp4") and moe else named)
    narrow = _narrow(found, str(config.get("expert_dtype") or text.get("expert_dtype") or ""))
    if method == "fp8":
        return Formats(narrow or "fp8", "fp8")
    if narrow is None:
        return Formats("fp8", "fp8") if "fp8" in json.dumps(found).lower() else Formats("bf16", "bf16")
    if method in ("mxfp4", "compressed-tensors"):  # these exports quantise routed experts only
        return Formats(narrow, "bf16")
    ignored = json.dumps(found.get("ignore") or found.get("exclude_modules") or [])
    return Formats(narrow, "bf16" if "self_attn" in ignored or "attn" in ignored else narrow)


def _narrow(found: Mapping[str, Any], expert_dtype: str) -> str | None:
    """The 4-bit format in use, if any."""
    said = json.dumps(
        {key: found.get(key) for key in ("quant_method", "quant_algo", "moe_quant_algo", "format")}
    ).lower()
    if "nvfp4" in said:
        return "nvfp4"
    if "mxfp4" in said or expert_dtype == "fp4":
        return "mxfp4"
    groups = json.dumps(found.get("config_groups") or {})
    if '"num_bits": 4' not in groups:
        return None
    return "nvfp4" if '"float"' in groups else "int4"
