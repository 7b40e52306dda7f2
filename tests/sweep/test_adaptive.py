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
from ridgeline.core.point import Measure, Point, Source, Validity
from ridgeline.launch.blame import Blame
from ridgeline.sweep import run as sweep_run
from ridgeline.sweep.adaptive import AdaptiveOrder, refined
from ridgeline.sweep.predict import Prediction
from ridgeline.sweep.run import Planned, Summary
from ridgeline.sweep.spending import Budget, parse_budget, unlimited
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


def test_a_sweep_that_is_gone_on_with_spends_no_more_than_one_that_was_not_interrupted() -> None:
    for text in ("6", "3h", "40%"):
        budget = parse_budget(text)
        whole = run_all(AdaptiveOrder(planned(CELLS), predictions(CELLS), budget, times), CELLS)
        before = [CELLS.index(c) + 1 for c in whole[: len(whole) // 2]]
        stored = {at: point(CELLS[at - 1], *truth(CELLS[at - 1])) for at in before}
        rest = run_all(AdaptiveOrder(planned(CELLS), predictions(CELLS), budget, times, stored), CELLS)
        assert not {c.name for c in rest} & {CELLS[at - 1].name for at in before}
        assert len(rest) <= len(whole) - len(before) + 1
        if budget.cells:
            assert len(rest) + len(before) <= budget.cells
        everything = {CELLS.index(c) + 1: point(c, *truth(c)) for c in whole}
        assert run_all(AdaptiveOrder(planned(CELLS), predictions(CELLS), budget, times, everything), CELLS) == []


def test_a_budget_below_one_start_runs_nothing_and_says_what_the_least_costs() -> None:
    said: list[str] = []
    order = AdaptiveOrder(
        planned(CELLS), predictions(CELLS), Budget(hours=0.05), times, said=lambda at, text: said.append(text)
    )
    assert order.next() is None
    assert said == ["left out, with its start it costs 0.353 GPU-hours and 0.05 are left"]


def lengths(cells: list[Cell], isl: int) -> list[Cell]:
    return [replace(c, scenario=replace(c.scenario, kind="fixed-seq-len", isl=isl, osl=1024)) for c in cells]


def test_a_budget_of_cells_holds_over_all_series() -> None:
    both = [*lengths(CELLS, 1024), *lengths(CELLS, 8192), *lengths(CELLS, 512)]
    for most in (1, 2, 7):
        order = AdaptiveOrder(planned(both), predictions(both), Budget(cells=most), times)
        assert 1 <= len(run_all(order, both)) <= most


def test_what_is_stored_counts_whichever_series_it_is_of() -> None:
    both = [*lengths(CELLS, 1024), *lengths(CELLS, 8192)]
    later = {at: point(both[at - 1], *truth(both[at - 1])) for at in range(len(CELLS) + 1, len(CELLS) + 7)}
    found = run_all(AdaptiveOrder(planned(both), predictions(both), Budget(cells=7), times, later), both)
    assert len(found) == 1, "six of seven are there"
    spent = sum(both[at - 1].gpus * 670 for at in later) / 3600
    hours = Budget(hours=spent)
    assert run_all(AdaptiveOrder(planned(both), predictions(both), hours, times, later), both) == []


def test_what_one_series_leaves_the_next_may_spend() -> None:
    """A series of one cell that cannot be had for its share: the other one has it."""
    small, large = lengths([cell(512, 8)], 512), lengths(CELLS, 8192)
    both = [*small, *large]
    order = AdaptiveOrder(planned(both), predictions(both), Budget(hours=4.0), times)
    assert order._spending.series[0].hours > 0.3
    alone = run_all(AdaptiveOrder(planned(large), predictions(large), Budget(hours=4.0), times), large)
    assert run_all(order, both) == alone


def test_other_lengths_of_the_same_engine_learn_from_what_was_measured() -> None:
    """One layout is half as fast as foretold under all lengths: the second series is told by the first."""
    short, long = lengths(CELLS, 1024), lengths(CELLS, 8192)
    both = [*short, *long]
    foretold = [
        Prediction(c, point(c, *(value * (2.0 if c.gpus == 1 else 1.0) for value in truth(c))), None) for c in both
    ]
    order = AdaptiveOrder(planned(both), foretold, unlimited(), times)
    second = order._spending.series[1].planner
    before = second.corrected()[0]
    while (at := order.next()) is not None and at <= len(short):
        order.done(at, point(both[at - 1], *truth(both[at - 1])))
    moved = second.corrected()[0] - before
    ones = [n for n, c in enumerate(long) if c.gpus == 1]
    others = [n for n, c in enumerate(long) if c.gpus != 1]
    assert all(moved[n] < -0.3 for n in ones), "log 2 is 0.69"
    assert all(abs(moved[n]) < 0.2 for n in others)


def test_results_that_come_out_of_order_teach_and_are_not_asked_for() -> None:
    order = AdaptiveOrder(planned(CELLS), predictions(CELLS), unlimited(), times)
    first = order.next()
    other = next(at for at in range(1, len(CELLS) + 1) if at != first)
    order.done(other, point(CELLS[other - 1], *truth(CELLS[other - 1])))
    assert order.next() == first, "what was asked for is still to come"
    gone = next(at for at in range(1, len(CELLS) + 1) if at not in (first, other))
    order.failed(gone)
    rest = run_all(order, CELLS)
    assert not {CELLS[other - 1], CELLS[gone - 1]} & set(rest)


def test_an_invalid_point_is_no_number_and_its_engine_still_runs() -> None:
    one = [c for c in CELLS if c.gpus == 1]
    order = AdaptiveOrder(planned(one), predictions(one), unlimited(), times)
    first = order.next()
    assert first is not None
    order.done(first, replace(point(one[first - 1], 1e9, 1e9), validity=Validity.INVALID))
    planner = order._spending.series[0].planner
    assert not planner.seen
    assert planner.cost(0) == planner.candidates[0].run_cost, "no further start is paid"
    assert len(run_all(order, one)) > 1


def test_repeats_of_a_chosen_cell_are_run_together() -> None:
    twice = [Planned(c, deploy(c)[0], Source.EMULATED, f"{c.name}.{k}", k) for k in (1, 2) for c in CELLS]
    order = AdaptiveOrder(twice, predictions(CELLS), Budget(cells=4), times)
    found = []
    while (at := order.next()) is not None:
        found.append(at)
        c = twice[at - 1].cell
        order.done(at, point(c, *truth(c)))
    assert len(found) == 4
    assert [twice[at - 1].cell for at in found[::2]] == [twice[at - 1].cell for at in found[1::2]]
    assert len(set(found)) == 4


def test_what_is_scored_comes_last_and_once() -> None:
    items = [*planned(CELLS[:7]), Planned(CELLS[0], deploy(CELLS[0])[0], Source.EMULATED, "task", task="gsm8k")]
    order = AdaptiveOrder(items, predictions(CELLS[:7]), Budget(cells=1), times)
    first = order.next()
    assert first is not None and not items[first - 1].task
    order.done(first, point(CELLS[first - 1], *truth(CELLS[first - 1])))
    assert order.next() == 8
    order.done(8, None)
    assert order.next() is None
    stored = {first: point(CELLS[first - 1], *truth(CELLS[first - 1])), 8: None}
    assert AdaptiveOrder(items, predictions(CELLS[:7]), Budget(cells=1), times, stored).next() is None


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
