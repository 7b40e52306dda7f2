import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden import golden

from ridgeline.engine.graphs import FULL, NONE, PIECEWISE, Ladder, ladder


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


def _spans(found: Ladder, seqs: int) -> list[list[object]]:
    spans: list[list[object]] = []
    for n in range(1, seqs + 1):
        mode = found.runs_as(n * found.query, uniform=True)
        if spans and spans[-1][2] == mode:
            spans[-1][1] = n
        else:
            spans.append([n, n, mode])
    return spans


def test_known_ladders() -> None:
    rows = json.loads(golden("golden/capture_sizes.json").read_text())["rows"]
    for row in rows:
        given_ = row["inputs"]
        options = {
            "max_num_seqs": given_["max_num_seqs"],
            "max_num_batched_tokens": given_["max_num_batched_tokens"],
            "spec_tokens": given_["num_spec_tokens"],
            "mode": given_["cudagraph_mode"],
            "sizes": given_["explicit_capture_sizes"],
            "top": given_["max_cudagraph_capture_size"],
            "dense": given_["performance_mode"] == "interactivity",
            "v2_runner": given_["model_runner"] == "v2",
        }
        if row["error"]:
            with pytest.raises(ValueError):
                ladder(**options)
            continue
        found = ladder(**options)
        top = found.sizes[-1] if found.sizes else 0
        mixed = max((n for n in range(1, top + 1) if found.runs_as(n, uniform=False) != NONE), default=0)
        assert list(found.configured) == row["after_config"], given_
        assert (list(found.sizes), top) == (row["final_sizes"], row["final_max"]), given_
        assert list(found.full) == row["full_graphs"], given_
        assert list(found.piecewise) == row["piecewise_graphs"], given_
        assert _spans(found, given_["max_num_seqs"]) == row["uniform_decode_mode_by_num_seqs"], given_
        assert (found.covered_sequences, mixed) == (row["max_seqs_full_graph"], row["max_tokens_mixed_graph"]), given_
    assert len(rows) >= 395
