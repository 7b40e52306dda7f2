"""Readings are what was read, and keep the names once."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.readings import Reader

VALUES = st.dictionaries(st.sampled_from("abcdef"), st.floats(allow_nan=False), max_size=5)


@given(st.lists(VALUES, max_size=6))
@settings(max_examples=25, deadline=None)
def test_a_reading_is_the_mapping_it_was_made_of(pages: list[dict[str, float]]) -> None:
    reader = Reader()
    made = [reader.read(page) for page in pages]
    for page, reading in zip(pages, made, strict=True):
        assert reading == page and dict(reading) == page and len(reading) == len(page)
        assert {name: reading[name] for name in reading} == page and ("z" in reading) is False


def test_what_is_not_there_is_no_zero() -> None:
    reading = Reader().read({"a": 0.0})
    with pytest.raises(KeyError):
        reading["b"]
    assert reading.get("b") is None and reading.get("a") == 0.0


def test_a_thousand_readings_take_little_more_than_their_numbers() -> None:
    names = [f'vllm:request_time_seconds_bucket{{le="{k}",model_name="some/long-model-name"}}' for k in range(300)]
    reader = Reader()
    tracemalloc.start()
    kept = [reader.read({f"{name}": float(n) for name in names}) for n in range(1000)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept[7][names[3]] == 7.0 and size < 1000 * 300 * 8 * 1.3
