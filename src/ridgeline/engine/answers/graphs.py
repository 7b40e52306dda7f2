"""Which graphs an engine captures, and which batches run in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.engine.answers.inputs import Inputs
from ridgeline.engine.graphs import FULL, MODES, NONE, Ladder, default_sizes, ladder

INPUTS = {
    "max_num_seqs": "sequences an engine may run at once",
    "num_spec_tokens": "draft tokens a sequence (0)",
    "cudagraph_mode": f"one of {', '.join(MODES)} (FULL_AND_PIECEWISE)",
    "explicit_capture_sizes": "list of sizes in tokens (none: the default ladder)",
    "max_cudagraph_capture_size": "largest size (none: the engine's own)",
    "max_num_batched_tokens": "token budget of a step (8192)",
    "performance_mode": "interactivity: every size to 32; balanced, throughput: the usual ones (balanced)",
    "model_runner": "v1 or v2 (v1)",
    "sequence_parallel_size": "tp when the sequence-parallel pass is on (1)",
}

PERFORMANCE = ("balanced", "interactivity", "throughput")
LARGEST = 2**20  # tokens of a graph that is asked for: a ladder to more would not end


def answer(data: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes, graphs and coverage. Raises InputError."""
    inputs = Inputs(data, INPUTS)
    seqs = inputs.integer("max_num_seqs", least=1)
    options: dict[str, Any] = {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": inputs.integer("max_num_batched_tokens", 8192, least=1),
        "spec_tokens": inputs.integer("num_spec_tokens", 0),
        "mode": inputs.text("cudagraph_mode", "FULL_AND_PIECEWISE", among=MODES),
        "sizes": inputs.integers("explicit_capture_sizes"),
        "top": inputs.optional("max_cudagraph_capture_size", most=LARGEST),
        "dense": inputs.text("performance_mode", "balanced", among=PERFORMANCE) == "interactivity",
        "v2_runner": inputs.text("model_runner", "v1", among=("v1", "v2")) == "v2",
        "sequence_parallel": inputs.integer("sequence_parallel_size", 1, least=1),
    }
    inputs.done()
    try:
        return described(ladder(**options)) | {"warnings": _warnings(options)}
    except ValueError as error:
        return {"error": f"ValueError: {error}", "warnings": _warnings(options)}


def _warnings(options: Mapping[str, Any]) -> list[str]:
    """What the engine logs when it changes the knobs it was given."""
    sizes, top, budget = options["sizes"], options["top"], options["max_num_batched_tokens"]
    if options["mode"] == NONE:
        return []
    if sizes:
        kept = sorted({size for size in sizes if size <= budget})
        changed = len(kept) != len(sizes)
        text = f"cudagraph_capture_sizes specified in compilation_config {sizes} is overridden by config {kept}"
        return [text] if changed and kept else []
    if top is None or min(top, budget) < 1:
        return []
    last = default_sizes(min(top, budget), budget, dense=options["dense"])[-1]
    return [f"Truncating max_cudagraph_capture_size to {last}"] if last != top else []


def described(found: Ladder) -> dict[str, Any]:
    """A ladder as plain data. `mean_pad_ratio` is the mean of padded over real tokens of the batches of 1 to
    max_num_seqs requests that run in a graph, 0 when none does."""
    spans = _spans(found)
    covered = found.covered_sequences
    top = found.sizes[-1] if found.sizes else 0
    holes = [first for first, _, mode in spans if mode != FULL]
    ratios, most = [], 0
    for n in range(1, found.within + 1):
        tokens = n * found.query
        if found.runs_as(tokens, uniform=True) != NONE:
            size = _run_size(found, tokens)
            ratios.append(size / tokens)
            most = max(most, size - tokens)
    return {
        "after_config": list(found.configured),
        "max_after_config": found.configured[-1] if found.configured else 0,
        "final_sizes": list(found.sizes),
        "final_max": top,
        "full_graphs": list(found.full),
        "piecewise_graphs": list(found.piecewise),
        "graphs": len(found.full) + len(found.piecewise),
        "uniform_decode_mode_by_num_seqs": spans,
        "max_seqs_full_graph": covered,
        "first_uncovered_seqs": next((first for first, _, mode in spans if mode == NONE), None),
        "first_seqs_without_full_graph": holes[0] if holes else None,
        "decode_fully_covered": all(mode != NONE for _, _, mode in spans),
        "decode_all_full": all(mode == FULL for _, _, mode in spans),
        "max_pad_tokens": most,
        "mean_pad_ratio": round(sum(ratios) / len(ratios), 4) if ratios else 0.0,
        "max_tokens_mixed_graph": max(
            (size for size in {*found.sizes, *found.full} if found.runs_as(size, uniform=False) != NONE), default=0
        ),
        "error": None,
    }


def _spans(found: Ladder) -> list[list[Any]]:
    """[first, last, mode] of runs of equal modes over 1..max_num_seqs decoding requests."""
    spans: list[list[Any]] = []
    for n in range(1, found.within + 1):
        mode = found.runs_as(n * found.query, uniform=True)
        if spans and spans[-1][2] == mode:
            spans[-1][1] = n
        else:
            spans.append([n, n, mode])
    if found.within < found.max_num_seqs:
        if spans and spans[-1][2] == NONE:
            spans[-1][1] = found.max_num_seqs
        else:
            spans.append([found.within + 1, found.max_num_seqs, NONE])
    return spans


def _run_size(found: Ladder, tokens: int) -> int:
    """Tokens a uniform decode batch is padded to."""
    if found.v2_runner:
        sizes = found.full if found.runs_as(tokens, uniform=True) == FULL else found.piecewise
        return next(size for size in sizes if size >= tokens)
    return found.padded(tokens) or tokens
