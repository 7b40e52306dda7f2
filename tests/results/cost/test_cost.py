"""Prices come from a sheet that says whose they are; every number of cost shows its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.results.builders import point

from ridgeline.core.errors import InputError
from ridgeline.core.point import Measure
from ridgeline.results.cost import PriceSheet, TokenPrices, efficiency, load_prices, priced
from ridgeline.results.metrics import axis

SHEET = """\
format: ridgeline.prices
version: 1
name: example
valid_from: 2026-01-31
source: made up for a test
gpu_hours: {H200: 2.0, h200-dgxc: 3.0}
tokens:
  tiny: {input: 1.0, cached_input: 0.1, output: 4.0}
"""


def sheet(tmp_path: Path, text: str = SHEET) -> PriceSheet:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    return load_prices(file)


def a_point(**measures: float) -> Any:
    from dataclasses import replace

    found = point(4, **measures)
    return replace(found, facts={**found.facts, "hardware": "h200", "model_prefix": "tiny"})


RATES = {"throughput_per_gpu.total": 1200.0, "throughput_per_gpu.input": 1000.0, "throughput_per_gpu.output": 200.0}


def test_the_sheet(tmp_path: Path) -> None:
    found = sheet(tmp_path)
    assert found.tokens == {"tiny": TokenPrices(1.0, 4.0, 0.1)} and found.valid_from == "2026-01-31"
    assert [found.gpu_hour(name) for name in ("H200", "h200-nb", "h200-dgxc", "h200-dgxc-2", "b200")] == [
        2,
        2,
        3,
        3,
        None,
    ]
    assert sheet(tmp_path, SHEET.replace("2.0", "2.1")).digest != found.digest


def test_every_problem_of_a_sheet_at_once_with_its_place(tmp_path: Path) -> None:
    text = SHEET.replace("2.0", "-2").replace("output: 4.0", "outpt: 4.0").replace("source:", "sauce:")
    with pytest.raises(InputError) as caught:
        sheet(tmp_path, text)
    found = {problem.key: problem.where.line if problem.where else 0 for problem in caught.value.problems}
    assert found == {"sauce": 5, "source": 0, "gpu_hours.H200": 6, "tokens.tiny": 8}
    with pytest.raises(InputError, match="no such file"):
        load_prices(tmp_path / "nothing")
    with pytest.raises(InputError, match="not YAML"):
        sheet(tmp_path, "a: [")


def test_dollars_and_tokens_are_inverse_and_per_gpu_once(tmp_path: Path) -> None:
    # A worked example of others: 83,332 tok/s/GPU at $2.31 is $0.0077 a million.
    dear = sheet(tmp_path, SHEET.replace("2.0", "2.31"))
    found = efficiency(a_point(**{"throughput_per_gpu.total": 83_332.0}), dear)
    assert found["dollars_per_million.total"].measure.value == pytest.approx(0.0077, abs=5e-6)
    assert found["tokens_per_dollar.total"].measure.value == pytest.approx(3600 * 83_332 / 2.31)
    assert found["tokens_per_dollar.total"].inputs == {
        "throughput_per_gpu.total": 83_332.0,
        "price of a GPU-hour": 2.31,
    }
    assert found["tokens_per_dollar.output"].measure.value is None


def test_revenue_sells_cached_input_at_its_price(tmp_path: Path) -> None:
    found = sheet(tmp_path)
    per_hour = efficiency(a_point(**RATES, server_cache_hit=0.9), found)["revenue_per_gpu_hour"]
    assert per_hour.measure.value == pytest.approx(3600 / 1e6 * (1000 * (0.1 * 1.0 + 0.9 * 0.1) + 200 * 4.0))
    assert per_hour.inputs["cached-input price"] == 0.1 and per_hour.inputs["cache hit"] == 0.9
    unknown = efficiency(a_point(**RATES), found)["revenue_per_gpu_hour"].measure
    assert unknown.value is None and "cache hit rate is not known" in str(unknown.reason)
    without = sheet(tmp_path, SHEET.replace(" cached_input: 0.1,", ""))
    plain = efficiency(a_point(**RATES, server_cache_hit=0.9), without)["revenue_per_gpu_hour"]
    assert plain.measure.value == pytest.approx(3600 / 1e6 * (1000 + 800))


def test_tokens_per_joule_come_from_measured_power() -> None:
    found = efficiency(a_point(**{"power.joules_per_output_token": 8.0}), None)
    assert found["tokens_per_joule.output"].measure.value == 0.125
    assert found["tokens_per_joule.total"].measure.reason == "no power was measured"
    assert found["tokens_per_dollar.total"].measure.reason == "no price sheet was given"
    bad = a_point()
    bad.measures["power.joules_per_total_token"] = Measure(None, "J/tok", reason="sampling_gap_exceeded")
    assert efficiency(bad, None)["tokens_per_joule.total"].measure.reason == "sampling_gap_exceeded"


def test_a_priced_point_names_its_sheet_and_has_axes(tmp_path: Path) -> None:
    found = priced(a_point(**RATES), sheet(tmp_path))
    assert found.value("tokens_per_dollar.output") == 360_000 and found.facts["price_sheet"]["name"] == "example"
    for name in (
        "tokens_per_dollar.output",
        "tokens_per_joule.total",
        "dollars_per_million.input",
        "revenue_per_gpu_hour",
    ):
        assert axis(name).unit == found.measures[name].unit and axis(name).better
