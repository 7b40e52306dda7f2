"""A sweep that picks its next cell from what it measured: against the prediction, within a budget, until noise."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sweep.test_run import FakeStart, cell, deploy, died, sweep_of  # noqa: F401  # a fixture

from ridgeline.core.cell import Cell
from ridgeline.core.point import Measure, Point, Source
from ridgeline.launch.blame import Blame
from ridgeline.sweep import run as sweep_run
from ridgeline.sweep.adaptive import AdaptiveOrder, Budget, parse_budget, refined, unlimited
from ridgeline.sweep.predict import Prediction
from ridgeline.sweep.run import Planned, Summary
from ridgeline.sweep.times import Times

CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64)
CELLS = [cell(n, tp) for tp in (1, 2, 4) for n in CONCURRENCIES]


def truth(c: Cell) -> tuple[float, float]:
    """tokens/s/user and tokens/s/GPU of a cell: more GPUs are faster for a user and worse a GPU."""
    x = 120 * c.gpus**0.5 / (1 + c.concurrency / (8 * c.gpus))
    return x, x * c.concurrency / c.gpus


def point(c: Cell, x: float, y: float) -> Point:
    measures = {
        "interactivity.p50": Measure(x, "tok/s/user"),
        "throughput_per_gpu.total": Measure(y, "tok/s/GPU"),
        "duration": Measure(600.0, "s"),
    }
    return Point(
        id=c.name, run_key=c.name, cell_fingerprint=c.fingerprint, name=c.name, line=c.line, series="s",
        source=Source.EMULATED, concurrency=c.concurrency, gpus=c.gpus, facts={}, measures=measures,
    )  # fmt: skip


def predictions(cells: list[Cell], error: float = 1.0) -> list[Prediction]:
    return [Prediction(c, point(c, truth(c)[0] * error, truth(c)[1] * error), None) for c in cells]


def planned(cells: list[Cell]) -> list[Planned]:
    return [Planned(c, deploy(c)[0], Source.EMULATED, c.name) for c in cells]


def times(at: int) -> Times:
    return Times(600.0, 60.0, 600.0, 10.0)


def run_all(order: AdaptiveOrder, cells: list[Cell]) -> list[Cell]:
    """Measure what it asks for until it asks for nothing."""
    found = []
    while (at := order.next()) is not None:
        assert order.next() == at, "the same until it is done"
        found.append(cells[at - 1])
        order.done(at, point(cells[at - 1], *truth(cells[at - 1])))
    return found


def frontier(cells: list[Cell]) -> dict[float, float]:
    return {
        level: max((truth(c)[1] for c in cells if truth(c)[0] >= level), default=0.0) for level in (20, 40, 60, 100)
    }


def test_it_stops_of_itself_with_most_of_the_frontier() -> None:
    found = run_all(AdaptiveOrder(planned(CELLS), predictions(CELLS), unlimited(), times), CELLS)
    assert len(found) < len(CELLS), "some cells add nothing"
    assert len({c.name for c in found}) == len(found)
    for level, best in frontier(CELLS).items():
        assert frontier(found)[level] >= 0.95 * best, level


def test_a_wrong_prediction_is_corrected_by_what_is_measured() -> None:
    found = run_all(AdaptiveOrder(planned(CELLS), predictions(CELLS, 1.5), unlimited(), times), CELLS)
    for level, best in frontier(CELLS).items():
        assert frontier(found)[level] >= 0.9 * best, level


@pytest.mark.parametrize(("text", "most"), [("5", 5), ("3h", None), ("30%", None)])
def test_a_budget_holds_with_starts(text: str, most: int | None) -> None:
    budget = parse_budget(text)
    found = run_all(AdaptiveOrder(planned(CELLS), predictions(CELLS), budget, times), CELLS)
    assert found
    assert most is None or len(found) <= most
    spent, running = 0.0, None
    for c in found:
        spent += c.gpus * (670 + (0 if c.line == running else 600)) / 3600
        running = c.line
    whole = sum(c.gpus * 670 for c in CELLS) / 3600 + sum(gpus * 600 for gpus in (1, 2, 4)) / 3600
    limit = budget.hours or (budget.share * whole if budget.share else math.inf)
    assert spent <= limit + 1e-9


def test_cells_of_a_running_engine_are_preferred() -> None:
    found = run_all(
        AdaptiveOrder(planned(CELLS), predictions(CELLS), unlimited(), lambda at: Times(36000, 1, 60, 1)), CELLS
    )
    starts = sum(a.line != b.line for a, b in itertools.pairwise(found))
    assert starts <= 2, "three engines, each started once"


def test_stored_points_teach_and_cost_nothing() -> None:
    stored = {3: point(CELLS[2], *truth(CELLS[2]))}
    order = AdaptiveOrder(planned(CELLS), predictions(CELLS), Budget(cells=4), times, stored)
    found = run_all(order, CELLS)
    assert CELLS[2] not in found
    assert len(found) <= 4


def test_a_failed_cell_is_not_asked_again_and_does_not_spoil_the_prediction() -> None:
    order = AdaptiveOrder(planned(CELLS), predictions(CELLS), unlimited(), times)
    first = order.next()
    assert first is not None
    order.failed(first)
    rest = run_all(order, CELLS)
    assert CELLS[first - 1] not in rest
    assert len(rest) > 3, "a failure is not a throughput of nothing"


def test_dropping_a_deployment_leaves_its_cells_out() -> None:
    order = AdaptiveOrder(planned(CELLS), predictions(CELLS), unlimited(), times)
    first = order.next()
    assert first is not None
    assert order.drop(first) == []
    order.failed(first)
    assert all(c.line != CELLS[first - 1].line for c in run_all(order, CELLS))


def test_what_does_not_fit_the_time_is_left_out() -> None:
    asked: list[tuple[int, bool]] = []

    def fits(at: int, starts: bool) -> bool:
        asked.append((at, starts))
        return CELLS[at - 1].gpus == 1

    found = run_all(AdaptiveOrder(planned(CELLS), predictions(CELLS), unlimited(), times, fits=fits), CELLS)
    assert found
    assert {c.gpus for c in found} == {1}
    assert asked[0][1], "nothing runs before the first start"


def test_cells_without_a_prediction_are_left_out() -> None:
    some = [replace_point(p, None) if p.cell.gpus == 2 else p for p in predictions(CELLS)]
    found = run_all(AdaptiveOrder(planned(CELLS), some, unlimited(), times), CELLS)
    assert 2 not in {c.gpus for c in found}


def replace_point(prediction: Prediction, found: Point | None) -> Prediction:
    return prediction._replace(point=found, refusal="not covered")


def test_refining_adds_the_middle_of_neighbours_once() -> None:
    found = refined([cell(1), cell(2), cell(16), cell(8, tp=2)])
    assert [(c.gpus, c.concurrency) for c in found] == [(1, 1), (1, 2), (1, 6), (1, 16), (2, 8)]


# Inside a sweep


def choose_with(error: float = 1.0):
    def choose(items, stored, fits, said):
        found = predictions([item.cell for item in items], error)
        return AdaptiveOrder(items, found, Budget(cells=3), times, stored, fits=fits, said=said)

    return choose


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of the fake engine say the truth."""
    original = sweep_run.aggregate

    def aggregated(replay: Any, *, cell: Cell, **more: Any) -> Point:
        made = original(replay, cell=cell, **more)
        return replace(made, measures={**made.measures, **point(cell, *truth(cell)).measures})

    monkeypatch.setattr(sweep_run, "aggregate", aggregated)


