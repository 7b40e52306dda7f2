from __future__ import annotations

import json
import shlex
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest
from tests.publish.report import sample

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.point import Measure, Validity
from ridgeline.core.where import Where
from ridgeline.publish.charts.data import again, packed, page_data
from ridgeline.results.frontier import frontier
from ridgeline.results.metrics import axis
from ridgeline.results.runfolder import Failure


def data(points: Any, failures: Any = (), **more: Any) -> dict[str, Any]:
    return page_data(points, failures, header=sample.HEADER, **more)


def test_membership_is_the_frontier_function_s_for_every_offered_pair() -> None:
    points, failed = sample.every_state()
    page = data(points, failed)
    ids = [point["id"] for point in page["points"]]
    assert len(page["fronts"]) == len(page["axes"]["x"]) * len(page["axes"]["y"])
    for pair, front in page["fronts"].items():
        x, y = pair.split("|")
        answer = frontier(points, axis(x), axis(y), mix_sources=True)
        assert [[ids[i] for i in line] for line in front["lines"]] == [list(s.frontier) for s in answer.series]
        assert {ids[i]: ids[by] for i, by in enumerate(front["by"]) if by >= 0} == answer.dominated_by


def test_no_line_joins_two_series_or_sources_and_degraded_points_are_on_none() -> None:
    points, failed = sample.every_state()
    page = data(points, failed)
    for front in page["fronts"].values():
        for line in front["lines"]:
            assert len({page["points"][i]["s"] for i in line}) == 1
            assert all(page["points"][i]["validity"] in ("valid", "unproven") for i in line)


def test_every_point_is_there_and_says_what_is_missing_and_why() -> None:
    points, failed = sample.every_state()
    page = data(points, failed)
    assert [point["id"] for point in page["points"]] == [point.id for point in points]
    without = [point for point in page["points"] if "interactivity.p50" not in point["v"]]
    assert [point["why"]["interactivity.p50"] for point in without] == [
        "Fewer than 20 requests finished in the window."
    ]
    assert len(page["absent"]) == len(failed)
    assert {item["reason"] for item in page["absent"]} == {item.reason for item in failed}


def test_a_zero_stays_a_zero_and_a_missing_value_never_becomes_one() -> None:
    cell = sample.cell("h200", "vllm", 2, 1)
    gone = Measure(None, "req/s", reason="no limits were given")
    point = sample.point(cell, measures={"request_rate": Measure(0.0, "req/s"), "goodput": gone})
    [shown] = data([point])["points"]
    assert shown["v"]["request_rate"] == 0
    assert "goodput" not in shown["v"] and shown["why"]["goodput"] == "no limits were given"


def test_infinity_is_named_and_not_written() -> None:
    cell = sample.cell("h200", "vllm", 2, 1)
    [shown] = data([sample.point(cell, measures={"goodput": Measure(float("inf"), "req/s")})])["points"]
    assert "not a finite number" in shown["why"]["goodput"]
    json.dumps(packed(data([sample.point(cell)])), allow_nan=False)


def test_packing_loses_nothing() -> None:
    points, failed = sample.every_state()
    page = data(points, failed)
    wire = json.loads(json.dumps(packed(page), allow_nan=False))
    for before, after in zip(page["points"], wire["points"], strict=True):
        assert {k: v for k, v in zip(wire["keys"], after["v"], strict=True) if v is not None} == before["v"]
        assert {wire["keys"][k]: wire["reasons"][r] for k, r in after["why"]} == before["why"]


def test_the_chart_with_most_points_opens_and_workloads_never_mix() -> None:
    page = data(sample.emulated_points())
    assert [subject["said"] for subject in page["subjects"]] == ["8k in, 1k out", "recorded agent sessions"]
    for front in page["fronts"].values():
        for line in front["lines"]:
            assert len({page["points"][i]["subject"] for i in line}) == 1


