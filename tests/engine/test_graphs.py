import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.engine.graphs import FULL, NONE, PIECEWISE, ladder


def test_the_default_ladder() -> None:
    found = ladder(max_num_seqs=16, max_num_batched_tokens=8192)
    assert found.sizes == (1, 2, 4, 8, 16, 24, 32)
    assert found.covered_sequences == 16
    assert len(ladder(max_num_seqs=1024, max_num_batched_tokens=8192).sizes) == 51


def test_what_a_step_runs_as() -> None:
    both = ladder(max_num_seqs=1024, max_num_batched_tokens=8192)
    assert (both.runs_as(3, uniform=True), both.padded(3)) == (FULL, 4)
    assert both.runs_as(500, uniform=False) == PIECEWISE
    assert both.runs_as(513, uniform=True) == NONE
    decode = ladder(max_num_seqs=1024, max_num_batched_tokens=8192, mode="FULL_DECODE_ONLY")
    assert decode.runs_as(8, uniform=False) == NONE
    assert ladder(max_num_seqs=8, max_num_batched_tokens=99, mode="NONE").runs_as(1, uniform=True) == NONE


def test_rounding_for_drafts_drops_what_passes_the_top() -> None:
    assert ladder(max_num_seqs=32, max_num_batched_tokens=8192, spec_tokens=3, top=126).sizes[-1] == 120
    assert ladder(max_num_seqs=448, max_num_batched_tokens=8192, spec_tokens=3).covered_sequences == 128
    explicit = ladder(max_num_seqs=32, max_num_batched_tokens=8192, spec_tokens=3, sizes=range(1, 33))
    assert explicit.covered_sequences == 8


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sizes": [1, 2, 3], "spec_tokens": 3}, "multiple of 4"),
        ({"sizes": []}, "no size"),
        ({"top": 0}, "at least 1"),
        ({"sizes": [1, 2, 4], "top": 8}, "consistent"),
        ({"spec_tokens": 2, "sequence_parallel": 2}, "multiples of 3 and of 2"),
    ],
)
def test_what_vllm_refuses(more: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ladder(max_num_seqs=8, max_num_batched_tokens=8192, **more)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 600), st.integers(1, 10_000), st.integers(0, 5))
def test_a_padded_size_is_captured_and_never_smaller(seqs: int, budget: int, drafts: int) -> None:
    try:
        found = ladder(max_num_seqs=seqs, max_num_batched_tokens=budget, spec_tokens=drafts)
    except ValueError:
        return
    assert list(found.sizes) == sorted(set(found.sizes))
    for tokens in (1, 2, 7, 100, 511, 512, 513):
        padded = found.padded(tokens)
        assert padded is None or (padded in found.sizes and padded >= tokens)
        assert (padded is None) == (tokens > found.sizes[-1])
