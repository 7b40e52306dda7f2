from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.publish.report import sample

from ridgeline.core.point import Source
from ridgeline.publish.report import slots

KEYS = st.lists(st.text(max_size=12), max_size=25)


@given(KEYS)
@settings(max_examples=60)
def test_slots_do_not_depend_on_the_order_and_are_distinct_up_to_ten(keys: list[str]) -> None:
    given_slots = slots.assign(keys)
    assert given_slots == slots.assign(reversed(keys))
    assert set(given_slots) == set(keys)
    assert all(1 <= slot <= slots.SLOTS for slot in given_slots.values())
    assert len(set(given_slots.values())) == min(len(set(keys)), slots.SLOTS)


@given(KEYS)
@settings(max_examples=40)
def test_a_slot_once_given_stays(keys: list[str]) -> None:
    before = slots.assign(keys[: len(keys) // 2])
    after = slots.assign(keys, before)
    assert {key: after[key] for key in before} == before


def test_a_generator_of_keys_is_read_once() -> None:
    assert slots.assign(key for key in ("a", "b")).keys() == {"a", "b"}


def test_a_series_looks_the_same_in_every_workload() -> None:
    points = sample.ladder("h200", "vllm") + sample.ladder("h200", "vllm", scenario=sample.AGENTIC)
    shown = slots.shown(points)
    assert len(shown) == 2
    assert len({series.slot for series in shown}) == 1


def test_names_say_what_differs() -> None:
    shown = slots.shown(sample.ladder("b200", "vllm") + sample.ladder("b200", "sglang", precision="fp4"))
    assert sorted(series.name for series in shown) == ["B200 · SGLang · FP4", "B200 · vLLM · FP8"]
    assert [series.name for series in slots.shown(sample.ladder("b200", "vllm"))] == ["B200 · vLLM"]


def test_measured_series_come_first() -> None:
    points, _ = sample.every_state()
    sources = [series.source for series in slots.shown(points)]
    assert sources == sorted(sources, key=lambda text: list(Source).index(Source(text)))
