"""Whatever is asked, a question ends in an answer or in problems that name the inputs, never in a traceback."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.engine.answers import acceptance, graphs, kv, tuning, weights

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 400), st.floats(),
    st.sampled_from([10**9, 10**18, 10**400]), st.sampled_from(["fp8", "TP8", "FULL", "x", ""]),
    st.lists(st.integers(-2, 600) | st.just(10**12), max_size=4),
)  # fmt: skip
SPEC = st.dictionaries(
    st.sampled_from(["kind", "count", "block_size", "dtype", "num_kv_heads", "head_size", "page_size_bytes"]),
    st.one_of(VALUES, st.sampled_from(["FullAttentionSpec", "SlidingWindowMLASpec", "MambaSpec", "bfloat16"])),
)


def asked(known: Any) -> st.SearchStrategy[dict[str, Any]]:
    keys = st.sampled_from([*known, "unknown"])
    return st.dictionaries(keys, VALUES, max_size=8)


def holds(answer: Any, data: dict[str, Any]) -> None:
    try:
        assert isinstance(answer(data), dict)
    except InputError as error:
        assert all(problem.key for problem in error.problems)


@settings(max_examples=60, deadline=None)
@given(asked(graphs.INPUTS))
def test_graphs(data: dict[str, Any]) -> None:
    holds(graphs.answer, data)


@settings(max_examples=50, deadline=None)
@given(asked(set(kv.INPUTS) - {"model"}), st.lists(st.one_of(SPEC, VALUES), max_size=3))
def test_kv(data: dict[str, Any], layers: list[Any]) -> None:
    holds(kv.answer, {**data, "layers": layers})


@settings(max_examples=25, deadline=None)
@given(asked(set(kv.INPUTS) - {"layers", "settings"}))
def test_kv_of_a_model(data: dict[str, Any]) -> None:
    holds(kv.answer, {**data, "model": "gpt-oss-20b"})


@settings(max_examples=20, deadline=None)
@given(asked(set(weights.INPUTS) - {"model"}))
def test_weights(data: dict[str, Any]) -> None:
    holds(weights.answer, {**data, "model": "gpt-oss-20b"})


@settings(max_examples=50, deadline=None)
@given(asked(tuning.INPUTS), asked(tuning.SELECTOR_INPUTS))
def test_tuning(data: dict[str, Any], selector: dict[str, Any]) -> None:
    holds(lambda given_: tuning.answer(given_, ()), data)
    holds(lambda given_: tuning.answer({**given_, "mtpr": 128}, ()), selector)


@settings(max_examples=60, deadline=None)
@given(asked(acceptance.INPUTS))
def test_acceptance(data: dict[str, Any]) -> None:
    holds(lambda given_: acceptance.answer(given_, ()), data)


def test_a_layer_that_is_no_object() -> None:
    with pytest.raises(InputError, match=r"layers\[0\]"):
        kv.answer({"layers": [3], "max_model_len": 1})
