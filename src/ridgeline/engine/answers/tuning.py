"""Which tuning row a shape hits, or why none; and what the fused kernel's static selector decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.engine.answers.inputs import Inputs
from ridgeline.engine.tuning import DEFAULTS, Shape, geometry, look_up, mega_moe
from ridgeline.spec.facts.tuning import TuningTable

INPUTS = {
    "phase": "dispatch or combine (dispatch)",
    "dispatch_dtype": "fp4, fp8, bf16, fp32",
    "hidden_dim": "the model's width",
    "topk": "experts a token goes to",
    "ep_size": "expert-parallel size",
    "local_expert_num": "experts a rank holds (n_routed_experts / ep_size)",
    "n_routed_experts": "experts of the model",
    "divisible": "given in known answers; follows from the two",
    "num_tokens": "tokens of one rank",
    "zero_copy": "combine copies nothing (true)",
    "gpu_arch": "e.g. gfx950",
    "gpu_model": "e.g. mi355x",
}
SELECTOR_INPUTS = {
    "tokens": "tokens of one rank",
    "mtpr": "most tokens a rank may have, a power of two",
    "experts_per_rank": "experts a rank holds",
    "model_dim": "the model's width (decides nothing here)",
    "inter_dim": "an expert's width (decides nothing here)",
}


def answer(data: Mapping[str, Any], tables: Sequence[TuningTable]) -> dict[str, Any]:
    """A look-up, or the selector's answer when the inputs are the selector's. Raises InputError."""
    if "mtpr" in data:
        return _selector(data)
    inputs = Inputs(data, INPUTS)
    experts, ep = inputs.optional("n_routed_experts", least=1), inputs.integer("ep_size", least=1)
    local = inputs.optional("local_expert_num")
    if local is None:
        if experts is None:
            inputs.refuse("is required, or n_routed_experts", "local_expert_num")
        elif experts % ep:
            inputs.refuse(f"{experts} experts cannot be split over {ep} ranks", "ep_size")
        local = (experts or 0) // ep
    phase = inputs.text("phase", "dispatch", among=DEFAULTS)
    shape = Shape(
        inputs.text("dispatch_dtype"), inputs.integer("hidden_dim", least=1), inputs.integer("topk", least=1),
        local, ep, inputs.flag("zero_copy", True),
    )  # fmt: skip
    tokens = inputs.integer("num_tokens", least=1)
    arch, model = inputs.text("gpu_arch", ""), inputs.text("gpu_model", "")
    inputs.flag("divisible", True)
    inputs.done()
    found = look_up(tables, shape, arch, model)
    launch = geometry(getattr(found, phase), phase, tokens)
    return {
        "tuning_file": found.table.text if found.table else None,
        "arch_match": found.arch_match if found.table else False,
        "model_match": found.model_match if found.table else False,
        "table_built": found.built,
        "dispatch_rules": len({rule.tokens for rule in found.dispatch}),
        "combine_rules": len({rule.tokens for rule in found.combine}),
        "source": launch.source,
        "matched_bucket": launch.bucket,
        "overflow": launch.overflow,
        "block_num": launch.blocks,
        "warp_num_per_block": launch.warps,
        "bucket_ratio": round(launch.bucket / tokens, 2) if launch.bucket else None,
        "log": list(found.log),
        "why": _why(found.table, found.built, launch.bucket, phase) if tables else "no tables were given",
        "error": None,
    }


def _why(table: TuningTable | None, built: bool, bucket: int | None, phase: str) -> str:
    if table is None:
        return "no table for this expert-parallel size among those given: static defaults, and nothing is logged"
    if bucket is not None:
        return f"row of {bucket} tokens in {table.text}"
    if built:
        return f"{table.text} has no {phase} row for this type and shape: static defaults, without a warning"
    return f"{table.text} has no row for this type and shape: static defaults"


def _selector(data: Mapping[str, Any]) -> dict[str, Any]:
    inputs = Inputs(data, SELECTOR_INPUTS)
    tokens, mtpr = inputs.integer("tokens", least=1), inputs.integer("mtpr", least=1)
    experts = inputs.integer("experts_per_rank", least=1)
    inputs.done()
    try:
        found = mega_moe(tokens, mtpr, experts)
    except ValueError as error:
        return {"error": str(error)}
    return {
        "bucket": found.bucket, "mtpr_class": found.mtpr_class, "regime": found.regime, "p2p_quant": found.p2p_quant,
        "error": None,
    }  # fmt: skip
