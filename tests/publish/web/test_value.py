"""Accuracy, power and cost: what is read at a speed, in which order, and what is said where a number is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.publish.report import sample as report
from tests.publish.web import sample
from tests.publish.web.client import Client, client

from ridgeline.core.point import Measure, Point, Source, Validity
from ridgeline.publish.web import accuracypage, costpage
from ridgeline.results.cost import PriceSheet
from ridgeline.results.cost.prices import of_gpu_hours


def score(
    line: str, value: float | None, error: float | None = 0.01, task: str = "gsm8k", source: str = "measured"
) -> dict[str, object]:
    return {
        "run": "r",
        "run_name": "nightly",
        "task": task,
        "metric": "em",
        "score": value,
        "stderr": error,
        "n": 100,
        "line": line,
        "concurrency": 64,
        "measured_at": "2026-01-02T00:00:00+00:00",
        "source": source,
    }


def sheet(hours: dict[str, float]) -> PriceSheet:
    return of_gpu_hours("prices", hours)


def curve(name: str, pairs: list[tuple[float, float]], **facts: object) -> list[Point]:
    """A series of measured points with interactivity and total throughput."""
    points, _ = report.every_state()
    base = next(p for p in points if p.source is Source.MEASURED and p.validity is Validity.VALID)
    return [
        replace(
            base,
            id=f"{name}{n}",
            run_key=f"{name}{n}",
            series=name,
            line=f"{name}/s/a",
            concurrency=n,
            facts={**base.facts, "runner": name, "hardware": name, **facts},
            measures={
                "interactivity.p50": Measure(x, "tok/s/user"),
                "throughput_per_gpu.total": Measure(y, "tok/s/GPU"),
                "throughput_per_gpu.output": Measure(y / 9, "tok/s/GPU"),
            },
        )
        for n, (x, y) in enumerate(pairs, 1)
    ]


def test_a_point_that_was_run_reads_as_measured_and_dollars_follow_from_it() -> None:
    points = curve("b200", [(20, 2000), (40, 1000), (80, 300)])
    [row] = costpage.rows(points, "interactivity.p50", 40.0, sheet({"b200": 3.6}))
    assert row["throughput"]["total"] == 1000
    assert row["dollars_per_million"]["total"] == pytest.approx(3.6 * 1e6 / (3600 * 1000))
    assert row["dollars_per_million"]["output"] == pytest.approx(9.0)
    assert row["point"]["id"] == "b2002"


def test_nothing_is_read_beyond_what_was_run() -> None:
    [row] = costpage.rows(curve("a", [(20, 2000), (40, 1000)]), "interactivity.p50", 41.0, sheet({"a": 1.0}))
    assert row["throughput"]["total"] is None and "outside the measured range 20 to 40" in row["why"]
    assert row["dollars_per_million"]["total"] is None and row["point"] is None


def test_the_cheapest_comes_first_then_the_unpriced_then_those_not_measured_there() -> None:
    points = [
        *curve("far", [(1, 9000), (2, 8000)]),
        *curve("dear", [(10, 1000), (50, 500)]),
        *curve("free", [(10, 4000), (50, 2000)]),
        *curve("cheap", [(10, 900), (50, 450)]),
    ]
    found = costpage.rows(points, "interactivity.p50", 20.0, sheet({"dear": 10.0, "cheap": 1.0, "far": 1.0}))
    assert [row["series"] for row in found] == ["cheap", "dear", "free", "far"]
    assert "is cheapest: $" in costpage.sentence(found, 20.0)


def test_the_first_speed_is_one_that_most_series_span() -> None:
    points = [*curve("a", [(15, 10), (70, 5)]), *curve("b", [(30, 10), (70, 5)]), *curve("c", [(55, 10), (70, 5)])]
    assert costpage.usual_speed(costpage.lines(points, "interactivity.p50")) == 60.0
    assert costpage.usual_speed([]) in costpage.SPEEDS


def test_power_is_that_of_a_point_that_was_run_or_has_a_reason() -> None:
    points = curve("a", [(20, 2000), (40, 1000)])
    points[1] = replace(points[1], measures={**points[1].measures, "power.avg_power_w": Measure(700.0, "W/GPU")})
    [row] = costpage.rows(points, "interactivity.p50", 30.0, None)
    assert row["point"]["avg_power_w"] == {"value": 700.0, "why": costpage.NO_POWER}
    assert row["point"]["joules_per_output_token"]["value"] is None
    assert costpage.with_power(points) == 1


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=40), st.floats(0, 0.2))
def test_marks_stay_on_the_scale_and_scores_fall(values: list[float | None], error: float) -> None:
    [group] = accuracypage.groups([score(f"l{i}", value, error) for i, value in enumerate(values)])
    scored = [row["score"] for row in group["rows"] if row["score"] is not None]
    assert scored == sorted(scored, reverse=True) and len(group["rows"]) == len(values)
    assert all(row["mark"] is None for row in group["rows"][len(scored) :])
    for row in group["rows"][: len(scored)]:
        assert all(0 <= row["mark"][key] <= accuracypage.WIDTH for key in ("at", "from", "to") if key in row["mark"])
    below = sum(row["mark"]["below"] for row in group["rows"][: len(scored)])
    assert below <= len(scored) / 20


def test_words_choose_evaluations_and_tasks_stay_apart() -> None:
    rows = [score("m-h200/TP8", 0.9), score("m-b200/TP8", 0.8), score("m-b200/TP8", 0.4, task="gpqa")]
    assert [(g["task"], len(g["rows"])) for g in accuracypage.groups(rows)] == [("gpqa", 1), ("gsm8k", 2)]
    assert [len(g["rows"]) for g in accuracypage.groups(rows, "B200 gsm8k")] == [1]
    assert "3 scores of 2 configurations on 2 tasks" in accuracypage.sentence(accuracypage.groups(rows))


@pytest.fixture(scope="module")
def served() -> Client:
    points, _ = report.every_state()
    scored = [score("m/TP8", 0.93), score("m/TP4", None)]
    return client(
        sample.shelf(sample.run("main", points, evaluations=scored)), prices=sheet({"b200": 2.5, "h200": 2.5})
    )


def test_evaluations_reach_page_and_interface(served: Client) -> None:
    page = served.get("/accuracy")
    assert page.status_code == 200 and "0.9300" in page.text and "not scored" in page.text
    assert 'href="/runs/main"' in page.text  # the shelf names the run, not the file it came with
    assert "nightly" not in page.text
    answer = served.get("/api/v1/evals").json()["evaluations"]
    assert [one["score"] for one in answer] == [0.93, None]
    assert all(one["source"] == "measured" for one in served.get("/api/v1/evals").json()["evaluations"])
    assert "No evaluation holds all these words" in served.get("/accuracy?q=nothing").text


def test_a_speed_in_the_address_is_read_and_a_wrong_one_noticed(served: Client) -> None:
    answer = served.get("/api/v1/power?at=33").json()
    assert answer["speed"] == 33.0 and answer["measure"].startswith("interactivity.")
    for wrong in ("fast", "-3", "nan", "1e999"):
        told = served.get(f"/api/v1/power?at={wrong}").json()
        assert told["speed"] in costpage.SPEEDS and "“at” is a speed" in told["notices"][0]
    page = served.get("/cost?at=33")
    assert page.status_code == 200 and "33 tokens per second a user" in page.text
