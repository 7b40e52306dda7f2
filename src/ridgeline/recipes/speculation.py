"""Speculative decoding: the acceptance length is looked up, never typed.

A throughput run pins acceptance to a golden length measured elsewhere, so that points of different stacks compare;
an accuracy run verifies drafts for real. Both follow from here: a recipe names the draft method and the draft length,
and the length comes out of the table by (model, mode, draft length) or the cell is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.where import Where
from ridgeline.engine.acceptance import GoldenLength, golden_lengths
from ridgeline.engine.builds import build_of
from ridgeline.recipes.origin import Value
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.spec.facts.golden import shipped_curves

LAST_WITHOUT_TOKEN_MODE = (0, 5, 14)  # of SGLang, by the dumps of 0.5.14 and 0.5.16


@dataclass(frozen=True, slots=True)
class Speculation:
    """Drafting with `drafts` tokens a step. `golden` None: drafts are verified for real (accuracy runs)."""

    method: str
    drafts: int
    golden: GoldenLength | None
    origin: Where | None = None
    draft_model: str | None = None

    @property
    def query(self) -> int:
        """Tokens one sequence verifies in one step: its drafts and the token before them."""
        return self.drafts + 1

    def vllm(self) -> Value[Mapping[str, Any]]:
        """vLLM's `--speculative-config`."""
        config: dict[str, Any] = {"method": self.method, "num_speculative_tokens": self.drafts}
        if self.draft_model:
            config["model"] = self.draft_model
        if self.golden:
            config |= {
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_length": self.golden.length,
            }
        return Value(config, self.origin)

    def sglang_env(self, image: str) -> dict[str, Value[str]]:
        """SGLang simulates acceptance by environment. Which tokens count as accepted can be chosen in later builds
        only; an earlier one would pass over the variable without a word."""
        if not self.golden:
            return {}
        found = {
            "SGLANG_SIMULATE_ACC_LEN": Value(f"{self.golden.length:g}", self.origin),
            "SGLANG_SIMULATE_ACC_METHOD": Value("match-expected", self.origin),
        }
        if build_of(image, "sglang").version > LAST_WITHOUT_TOKEN_MODE:
            found["SGLANG_SIMULATE_ACC_TOKEN_MODE"] = Value("real-draft-token", self.origin)
        return found

    def trt_env(self) -> dict[str, Value[str]]:
        """TensorRT-LLM counts accepted drafts, without the bonus token."""
        if not self.golden:
            return {}
        return {
            "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS": Value(f"{round(self.golden.length - 1, 6):g}", self.origin)
        }


def speculation(
    cell: Cell,
    settings: RecipeSettings,
    method: str,
    drafts: Value[int],
    *,
    curve: str | None = None,
    draft_model: str | None = None,
) -> Speculation | None:
    """The speculation of a cell, None when its arm has none.

    `curve` names the golden curve's variant where a model has several. Raises CannotRender when the table has no
    length for (model, mode, drafts), or several that differ. Fixed-length cells of a model without a curve verify
    their drafts for real, as their peers do: only agentic points are compared by a pinned length.
    """
    if cell.arm.spec_decoding == "none":
        return None
    if settings.accuracy:
        return Speculation(method, drafts.of, None, drafts.origin, draft_model)
    curves = shipped_curves() if settings.curves is None else settings.curves
    if curve:
        curves = tuple(item for item in curves if item.variant == curve)
    found = golden_lengths(curves, cell.benchmark.model, drafts.of, settings.mode, method)
    asked = f"{cell.benchmark.model}, {settings.mode}, {drafts.of} draft tokens"
    if not found and cell.scenario.kind != "agentic-coding":
        return Speculation(method, drafts.of, None, drafts.origin, draft_model)
    if not found:
        hint = "measure one and drop its file into acceptance/ of a folder named by RIDGELINE_FACTS"
        raise CannotRender(cell, f"speculation without a golden acceptance length for ({asked})", hint=hint)
    if len({item.length for item in found}) > 1:
        names = ", ".join(f"{item.curve.variant} {item.length:g}" for item in found)
        raise CannotRender(cell, f"one of several golden acceptance lengths for ({asked}): {names}")
    return Speculation(method, drafts.of, found[0], drafts.origin, draft_model)
