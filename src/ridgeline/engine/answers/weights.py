"""Weight bytes on one GPU, by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.core.units import GIB
from ridgeline.engine.answers import layouts
from ridgeline.engine.answers.inputs import Inputs
from ridgeline.engine.builds import build_of, expert_pad
from ridgeline.engine.formats import PRECISIONS, Formats, formats_of
from ridgeline.engine.parameters import active_parameters, total_parameters
from ridgeline.engine.weights import constructor_buffers, weights
from ridgeline.spec.facts.library import find_gpu, find_model

INPUTS = {
    "model": "name of a model or path of its config.json",
    "gpu": "GPU or runner label (mi355x): decides padding and 4-bit flavour",
    **layouts.INPUTS,
    "precision": f"one of {', '.join(PRECISIONS)} (as the checkpoint is shipped)",
    "mtp": "true: with one multi-token-prediction layer",
    "max_num_batched_tokens": "token budget of a step (8192): sizes constructor buffers",
    "build": "engine and version, e.g. vllm 0.26.0 (the newest known)",
}


def answer(data: Mapping[str, Any]) -> dict[str, Any]:
    """GiB on one GPU by part, `total` without constructor buffers. Raises InputError."""
    inputs = Inputs(data, INPUTS)
    topology = layouts.topology_of(inputs)
    name, gpu_name = inputs.text("model"), inputs.text("gpu", "mi355x")
    precision, mtp = inputs.text("precision", "", among=(*PRECISIONS, "")), inputs.flag("mtp")
    budget, build = inputs.integer("max_num_batched_tokens", 8192, least=1), build_of(inputs.text("build", "vllm"))
    arch, gpu = inputs.found(lambda: find_model(name)) if name else None, inputs.found(lambda: find_gpu(gpu_name))
    inputs.done()
    assert arch is not None and gpu is not None
    formats = formats_of(arch, precision, gpu) if precision else Formats(arch.experts_format, arch.linear_format)
    pad = expert_pad(build, formats, gpu.vendor)
    found = weights(arch, topology, formats, mtp=mtp, pad=pad)
    buffers = constructor_buffers(arch, gpu.vendor, budget, mtp=mtp)
    parts = {
        "routed": found.routed,
        "attention": found.attention,
        "shared": found.shared,
        "dense": found.dense,
        "gate": found.gate,
        "hc": found.hyper,
        "embed_lmhead": found.embed,
        "mtp_proj": found.mtp_projection,
        "mtp_embed_head": 0.0,  # shared with the target model
        "norms": found.norms,
    }
    return {
        "topology": topology.label,
        "formats": {"experts": formats.experts, "linear": formats.linear},
        "expert_padding": pad,
        **{key: round(value / GIB, 3) for key, value in parts.items()},
        "total": round(found.total / GIB, 3),
        "total_bytes": round(found.total),
        "buffers_gib": {key: round(value / GIB, 6) for key, value in buffers.items()},
        "parameters_total": total_parameters(arch),
        "parameters_active": active_parameters(arch),
        "error": None,
    }
