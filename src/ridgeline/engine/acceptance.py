"""Speculative decoding's acceptance: from a golden length to what every draft position must show.

The length counts the bonus token, so N drafts give 1 to N + 1. vLLM's synthetic sampler expands a length to the
schedule of least variance: the first floor(a) positions are always accepted, the next with the fraction, the rest never
(a = length - 1). Greedy and sampled requests both follow it, so what a run shows is exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.spec.facts.acceptance import Curve


class Schedule(NamedTuple):
    """Per position: the unconditional rate, and the rate given that the position before was accepted."""

    rates: tuple[float, ...]
    conditional: tuple[float, ...]


def schedule(length: float, drafts: int) -> Schedule:
    """Rates for an acceptance length. Raises ValueError outside [1, drafts + 1]."""
    if drafts < 1:
        raise ValueError(f"num_speculative_tokens must be at least 1, is {drafts}")
    if not 1 <= length <= drafts + 1:
        raise ValueError(f"acceptance length {length} is outside [1, {drafts + 1}] for {drafts} draft tokens")
    gained = length - 1
    rates = tuple(round(min(1.0, max(0.0, gained - position)), 9) for position in range(drafts))
    before = (1.0, *rates)
    given = tuple(round(rate / previous, 9) if previous else 0.0 for rate, previous in zip(rates, before, strict=False))
    return Schedule(rates, given)


class GoldenLength(NamedTuple):
    """A length and the curve it is from."""

    length: float
    curve: Curve


def golden_lengths(
    curves: Sequence[Curve], model: str, drafts: int, mode: str = "thinking_on", method: str = ""
) -> tuple[GoldenLength, ...]:
    """Every committed length for a model, mode and draft length; those of the draft method first when it is named.

    A curve's model is the beginning of a release's name, so `deepseek-ai/DeepSeek-V4-Pro-0813` has the curves of
    `deepseek-v4-pro-0813` before those of `deepseek-v4-pro`; `-` and `_` and letter case do not matter.
    """
    name = _plain(model.rsplit("/", 1)[-1])
    fitting = [
        curve
        for curve in curves
        if curve.mode == mode and drafts in curve.lengths and name.startswith(_plain(curve.model))
    ]
    longest = max((len(_plain(curve.model)) for curve in fitting), default=0)
    best = [curve for curve in fitting if len(_plain(curve.model)) == longest]
    named = [curve for curve in best if method and method in curve.variant] or best
    return tuple(GoldenLength(curve.lengths[drafts], curve) for curve in named)


_FORMATS = re.compile(r"[-_](nvfp4|mxfp4|fp8|fp4|int4|bf16)(?=[-_]|$)")


def _plain(name: str) -> str:
    """Letters, digits and dots of a name, without weight formats: acceptance is measured on one and used for all."""
    return re.sub(r"[^a-z0-9.]", "", _FORMATS.sub("", name.lower()))


def engine_settings(length: float, drafts: int) -> dict[str, str]:
    """How each engine is told an acceptance length."""
    return {
        "vllm": f'"rejection_sample_method": "synthetic", "synthetic_acceptance_length": {length:g}',
        "sglang": f"SGLANG_SIMULATE_ACC_LEN={length:g} SGLANG_SIMULATE_ACC_METHOD=match-expected "
        "SGLANG_SIMULATE_ACC_TOKEN_MODE=real-draft-token",
        "trt": f"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={length - 1:g}",
        "atom": f"--spec-decode-acceptance-length {length:g}",
    }
