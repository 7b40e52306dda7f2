"""`ridgeline plan --budget`: which cells, in which order, for how many GPU-hours, and what is said of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ridgeline.cli.main import main

SPACE = """\
space:
  image: vllm/vllm-openai:v0.11.0
  model: openai/gpt-oss-120b
  model-prefix: gptoss
  runner: h200
  precision: fp4
  framework: vllm
  multinode: false
  scenarios:
    fixed-seq-len:
    - { isl: 1024, osl: 1024, search-space: [{ tp: 1, conc-list: [4, 64] }, { tp: 8, conc-list: [4, 64] }] }
    - { isl: 8192, osl: 1024, search-space: [{ tp: 1, conc-list: [4, 64] }, { tp: 8, conc-list: [4, 64] }] }
"""
HEADER = "hardware,framework,model,precision,spec_method,disagg,decode_tp,isl,osl,conc,median_tpot_s,tput_per_gpu\n"


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return path


def plan(space: Path, capsys: pytest.CaptureFixture[str], *more: object) -> tuple[list[dict[str, Any]], str]:
    assert main(["plan", str(space), "--json", "--budget", *map(str, more)]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_cells_come_with_what_they_cost_and_promise(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, err = plan(space, capsys, "100%")
    assert {row["cell"].split("/")[1] for row in rows} == {"1k1k", "8k1k"}
    assert all(row["gpu_hours"] > 1 / 6 for row in rows), "a start of ten minutes on one GPU at least"
    assert all(0 < row["gain"] <= 1 and row["x"] > 0 and row["y"] > 0 for row in rows)
    assert f"{len(rows)} of 8 cells, {sum(row['gpu_hours'] for row in rows):.1f} GPU-hours" in err


@pytest.mark.parametrize(("budget", "most", "hours"), [("3", 3, 99), ("1.5h", 8, 1.5), ("30%", 8, 5)])
def test_budgets_hold(budget: str, most: int, hours: float, space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = plan(space, capsys, budget)
    assert 1 <= len(rows) <= most
    assert sum(row["gpu_hours"] for row in rows) <= hours


def test_a_budget_below_one_start_says_what_the_least_costs(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, err = plan(space, capsys, "0.1h")
    assert rows == []
    assert err.count("not chosen: space/") == 2
    assert "TP1/c4, the cheapest of its series, costs 0." in err


def test_measured_points_move_what_is_expected(space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TP1 was measured twenty times slower than it can be, under other lengths: its cells are expected to be slower."""
    points = tmp_path / "points.csv"
    points.write_text(
        HEADER + "".join(f"h200,vllm,gptoss120b,fp4,none,False,1,512,512,{n},0.2,{n * 8}\n" for n in (4, 64))
    )
    plain, told = (
        {row["cell"]: row["x"] for row in plan(space, capsys, "100%", *more)[0]}
        for more in ((), ("--measured", points))
    )
    both = [cell for cell in plain.keys() & told.keys() if "/TP1/" in cell]
    assert both
    assert all(told[cell] < 0.7 * plain[cell] for cell in both)


def test_measured_points_need_a_budget_and_columns(
    space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = tmp_path / "points.csv"
    points.write_text("a,b\n1,2\n")
    assert main(["plan", str(space), "--measured", str(points)]) == 2
    assert "argument --measured: needs --budget" in capsys.readouterr().err
    assert main(["plan", str(space), "--budget", "2", "--measured", str(points)]) == 2
    assert "points.csv:1" in capsys.readouterr().err