def test_an_adaptive_sweep_runs_what_it_chose_and_spares_the_rest(sweep_of, told: None) -> None:  # noqa: F811
    summary, _folder, events = sweep_of(*CELLS, choose=choose_with())
    assert (summary.failed, summary.left) == (0, 0)
    assert 1 <= summary.done <= 3
    assert summary.spared == len(CELLS) - summary.done
    why = [event.text for event in events if event.kind == "chosen"]
    assert len(why) == summary.done
    assert all("of the frontier" in text and "GPU-hours" in text for text in why)
    again, _, _ = sweep_of(*CELLS, choose=choose_with())
    assert again.skipped == summary.done, "a resumed sweep goes on from what is stored"


def test_consecutive_choices_of_one_engine_share_its_start(sweep_of, told: None) -> None:  # noqa: F811
    summary, _, _ = sweep_of(*[cell(n) for n in CONCURRENCIES], choose=choose_with())
    assert [start.served for start in FakeStart.starts] == [summary.done]


def test_a_machine_failure_is_tried_again_in_an_adaptive_sweep(sweep_of, told: None) -> None:  # noqa: F811
    broken = {0: died("node", Blame.INFRASTRUCTURE)}
    summary, folder, _ = sweep_of(*CELLS[:7], choose=choose_with(), plans=[broken])
    assert summary.failed == 0
    assert folder.points()[0].attempt in (1, 2)
    assert any(p.attempt == 2 for p in folder.points())


def test_an_engine_that_does_not_start_is_not_asked_again(sweep_of, told: None) -> None:  # noqa: F811
    refused = {0: died("engine start", Blame.RECIPE)}
    summary, folder, _ = sweep_of(*CELLS, choose=choose_with(), plans=[refused])
    assert summary.failed == 1
    bad = folder.failures()[0].line
    assert all(p.line != bad for p in folder.points())


def test_time_that_is_over_leaves_cells_by_name(sweep_of, tmp_path: Path) -> None:  # noqa: F811
    summary, _, events = sweep_of(cell(1), cell(2), ends_at=0.0)
    assert summary == Summary(0, 0, 0, 2)
    left = [event for event in events if event.kind == "left"]
    assert [event.index for event in left] == [1, 2]
    assert "are there" in left[0].text
