from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.publish.report import sample as report
from tests.publish.web import sample

from ridgeline.core.point import Measure
from ridgeline.publish.web.chart import Asked, chart, priced, settle, thinned
from ridgeline.publish.web.data import Library
from ridgeline.publish.web.question import Question
from ridgeline.results.cost.prices import of_gpu_hours
from ridgeline.results.frontier import frontier
from ridgeline.results.metrics import axis


def asked(*shelves: Any, question: Question | None = None, overlays: Any = ()) -> tuple[Asked, dict[str, Any]]:
    library = Library(shelves, overlays)
    found = settle(library, question or Question())
    return found, chart(found, question or Question())


def test_membership_is_the_frontier_function_s() -> None:
    found, data = asked(sample.every_state())
    ids = [point["id"] for point in data["points"]]
    answer = frontier(found.points, axis(found.x or ""), axis(found.y or ""), mix_sources=True)
    [front] = data["fronts"].values()
    assert [[ids[i] for i in line] for line in front["lines"]] == [list(s.frontier) for s in answer.series]
    assert {ids[i]: ids[by] for i, by in enumerate(front["by"]) if by >= 0} == answer.dominated_by
    assert data["keys"][:2] == [found.x, found.y]


def test_a_laid_over_run_never_blends_into_an_official_frontier() -> None:
    points, _ = report.every_state()
    strong = sample.scaled([p for p in points if p.source == "measured"], 10.0, "2026-04-01T00:00:00+00:00")
    alone, before = asked(sample.every_state())
    over = sample.shelf(sample.run("theirs", strong))
    found, data = asked(sample.every_state(), question=Question(overlay=("theirs",)), overlays=[over])
    [front], [plain] = data["fronts"].values(), before["fronts"].values()
    official = [series["key"] for series in data["series"] if not series["overlay"]]
    assert sorted(official) == sorted(series["key"] for series in before["series"])
    kept = [line for line in front["lines"] if not data["series"][data["points"][line[0]]["s"]]["overlay"]]

    def members(page: dict[str, Any], lines: list[list[int]]) -> list[list[str]]:
        return sorted([page["points"][i]["id"] for i in line] for line in lines)

    assert members(data, kept) == members(before, plain["lines"])
    laid = {p["id"] for p in data["points"] if data["series"][p["s"]]["overlay"]}
    assert len(laid) == len(strong) and all(id.endswith("~over") for id in laid)
    assert found.overlays == (("theirs", "theirs", len(strong)),) and alone.overlays == ()


def test_an_overlay_keeps_the_slots_of_the_others() -> None:
    _, before = asked(sample.every_state())
    over = sample.shelf(sample.run("theirs", report.ladder("gb200", "vllm")))
    _, data = asked(sample.every_state(), question=Question(overlay=("theirs",)), overlays=[over])
    slots = {series["key"]: series["slot"] for series in data["series"]}
    assert all(slots[series["key"]] == series["slot"] for series in before["series"])


def test_what_is_asked_in_vain_is_said() -> None:
    question = Question(
        channel="published", model="M", on="w", x="nonsense", y="throughput.total", run=None, overlay=("no",)
    )
    found, _ = asked(sample.every_state(), question=question)
    assert len(found.notices) == 6
    assert found.x == "interactivity.p50" and found.holding.channel == "local"


def test_an_empty_library_has_a_chart() -> None:
    found, data = asked(sample.shelf())
    assert found.x is None and data["points"] == [] and data["models"] == []


def test_the_newest_run_gives_the_whole_line_and_runs_are_not_stitched() -> None:
    points = report.ladder("h200", "vllm", tps=(2,))
    older = sample.run("older", points, at="2026-01-01T00:00:00+00:00")
    newer = sample.run(
        "newer", sample.scaled(points[:3], 2.0, "2026-06-01T00:00:00+00:00"), at="2026-06-01T00:00:00+00:00"
    )
    found, _ = asked(sample.shelf(older, newer))
    assert len(found.points) == 3 and {p.id.split("~")[0] for p in found.points} == {"newer"}
    one, _ = asked(sample.shelf(older, newer), question=Question(run="older"))
    assert len(one.points) == len(points)


def test_a_run_that_goes_on_does_not_shorten_a_finished_line() -> None:
    from ridgeline.publish.web.data import Now

    points = report.ladder("h200", "vllm", tps=(2,))
    older = sample.run("older", points, at="2026-01-01T00:00:00+00:00")
    again = sample.scaled(points[:1], 2.0, "2026-06-01T00:00:00+00:00")
    going = sample.run("going", again, at="2026-06-01T00:00:00+00:00", live=Now())
    found, _ = asked(sample.shelf(older, going))
    assert len(found.points) == len(points)


def test_thinning_keeps_the_frontier_and_counts_the_rest() -> None:
    base = report.point(report.cell("h200", "vllm", 2, 1))
    many = tuple(
        replace(
            base,
            id=f"p{i}",
            measures={"a": Measure(1 + (i % 70), "s"), "interactivity.p50": Measure(1 + i % 97, "tok/s/user"),
                      "throughput_per_gpu.total": Measure(1 + (i * 7919) % 1013, "tok/s/GPU")},
        )
        for i in range(4000)
    )  # fmt: skip
    axes = ("interactivity.p50", "throughput_per_gpu.total")
    kept = thinned(many, *axes, most=300)
    whole = frontier(many, axis(axes[0]), axis(axes[1]))
    part = frontier(kept.points, axis(axes[0]), axis(axes[1]))
    assert part.members == whole.members
    assert kept.left_out == len(many) - len(kept.points) > 0 and len(kept.points) <= 300
    assert thinned(many, *axes, most=5000) == (many, 0)


def test_prices_make_costs_and_a_missing_price_is_a_reason() -> None:
    h200 = report.point(report.cell("h200", "vllm", 2, 4))
    b200 = report.point(report.cell("b200", "vllm", 2, 4))
    one, other = priced((h200, b200), of_gpu_hours("ours", {"h200": 2.31}))
    speed = h200.value("throughput_per_gpu.output") or 0
    assert abs((one.value("dollars_per_million.output") or 0) - 2.31e6 / (3600 * speed)) < 1e-9
    assert other.value("dollars_per_million.output") is None and "b200" in (
        other.measures["dollars_per_million.output"].reason or ""
    )
    assert priced((h200,), None) == (h200,)


def test_a_known_cost() -> None:
    point = report.point(
        report.cell("h200", "vllm", 2, 4), measures={"throughput_per_gpu.total": Measure(83_332.0, "tok/s/GPU")}
    )
    [one] = priced((point,), of_gpu_hours("ours", {"h200": 2.31}))
    assert round(one.value("dollars_per_million.total") or 0, 4) == 0.0077
