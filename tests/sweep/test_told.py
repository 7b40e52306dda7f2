"""Points measured before tell how wrong predictions of their engine are, whatever their lengths."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.fit import predict
from ridgeline.simulate.points import read_points
from ridgeline.sweep.deploy import SHIPPED
from ridgeline.sweep.spending import series_among
from ridgeline.sweep.told import told_by

HEADER = (
    "hardware,framework,model,precision,spec_method,disagg,decode_tp,decode_ep,decode_dp_attention,"
    "isl,osl,conc,median_tpot_s,tput_per_gpu\n"
)
BENCHMARK = Benchmark(
    key="k", image="vllm/vllm-openai:v0.11.0", model="openai/gpt-oss-120b", model_prefix="gptoss", precision="fp4",
    framework="vllm", runner="h200",
)  # fmt: skip
CELL = Cell(BENCHMARK, Scenario("fixed-seq-len", isl=1024, osl=1024), Arm(topology=Topology(2)), 16)


def table(folder: Path, rows: list[tuple[str, str, int, int, int]], slower: float = 1.0) -> Path:
    """Points that are `slower` than predicted by this factor."""
    path = folder / "points.csv"
    lines = [
        f"{gpu},vllm,{model},fp4,none,False,{tp},1,False,{isl},1024,{conc},0.01,100"
        for gpu, model, tp, isl, conc in rows
    ]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    said = [predict(point, parameters_for("h200", "vllm"), {}) for point in read_points(path)]
    lines = [
        f"{line.rsplit(',', 2)[0]},{each.tpot_s * slower!r},{each.tput_per_gpu / slower!r}"
        for line, each in zip(lines, said, strict=True)
    ]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return path


def test_errors_of_the_same_engine_under_its_own_and_other_lengths(tmp_path: Path) -> None:
    rows = [("h200", "gptoss120b", 2, 8192, 16), ("h200", "gptoss120b", 4, 1024, 64), ("h200", "llama70b", 2, 8192, 16)]
    (series,) = (among := series_among([CELL]))
    known = told_by([table(tmp_path, rows, 1.25)], among, SHIPPED)[series]
    assert [(k.place.layout, k.place.conc, k.place.lengths) for k in known] == [
        ("TP2", 16, "8192/1024"),
        ("TP4", 64, ""),
    ]
    for each in known:
        assert (each.x, each.y) == (pytest.approx(-math.log(1.25)), pytest.approx(-math.log(1.25)))


def test_another_precision_or_gpu_tells_nothing(tmp_path: Path) -> None:
    path = table(tmp_path, [("h200", "gptoss120b", 2, 8192, 16)])
    for other in (replace(BENCHMARK, precision="bf16"), replace(BENCHMARK, runner="b200")):
        among = series_among([replace(CELL, benchmark=other)])
        assert not any(told_by([path], among, SHIPPED).values())
    assert told_by([], series_among([CELL]), SHIPPED) == {}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        told_by([tmp_path / "none.csv"], series_among([CELL]), SHIPPED)
    assert "none.csv" in str(caught.value.problems[0].where)
