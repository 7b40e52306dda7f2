from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.spec.yaml_bytes import SETTINGS

from ridgeline.core.errors import InputError
from ridgeline.spec.settings import Settings, from_document, load_settings
from ridgeline.spec.tree import parse


def read(text: str) -> Settings:
    return from_document(parse(text.encode(), "here/ridgeline.yaml"))


def test_everything_that_can_be_set() -> None:
    settings = read(SETTINGS)
    fleet = settings.fleet("cluster:h200-a")
    assert fleet is not None
    assert (fleet.gpu, fleet.gpus_per_node, fleet.free_memory_gib) == ("h200", 8, 138.5)
    assert fleet.observed == datetime.date(2026, 9, 1)
    assert fleet.scheduler == {"partition": "a"}
    assert fleet.where is not None
    assert fleet.where.line == 2
    assert settings.model("Qwen/Qwen3-8B", "qwen3") == Path("here/models/qwen3/config.json"), "relative to the file"
    assert settings.model("other", "other") is None
    override = settings.recipe("qwen3-x/1k1k/TP1/c4")
    assert override is not None
    assert override.recipe == "mine.py:build"
    assert settings.price("cluster:h200-a") == 2.5
    assert settings.price("h200") == 2.5, "the GPU of a built-in label"
    assert settings.price("h100") is None


def test_a_waiver_ends_after_its_day_and_matches_rule_and_cell() -> None:
    settings = read("waivers: [{rule: M1, cells: 'a/*', reason: known, until: 2026-12-31}]")
    last, after = datetime.date(2026, 12, 31), datetime.date(2027, 1, 1)
    assert settings.waiver("M1", "a/1k1k/TP1/c4", last) is not None
    assert settings.waiver("M1", "a/1k1k/TP1/c4", after) is None
    assert settings.waiver("M2", "a/1k1k/TP1/c4", last) is None
    assert settings.waiver("M1", "b/1k1k/TP1/c4", last) is None


def test_without_a_file_the_labels_speak() -> None:
    settings = load_settings()
    known = settings.fleet("cluster:gb300-nv")
    assert known is not None
    assert (known.gpu, known.gpus_per_node, known.free_memory_gib) == ("gb300", 4, None)
    observed = settings.fleet("cluster:mi355x-amds")
    assert observed is not None
    assert (observed.free_memory_gib, observed.observed) == (256.0, datetime.date(2026, 8, 20))
    assert settings.fleet("cluster:unheard-of") is None


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("priecs: {}", "priecs", "did you mean `prices`?"),
        ("fleets: {a: {gpu: h200, gpus-per-node: 8, free-memory-gib: 3}}", "fleets.a.observed", "say when it was seen"),
        ("fleets: {a: {gpu: 3, gpus-per-node: 8}}", "fleets.a.gpu", "must be text"),
        ("waivers: [{rule: a, cells: b, reason: c}]", "waivers[0].until", "is required and missing"),
        ("waivers: [{rule: a, cells: b, reason: '', until: 2026-01-01}]", "waivers[0].reason", "not empty"),
        ("waivers: [{rule: a, cells: b, reason: c, until: 2026-13-01}]", "waivers[0].until", "must be a date like"),
        ("waivers: [{rule: a, cells: b, reason: c, until: soon}]", "waivers[0].until", "must be a date like"),
        ("prices: {h200: -1}", "prices.h200", "0 or more"),
        ("prices: {h200: .inf}", "prices.h200", "0 or more"),
        ("models: [a]", "models", "must be a mapping"),
    ],
)
def test_what_is_refused(text: str, key: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    hits = [problem for problem in caught.value.problems if problem.key == key]
    assert any(says in str(problem) for problem in hits), str(caught.value)


def test_sections_may_be_left_empty() -> None:
    settings = read("fleets:\nmodels:\nrecipes:\nwaivers:\nprices:\n")
    assert (settings.fleets, settings.models, settings.recipes, settings.waivers, settings.prices) == (
        {},
        {},
        (),
        (),
        {},
    )