def test_a_failure_belongs_to_the_chart_of_its_neighbours() -> None:
    points = sample.emulated_points()
    cell = sample.cell("h200", "emulated", 2, 512, scenario=sample.AGENTIC)
    failure = Failure(run_key="k", name=cell.name, line=cell.line, concurrency=512, layer="launch", message="no port")
    lonely = replace(failure, name="something else")
    one, other = data(points, [failure, lonely])["absent"]
    assert (one["subject"], one["code"], one["reason"], one["name"]) == (1, "failed", "launch: no port", "c512")
    assert other["subject"] is None


def test_launch_commands_come_with_their_origins_but_no_path_of_a_disk() -> None:
    point = sample.point(sample.cell("h200", "vllm", 2, 1))
    argv = (Item("vllm"), Item("two words", Where("/home/me/recipes/generic.py", 31)))
    service = Service("engine", argv, env=(("HF_HOME", Item("/models")),))
    deployment = Deployment((service,), "engine", "model", "vllm")
    [shown] = data([point], deployments={point.run_key: deployment})["points"]
    assert shown["launch"] == [
        {
            "service": "engine",
            "env": [["HF_HOME=/models", ""]],
            "argv": [["vllm", ""], ["'two words'", "generic.py:31"]],
        }
    ]


def test_the_command_of_the_run_can_be_pasted() -> None:
    assert data([])["run"]["commands"][0]["text"] == (
        "ridgeline sweep benchmarks/sample.yaml --trace 'two words.jsonl'"
    )


def test_one_point_can_be_run_again_on_its_own() -> None:
    odd = replace(
        sample.HEADER, command=("ridgeline", "sweep", "a.yaml", "--out", "runs/a", "--cells=*", "--seed", "1")
    )
    assert again(odd, "a/8k1k/TP2/c1") == "ridgeline sweep a.yaml --seed 1 --cells a/8k1k/TP2/c1 --out runs/again"
    words = shlex.split(again(odd, "a[1]*/8k1k/TP2/c1"))
    assert fnmatchcase("a[1]*/8k1k/TP2/c1", words[words.index("--cells") + 1])
    assert not fnmatchcase("a1x/8k1k/TP2/c1", words[words.index("--cells") + 1])


def test_a_command_that_cannot_choose_cells_is_not_bent() -> None:
    for command in ((), ("ridgeline", "results", "import"), ("make", "demo")):
        assert again(replace(sample.HEADER, command=command), "a/8k1k/TP2/c1") == ""


def test_reasons_and_cautions_travel() -> None:
    points, _ = sample.every_state()
    page = data(points)
    degraded = [point for point in page["points"] if point["validity"] == Validity.DEGRADED]
    assert degraded and all(point["reasons"] for point in degraded)
    assert [c["code"] for point in page["points"] for c in point["cautions"]] == ["W204"]


def test_repeats_of_a_cell_are_one_point_with_bars_and_the_lucky_one_leads_no_frontier() -> None:
    ladder = sample.ladder("b200", "vllm")
    first = ladder[0]
    y = first.measures["throughput_per_gpu.total"]
    again = [
        replace(
            first,
            id=f"{first.id}.{n}",
            measures={**first.measures, "throughput_per_gpu.total": Measure(by * (y.value or 0), y.unit)},
        )
        for n, by in enumerate((1.3, 0.7))
    ]
    told = packed(page_data([*ladder, *again], [], header=sample.HEADER))
    assert len(told["points"]) == len(ladder)
    [mine] = [p for p in told["points"] if p["id"] == first.id]
    at = told["keys"].index("throughput_per_gpu.total")
    assert mine["repeats"] == 3 and mine["v"][at] == pytest.approx(y.value)
    [bar] = [bar for bar in mine["bars"] if bar[0] == at]
    assert bar[1:] == pytest.approx([0.7 * (y.value or 0), 1.3 * (y.value or 0)])
    assert all("bars" not in p and "repeats" not in p for p in told["points"] if p["id"] != first.id)


def test_a_laid_over_run_is_never_a_repeat_of_the_official_one() -> None:
    ladder = sample.ladder("b200", "vllm")
    over = [replace(point, id=f"{point.id}~over", series=f"{point.series}/unofficial:x") for point in ladder]
    told = page_data([*ladder, *over], [], header=sample.HEADER)
    assert len(told["points"]) == 2 * len(ladder) and all(p["repeats"] == 1 for p in told["points"])
