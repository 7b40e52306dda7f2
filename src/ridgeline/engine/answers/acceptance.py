"""Per-position acceptance of a golden length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.engine.acceptance import engine_settings, golden_lengths, schedule
from ridgeline.engine.answers.inputs import Inputs
from ridgeline.spec.facts.acceptance import MODES, Curve

INPUTS = {
    "acceptance_length": "tokens a verification yields, the bonus token included (or a model with golden lengths)",
    "num_spec_tokens": "draft tokens",
    "model": "name of a model: its golden length is taken",
    "mode": f"{' or '.join(MODES)} (thinking_on)",
    "method": "draft method, where a model has several curves (mtp, eagle3, dspark, ...)",
}


def answer(data: Mapping[str, Any], curves: Sequence[Curve]) -> dict[str, Any]:
    """Rates by position and how each engine is told. Raises InputError."""
    inputs = Inputs(data, INPUTS)
    drafts, length = inputs.integer("num_spec_tokens", least=1), inputs.number("acceptance_length")
    model, mode = inputs.text("model", ""), inputs.text("mode", MODES[0], among=MODES)
    method = inputs.text("method", "")
    found = golden_lengths(curves, model, drafts, mode, method) if model else ()
    if length is None and not found:
        text = f"no golden length for {model}, {mode}, {drafts} drafts" if model else "is required, or a model"
        inputs.refuse(text, "acceptance_length")
    inputs.done()
    chosen = length if length is not None else found[0].length
    try:
        rates = schedule(chosen, drafts)
    except ValueError as error:
        return {"error": f"ValueError: {error}"}
    return {
        "acceptance_length": chosen,
        "num_spec_tokens": drafts,
        "per_position": list(rates.rates),
        "conditional": list(rates.conditional),
        "golden": [
            {"acceptance_length": g.length, "variant": g.curve.variant, "source": g.curve.source} for g in found
        ],
        "engines": engine_settings(chosen, drafts),
        "error": None,
    }
