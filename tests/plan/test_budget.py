"""A planner that starts from a wrong prediction and still finds the frontier for part of the money."""

import numpy as np
import pytest

from ridgeline.core.errors import InputError
from ridgeline.plan.budget import Candidate, Planner, Seen, choose, frontier_at
from ridgeline.sweep.spending import Budget, parse_budget

LEVELS = (20.0, 40.0, 60.0, 100.0)


def curve(arm: str, gpus: int, scale: float, slow: float) -> list[Candidate]:
    """An arm: more lanes, more throughput, less for each user."""
    lanes = (1, 4, 16, 32, 64, 128)
    found = []
    for conc in lanes:
        x, y = slow * 160 / (1 + conc / 16), scale * conc / (1 + conc / 24)
        found.append(Candidate(f"{arm}-{conc}", arm, conc, x, y, gpus * 0.05, gpus * 0.1))
    return found


CELLS = curve("tp1", 1, 100, 0.7) + curve("tp2", 2, 80, 1.0) + curve("tp8", 8, 25, 1.6)


def measured(one: Candidate) -> Seen:
    """Reality: everything a third slower, one arm worse still."""
    factor = 0.45 if one.arm == "tp1" else 0.67
    return Seen(one.x * factor, one.y * factor)


def regret(budget: float) -> float:
    chosen = choose(CELLS, budget, measured, LEVELS)
    have = frontier_at([measured(choice.candidate) for choice in chosen], LEVELS)
    could = frontier_at([measured(one) for one in CELLS], LEVELS)
    return float(np.mean(1 - have[could > 0] / could[could > 0]))


def test_part_of_the_money_finds_most_of_the_frontier() -> None:
    everything = sum(one.run_cost for one in CELLS) + 0.1 + 0.2 + 0.8
    assert regret(0.7 * everything) < 0.05
    assert regret(0.7 * everything) <= regret(0.2 * everything)


def test_the_budget_holds_and_starts_are_paid_when_an_engine_changes() -> None:
    chosen = choose(CELLS, 2.0, measured, LEVELS)
    assert sum(choice.cost for choice in chosen) <= 2.0
    assert len({choice.candidate.id for choice in chosen}) == len(chosen)
    running = None
    for choice in chosen:
        start = 0 if choice.candidate.arm == running else choice.candidate.start_cost
        assert choice.cost == pytest.approx(choice.candidate.run_cost + start)
        running = choice.candidate.arm


def test_a_point_corrects_its_arm_more_than_the_others() -> None:
    planner = Planner(CELLS)
    before, _, wide = planner.corrected()
    planner.tell(2, Seen(CELLS[2].x / 2, CELLS[2].y / 2))
    after, _, narrow = planner.corrected()
    moved = before - after
    assert moved[2] == pytest.approx(np.log(2), abs=0.02)
    assert moved[2] > moved[3] > moved[8] > 0.05
    assert narrow[2] < narrow[3] < narrow[8]
    assert narrow[8] > wide[8], "an error that large says that the predictions of this series are poor"


def test_the_large_engine_is_started_where_small_ones_would_leave_too_little_for_it() -> None:
    """By gain per hour the small engines come first and the large one's start can no longer be paid; together the small
    ones add little."""
    large = [Candidate(f"large-{n}", "large", n, 300 / n, 40.0 * n, 0.05, 0.85) for n in (2, 8)]
    small = [Candidate(f"small{k}", f"small{k}", 4, 21.0, 330.0 + k, 0.02, 0.1) for k in range(3)]
    chosen = choose([*large, *small], 1.0, levels=LEVELS)
    assert {choice.candidate.arm for choice in chosen} == {"large"}
    assert sum(choice.cost for choice in chosen) <= 1.0
    cheap = choose([*large, *small], 0.4, levels=LEVELS)
    assert cheap and all(choice.candidate.arm != "large" for choice in cheap)


def test_a_running_engine_is_finished_before_another_is_started() -> None:
    arms = [choice.candidate.arm for choice in choose(CELLS, 3.0, measured, LEVELS)]
    assert len(set(arms)) == sum(a != b for a, b in zip([None, *arms], arms, strict=False))


def test_nothing_is_chosen_that_promises_nothing() -> None:
    assert choose(CELLS, 0.01, measured) == []
    certain = Planner(CELLS[:1])
    certain.tell(0, Seen(1000, 1000))
    assert certain.best(100) is None


def test_budgets_in_three_units() -> None:
    assert parse_budget("20") == Budget(cells=20)
    assert parse_budget("12.5h") == Budget(hours=12.5)
    assert parse_budget("40%") == Budget(share=0.4)
    for text in ("", "x", "-3", "2.5", "nanh"):
        with pytest.raises(InputError, match="is not understood"):
            parse_budget(text)


def test_engines_of_one_cell_each_are_combined_for_what_they_add() -> None:
    """Recipes whose caps follow the concurrency start an engine for every cell. The eight that alone promise most are
    neighbours of one another; together they reach one level."""
    near = [Candidate(f"n{n}", f"n{n}", 64 + n, 25.0, 1000.0 - n, 0.1, 0.1) for n in range(12)]
    fast = [Candidate("fast", "fast", 1, 150.0, 100.0, 0.1, 0.4)]
    chosen = choose([*near, *fast], 1.0, levels=LEVELS)
    assert "fast" in {choice.candidate.arm for choice in chosen}
