import json

import pytest
from tests.golden import golden

from ridgeline.core.errors import InputError
from ridgeline.engine.answers.graphs import answer


def coverage(seqs: int, drafts: int, **more: object) -> tuple[int, int, int]:
    """(number of sizes, largest size, sequences with a full graph)"""
    found = answer({"max_num_seqs": seqs, "num_spec_tokens": drafts, "cudagraph_mode": "FULL_DECODE_ONLY", **more})
    return len(found["final_sizes"]), found["final_max"], found["max_seqs_full_graph"]


@pytest.mark.parametrize(
    ("seqs", "knobs", "known"),
    [
        (32, {}, (33, 256, 32)),
        (32, {"explicit_capture_sizes": list(range(1, 33))}, (8, 32, 8)),
        (32, {"max_cudagraph_capture_size": 32}, (5, 32, 8)),
        (32, {"explicit_capture_sizes": list(range(4, 129, 4))}, (32, 128, 32)),
        (32, {"max_cudagraph_capture_size": 128}, (17, 128, 32)),
        (448, {}, (49, 512, 128)),
        (448, {"explicit_capture_sizes": list(range(1, 449))}, (112, 448, 112)),
        (448, {"max_cudagraph_capture_size": 448}, (45, 448, 112)),
        (448, {"explicit_capture_sizes": list(range(4, 1793, 4))}, (448, 1792, 448)),
        (448, {"max_cudagraph_capture_size": 1792}, (129, 1792, 448)),
        (448, {"max_num_batched_tokens": 128}, (17, 128, 32)),
    ],
)
def test_three_drafts_with_32_and_448_sequences_in_every_variant(seqs: int, knobs: dict, known: tuple) -> None:
    assert coverage(seqs, 3, **knobs) == known
    # The piecewise half of the other mode does not rescue what lies above the largest size.
    assert coverage(seqs, 3, **{**knobs, "cudagraph_mode": "FULL_AND_PIECEWISE"})[2] == known[2]


def test_a_refusal_is_an_answer() -> None:
    found = answer({"max_num_seqs": 8, "num_spec_tokens": 3, "explicit_capture_sizes": [1, 2]})
    assert found["error"].startswith("ValueError: No valid cudagraph sizes after rounding to multiple of 4")


def test_what_the_engine_changes_is_said() -> None:
    sorted_ = answer({"max_num_seqs": 8, "explicit_capture_sizes": [4, 4, 8]})
    assert sorted_["warnings"] == [
        "cudagraph_capture_sizes specified in compilation_config [4, 4, 8] is overridden by config [4, 8]"
    ]
    assert answer({"max_num_seqs": 32, "max_cudagraph_capture_size": 126})["warnings"] == [
        "Truncating max_cudagraph_capture_size to 120"
    ]


def test_all_wrong_inputs_are_named() -> None:
    with pytest.raises(InputError) as raised:
        answer({"max_num_seq": 8, "cudagraph_mode": "SOME", "explicit_capture_sizes": "1,2"})
    assert {problem.key for problem in raised.value.problems} == {
        "max_num_seq", "max_num_seqs", "cudagraph_mode", "explicit_capture_sizes",
    }  # fmt: skip


def test_numbers_beyond_any_engine_take_no_longer() -> None:
    found = answer({"max_num_seqs": 10**15, "num_spec_tokens": 3})
    assert found["uniform_decode_mode_by_num_seqs"] == [[1, 128, "FULL"], [129, 10**15, "NONE"]]
    assert (
        answer({"max_num_seqs": 8, "max_num_batched_tokens": 10**12, "explicit_capture_sizes": [4, 10**12]})[
            "max_tokens_mixed_graph"
        ]
        == 10**12
    )
    with pytest.raises(InputError, match="must be an integer of at most 1048576") as caught:
        answer({"max_num_seqs": 10**400, "max_cudagraph_capture_size": 10**9, "performance_mode": "fastest"})
    assert {problem.key for problem in caught.value.problems} == {
        "max_num_seqs", "max_cudagraph_capture_size", "performance_mode",
    }  # fmt: skip


def test_known_answers() -> None:
    rows = json.loads(golden("golden/capture_sizes.json").read_text())["rows"]
    for row in rows:
        found = answer(row["inputs"])
        keys = ("error", "warnings") if row["error"] else [key for key in row if key in found]
        assert {key: found[key] for key in keys} == {key: row[key] for key in keys}, row["inputs"]
    assert len(rows) >= 395
