"""Capture knobs cover what they promise, by the engine's own ladder."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.engine.graphs import ladder
from ridgeline.recipes.capture import covering, listed
from ridgeline.recipes.origin import plain


def covered(seqs: int, query: int, budget: int) -> int:
    """Sequences that have a decode graph under the knobs, by vLLM's arithmetic."""
    knobs = covering(seqs, query, budget)
    found = ladder(
        max_num_seqs=seqs,
        spec_tokens=query - 1,
        max_num_batched_tokens=budget,
        sizes=plain(knobs.cudagraph_capture_sizes),
        top=plain(knobs.max_cudagraph_capture_size),
    )
    return found.covered_sequences


@settings(max_examples=150, deadline=None)
@given(seqs=st.integers(1, 600), query=st.integers(1, 9), budget=st.sampled_from([2048, 8192, 16384]))
def test_every_admitted_batch_has_a_graph(seqs: int, query: int, budget: int) -> None:
    assert covered(seqs, query, budget) == min(seqs, budget // query)


def test_the_seeds_batches() -> None:
    for seqs in (2, 32, 33, 224, 448):
        assert covered(seqs, 4, 8192) == seqs


def test_one_knob_only() -> None:
    assert covering(32, 4, 8192).cudagraph_capture_sizes is None
    assert covering(32, 3, 8192).max_cudagraph_capture_size is None
    assert covering(33, 4, 8192).max_cudagraph_capture_size is None, "132 tokens pad to 136, which no 33 sequences have"


def test_the_default_maximum_is_never_lowered() -> None:
    assert plain(covering(16, 4, 8192).max_cudagraph_capture_size) == 128
    assert plain(covering(256, 1, 8192).max_cudagraph_capture_size) == 512


@given(seqs=st.integers(1, 500), query=st.integers(1, 9))
def test_lists_are_multiples_that_end_at_the_last_sequence(seqs: int, query: int) -> None:
    sizes = listed(seqs, query)
    assert list(sizes) == sorted(set(sizes))
    assert all(size % query == 0 for size in sizes)
    assert sizes[-1] == seqs * query
