from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plan.checks.making import findings, make, seen, verdict

from ridgeline.core.finding import Verdict
from ridgeline.core.topology import Topology
from ridgeline.engine.graphs import ladder
from ridgeline.engine.kv import plan_groups
from ridgeline.engine.kvlayers import kv_layers
from ridgeline.plan.checks.changes import after_change
from ridgeline.spec.facts.library import find_model

MODELS = ("deepseek-v4-pro", "gpt-oss-120b", "llama-3.1-8b", "deepseek-r1", "qwen3.5-397b-a17b")
lengths, budgets = st.integers(1, 1_048_576), st.integers(1, 32_768)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=20, deadline=None)
@given(lengths, lengths, budgets, budgets)
def test_the_need_grows_with_length_and_with_tokens_in_flight(model: str, a: int, b: int, c: int, d: int) -> None:
    plan = plan_groups(kv_layers(find_model(model), Topology(8, dp_attn=True), fp8=True))
    assert plan.needed(min(a, b), c) <= plan.needed(max(a, b), c)
    assert plan.needed(a, min(c, d)) <= plan.needed(a, max(c, d))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(0, 5), st.integers(1, 1500), st.integers(1, 1500))
def test_coverage_grows_with_the_largest_size(seqs: int, drafts: int, one: int, other: int) -> None:
    def covered(top: int) -> int:
        try:
            found = ladder(max_num_seqs=seqs, max_num_batched_tokens=8192, spec_tokens=drafts, top=top)
        except ValueError:
            return 0
        return found.covered_sequences

    assert covered(min(one, other)) <= covered(max(one, other))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([Topology(4, ep=4, dp_attn=True), Topology(4), Topology(8, dp_attn=True)]),
    st.sampled_from([4096, 8192, 16384, 32768]),
    st.floats(1, 40),
    st.sampled_from([0.80, 0.84, 0.86]),
)
def test_a_memory_hint_that_is_applied_passes(topology: Topology, budget: int, taken: float, share: float) -> None:
    subject = seen(make(topology, flags={"max-num-batched-tokens": budget, "gpu-memory-utilization": share}), taken)
    for found in findings(subject, "M3"):
        for change in found.changes:
            if change.arm is None:  # another layout has no start on record: it is certain to fit, or not offered
                assert verdict(after_change(subject, change), "M3") is Verdict.PASS, change
            else:
                assert verdict(after_change(subject, change), "M3") is not Verdict.FAIL, change


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 256), st.integers(1, 256), st.booleans())
def test_a_graph_hint_that_is_applied_passes(concurrency: int, top: int, listed: bool) -> None:
    knob = {"cudagraph_capture_sizes": list(range(1, top + 1))} if listed else {"max_cudagraph_capture_size": top}
    subject = make(concurrency=concurrency, flags={"compilation-config": knob})
    for found in [*findings(subject, "G1"), *findings(subject, "G5")]:
        for change in found.changes:
            assert verdict(after_change(subject, change), "G1") is Verdict.PASS, change
            assert verdict(after_change(subject, change), "G5") is not Verdict.FAIL, change


def test_one_change_mends_a_short_list_for_both_rules_and_a_long_one_becomes_a_ladder() -> None:
    short = {"cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4, 8]}
    for cap, written in ((16, '"cudagraph_capture_sizes": [4, 8, 12'), (448, '"max_cudagraph_capture_size": 1792')):
        subject = make(concurrency=16, flags={"compilation-config": short, "max-num-seqs": cap})
        (first,), (second,) = findings(subject, "G1"), findings(subject, "G5")
        assert first.verdict is second.verdict is Verdict.FAIL and first.changes == second.changes
        assert written in str(first.changes[0].value) and "FULL_DECODE_ONLY" in str(first.changes[0].value)


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 60), st.floats(0, 60))
def test_more_knowledge_never_turns_an_answer_round(one: float, other: float) -> None:
    """With a second start on record a sure answer may become unsure, but a PASS never a FAIL."""
    first = seen(make(Topology(4, ep=4, dp_attn=True)), one)
    both = replace(first, known=replace(first.known, observations=seen(first, other).known.observations))
    pair = {verdict(first, "M3"), verdict(both, "M3")}
    assert pair != {Verdict.PASS, Verdict.FAIL}
