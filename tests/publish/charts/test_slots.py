from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.publish.report import sample

from ridgeline.core.point import Source
from ridgeline.publish.charts import slots

KEYS = st.lists(st.text("ab/-\u00e9", max_size=4), max_size=25)  # short: colours must repeat, and so must keys
CHARTS = st.lists(KEYS, max_size=4)


@given(KEYS)
@settings(max_examples=40)
def test_slots_do_not_depend_on_the_order_and_are_distinct_up_to_ten(keys: list[str]) -> None:
    given_slots = slots.assign([keys])
    assert given_slots == slots.assign([list(reversed(keys))])
    assert set(given_slots) == set(keys)
    colours = {slots.colour_of(look) for look in given_slots.values()}
    assert all(1 <= colour <= slots.SLOTS for colour in colours)
    assert len(colours) == min(len(set(keys)), slots.SLOTS)
    looks = {(slots.colour_of(look), slots.shape_of(look)) for look in given_slots.values()}
    assert len(looks) == len(set(keys))  # colour and shape together tell all of them apart


@given(CHARTS)
@settings(max_examples=40)
def test_what_is_seen_together_never_shares_a_slot_needlessly(charts: list[list[str]]) -> None:
    given_slots = slots.assign(charts)
    neighbours = {key: set().union(*(chart for chart in charts if key in chart)) for key in given_slots}
    for chart in charts:
        if all(len(neighbours[key]) <= slots.SLOTS for key in chart):
            assert len({slots.colour_of(given_slots[key]) for key in chart}) == len(set(chart))
        assert len({given_slots[key] for key in chart}) == len(set(chart))


@given(KEYS)
@settings(max_examples=40)
def test_a_slot_once_given_stays(keys: list[str]) -> None:
    before = slots.assign([keys[: len(keys) // 2]])
    after = slots.assign([keys], before)
    assert {key: after[key] for key in before} == before


def test_a_lonely_key_takes_the_slot_of_its_hash() -> None:
    digest = int(hashlib.sha256(b"h200/vllm/fp8/measured").hexdigest(), 16)
    assert slots.assign([["h200/vllm/fp8/measured"]]) == {"h200/vllm/fp8/measured": digest % 10 + 1}


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


def test_every_colour_comes_with_every_shape_before_a_look_repeats() -> None:
    looks = [(slots.colour_of(look), slots.shape_of(look)) for look in range(1, 101)]
    assert len(set(looks)) == 100 and looks[:10] == [(n, n) for n in range(1, 11)]
