"""What a budget costs: regret of the chosen cells against running all of them, on measured series.

    python bench/budget.py [POINTS.csv]

Every aggregated series (hardware, framework, model, precision, speculation, isl/osl) of 12 cells or more, predicted
with parameters from which it was left out. For 40 % of the GPU-hours (ten waves a cell, ten minutes a start): regret in
tokens/s/GPU at 20, 40, 60 and 100 tokens/s/user of

- the planner, told nothing of this engine, and told the errors of its points under other isl/osl (of the same
  left-out parameters)
- random choice (mean of 20), the concurrency extremes first
- the least that any set of cells for that money leaves (exact: what the starts alone cost)

The widths of the planner's beliefs (plan/belief.py) are from the models in TUNED; the others are held out of them.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ridgeline.plan.belief import Known, Place
from ridgeline.plan.budget import Candidate, Seen, choose, frontier_at
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.fit import Fit, covered, predict, without
from ridgeline.simulate.points import Measured, read_points
from ridgeline.simulate.validate import fit_all

LEVELS = (20.0, 40.0, 60.0, 100.0)
START_S, WAVES, SHARE = 600.0, 10, 0.4
SEEDS = 3  # of the planner's draws: its mean regret moves by half a per cent from one to the next
TUNED = ("llama70b", "dsr1")  # the other half: gptoss120b, minimaxm2.5, minimaxm3, dsv4


class Question(NamedTuple):
    """A series to choose from: its cells, what each would show, and what is known of its engine under other lengths."""

    name: tuple[object, ...]
    candidates: list[Candidate]
    real: dict[str, Seen]
    known: list[Known]

    @property
    def budget(self) -> float:
        starts = {one.arm: one.start_cost for one in self.candidates}
        return SHARE * (sum(one.run_cost for one in self.candidates) + sum(starts.values()))


def regret(chosen: list[Seen], everything: list[Seen]) -> float:
    have, could = frontier_at(chosen, LEVELS), frontier_at(everything, LEVELS)
    lost = [1 - a / b for a, b in zip(have, could, strict=True) if b > 0]
    return statistics.fmean(lost) if lost else 0.0


def spend(order: list[Candidate], budget: float) -> list[Candidate]:
    """Cells in an order, arm by arm where they follow each other, until the money is gone."""
    taken, running, left = [], None, budget
    for cell in order:
        cost = cell.run_cost + (0 if cell.arm == running else cell.start_cost)
        if cost <= left:
            taken.append(cell)
            left, running = left - cost, cell.arm
    return taken


Front = list[tuple[float, float]]  # (GPU-hours, sum of shares of the best), dearer ones worth more


def _front(items: Front) -> Front:
    kept: Front = []
    for cost, worth in sorted(items, key=lambda item: (item[0], -item[1])):
        if not kept or worth > kept[-1][1]:
            kept.append((cost, worth))
    return kept


def _joined(one: dict[int, Front], other: dict[int, Front], budget: float, more: float = 0.0) -> dict[int, Front]:
    """Sets of levels from two sources that serve different levels; `more`: what using the second at all costs."""
    found = {levels: list(items) for levels, items in one.items()}
    for a, items in one.items():
        for b, others in other.items():
            if b and not a & b:
                sums = ((x + u + more, y + w) for x, y in items for u, w in others)
                found[a | b] = found.get(a | b, []) + [item for item in sums if item[0] <= budget]
    return {levels: _front(items) for levels, items in found.items()}


def least(candidates: list[Candidate], real: dict[str, Seen], budget: float) -> float:
    """The smallest regret of any set of cells within the budget, every arm started once: cells and then arms are added
    one by one, and for every set of levels that are served so far the undominated costs are kept."""
    best = frontier_at(real.values(), LEVELS)
    reached = [index for index, value in enumerate(best) if value > 0]
    if not reached:
        return 0.0
    arms: dict[str, list[Candidate]] = defaultdict(list)
    for one in candidates:
        arms[one.arm].append(one)
    whole: dict[int, Front] = {0: [(0.0, 0.0)]}
    for own in arms.values():
        within: dict[int, Front] = {0: [(0.0, 0.0)]}
        for one in own:
            x, y = real[one.id]
            served = [index for index in reached if x >= LEVELS[index]]
            cell = {
                sum(1 << index for index in some): [(one.run_cost, sum(y / best[index] for index in some))]
                for size in range(1, len(served) + 1)
                for some in combinations(served, size)
            }
            within = _joined(within, cell, budget)
        whole = _joined(whole, within, budget, own[0].start_cost)
    return 1 - max(worth for items in whole.values() for _, worth in items) / len(reached)


def main() -> int:
    root = Path(__file__).parent.parent / os.environ.get("RIDGELINE_GOLDEN", "../shared")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "results/fixed_seq_points.csv"
    if not path.exists():
        print(json.dumps({"bench": "budget", "skipped": f"no points at {path.name} (RIDGELINE_GOLDEN)"}))
        return 0
    found: dict[str, dict[tuple[object, ...], list[float]]] = defaultdict(dict)
    chosen, cells, seconds = 0, 0, 0.0
    for asked in questions(path):
        began = time.process_time()
        for kind, known in (("ours", []), ("ours_told", asked.known)):
            plans = [
                choose(asked.candidates, asked.budget, lambda one, asked=asked: asked.real[one.id], LEVELS, known, seed)
                for seed in range(SEEDS)
            ]
            found[kind][asked.name] = [asked_regret(asked, [choice.candidate for choice in plan]) for plan in plans]
        seconds += time.process_time() - began
        chosen, cells = chosen + len(plans[0]), cells + len(asked.candidates)
        found["least"][asked.name] = [least(asked.candidates, asked.real, asked.budget)]
        found["extremes"][asked.name] = [asked_regret(asked, spend(extremes(asked), asked.budget))]
        regrets = [asked_regret(asked, spend(mixed(asked, seed), asked.budget)) for seed in range(20)]
        found["random"][asked.name] = [statistics.fmean(regrets)]
    halves = {
        "all": lambda name: True,
        "tuned": lambda name: name[2] in TUNED,
        "held_out": lambda name: name[2] not in TUNED,
    }
    told = {
        half: {
            kind: summary([v for name, values in own.items() if counts(name) for v in values])
            for kind, own in found.items()
        }
        for half, counts in halves.items()
    }
    print(
        json.dumps(
            {
                "bench": "budget",
                "series": len(found["ours"]),
                "cells_chosen": chosen,
                "cells": cells,
                "cpu_seconds_a_plan": round(seconds / 2 / SEEDS / len(found["ours"]), 3),
                "regret": told,
            }
        )
    )
    return 0


def questions(path: Path) -> Iterator[Question]:
    """Every series that is large enough, predicted by parameters that do not know it."""
    points, _ = covered([point for point in read_points(path) if point.prefill is None])
    points = [point for point in points if not point.doubtful and point.tput and point.tpot_s]
    fits, _ = fit_all(points)
    series: dict[tuple[object, ...], list[Measured]] = defaultdict(list)
    for point in points:
        series[point.series].append(point)
    for name, own in sorted(series.items(), key=str):
        fit = fits.get((own[0].hardware, own[0].engine))
        if len(own) >= 12 and fit is not None:
            yield question(name, own, fit)


def question(name: tuple[object, ...], own: list[Measured], fit: Fit) -> Question:
    parameters = without(fit, [point.series == name for point in fit.points])
    prices: dict[int, StepCost] = {}
    candidates, real, known = [], {}, []
    for number, point in enumerate(own):
        said = predict(point, parameters, prices)
        whole = WAVES * point.conc * ((point.isl or 0) + (point.osl or 0)) / (said.tput_per_gpu * point.gpus)
        one = Candidate(
            str(number), point.label, point.conc, 1 / said.tpot_s, said.tput_per_gpu,
            point.gpus * whole / 3600, point.gpus * START_S / 3600, point.label, spread(point),
        )  # fmt: skip
        candidates.append(one)
        real[one.id] = Seen(1 / (point.tpot_s or 1), point.tput or 0)
    for point in fit.points:
        if point.series != name and point.series[:5] == name[:5] and point.tput and point.tpot_s:
            said = predict(point, parameters, prices)
            place = Place(point.label, point.conc, spread(point), f"{point.isl}/{point.osl}")
            known.append(Known(place, math.log(said.tpot_s / point.tpot_s), math.log(point.tput / said.tput_per_gpu)))
    return Question(name, candidates, real, known)


def spread(point: Measured) -> bool:
    return point.topology is not None and point.topology.dp_attn


def asked_regret(asked: Question, cells: list[Candidate]) -> float:
    return regret([asked.real[one.id] for one in cells], list(asked.real.values()))


def by_arm(asked: Question) -> dict[str, list[Candidate]]:
    found: dict[str, list[Candidate]] = defaultdict(list)
    for one in sorted(asked.candidates, key=lambda one: one.conc):
        found[one.arm].append(one)
    return found


def extremes(asked: Question) -> list[Candidate]:
    """The lowest and the highest concurrency of every arm, then the others."""
    arms = by_arm(asked).values()
    return [one for cells in arms for one in (cells[0], cells[-1])] + [one for cells in arms for one in cells[1:-1]]


def mixed(asked: Question, seed: int) -> list[Candidate]:
    """Arms, and the cells of each, in any order."""
    arms = by_arm(asked)
    order = random.Random(seed).sample(sorted(arms), len(arms))
    return [one for arm in order for one in random.Random(seed).sample(arms[arm], len(arms[arm]))]


def summary(values: list[float]) -> dict[str, float]:
    return {
        "plans": len(values),
        "mean": round(statistics.fmean(values), 4),
        "median": round(statistics.median(values), 4),
        "p90": round(sorted(values)[int(0.9 * (len(values) - 1))], 4),
        "worst": round(max(values), 4),
        "at_most_2_percent": round(sum(v <= 0.02 for v in values) / len(values), 3),
    }


if __name__ == "__main__":
    sys.exit(main())
