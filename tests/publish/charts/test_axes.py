from __future__ import annotations

import pytest
from tests.publish.report import sample

from ridgeline.core.point import Measure
from ridgeline.publish.charts import axes
from ridgeline.results.metrics import METRICS


@pytest.mark.parametrize(
    ("key", "label", "said", "unit"),
    [
        ("interactivity.p50", "Interactivity, median", "median interactivity", "tok/s/user"),
        ("throughput_per_gpu.total", "Total throughput per GPU", "total throughput per GPU", "tok/s/GPU"),
        ("ttft.p90", "Time to first token, p90", "p90 time to first token", "s"),
        ("goodput", "Goodput", "goodput", "req/s"),
        ("kv_usage.peak", "Peak KV cache use", "peak KV cache use", "ratio"),
    ],
)
def test_measures_are_called_what_people_call_them(key: str, label: str, said: str, unit: str) -> None:
    about = axes.describe(key)
    assert (about["label"], about["said"], about["unit"]) == (label, said, unit)


def test_every_measure_of_the_register_can_be_described() -> None:
    for metric in METRICS.values():
        for key in metric.measures:
            about = axes.describe(key)
            assert about["label"] and about["formula"] == metric.formula and about["better"] == metric.better


def test_an_unknown_measure_is_called_by_its_key_and_is_no_axis() -> None:
    about = axes.describe("odd_thing.p50", "furlongs")
    assert (about["title"], about["unit"], about["better"]) == ("odd thing", "furlongs", None)
    odd = sample.point(sample.cell("h200", "vllm", 2, 1), measures={"odd_thing.p50": Measure(1.0, "furlongs")})
    assert "odd_thing.p50" not in axes.offered([odd]).x + axes.offered([odd]).y


def test_a_measure_nobody_has_is_not_offered() -> None:
    gone = Measure(None, "s", reason="not asked for")
    points = [sample.point(sample.cell("h200", "vllm", 2, c), measures={"ttft.p90": gone}) for c in (1, 2)]
    assert "ttft.p90" not in axes.offered(points).x
    assert "ttft.p50" in axes.offered(points).x


def test_agentic_sessions_open_with_the_slow_tail() -> None:
    assert axes.usual(sample.ladder("h200", "vllm"))["x"] == "interactivity.p50"
    assert axes.usual(sample.ladder("h200", "vllm", scenario=sample.AGENTIC))["x"] == "interactivity.p90"


def test_the_usual_axis_is_one_with_values() -> None:
    gone = Measure(None, "tok/s/user", reason="too few requests")
    cell = sample.cell("h200", "vllm", 2, 1, scenario=sample.AGENTIC)
    only_median = sample.point(cell, measures={"interactivity.p90": gone})
    assert axes.usual([only_median])["x"] in axes.offered([only_median]).x
    assert axes.usual([]) == {"x": None, "y": None}


def test_statistics_nobody_reads_stay_out_of_the_page() -> None:
    point = sample.point(sample.cell("h200", "vllm", 2, 1), measures={"ttft.p25": Measure(0.1, "s")})
    assert "ttft.p25" not in axes.measures([point])
    assert "throughput_per_gpu.total" in axes.measures([point])
