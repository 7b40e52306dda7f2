"""What a budget costs: regret of the chosen cells against running all of them, on measured series.

    python bench/budget.py [POINTS.csv]

Every aggregated series (hardware, framework, model, precision, speculation, isl/osl) of 12 cells or more, predicted
with parameters from which it was left out. For 40 % of the GPU-hours (ten waves a cell, ten minutes a start): regret in
tokens/s/GPU at 20, 40, 60 and 100 tokens/s/user, beside random choice (mean of 20), the concurrency extremes first, and
the least that any set of cells for that money leaves (exact: what the starts alone cost).
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from ridgeline.plan.budget import Candidate, Seen, choose, frontier_at
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.fit import covered, predict, without
from ridgeline.simulate.points import Measured, read_points
from ridgeline.simulate.validate import fit_all

LEVELS = (20.0, 40.0, 60.0, 100.0)
START_S, WAVES, SHARE = 600.0, 10, 0.4


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
    points, _ = covered([point for point in read_points(path) if point.prefill is None])
    points = [point for point in points if not point.doubtful]
    fits, _ = fit_all(points)
    series: dict[tuple[object, ...], list[Measured]] = defaultdict(list)
    for point in points:
        if point.tput and point.tpot_s:
            series[point.series].append(point)
    found: dict[str, list[float]] = defaultdict(list)
    cells = 0
    for name, own in sorted(series.items(), key=str):
        fit = fits.get((own[0].hardware, own[0].engine))
        if len(own) < 12 or fit is None:
            continue
        parameters = without(fit, [point.series == name for point in fit.points])
        prices: dict[int, StepCost] = {}
        candidates, real = [], {}
        for number, point in enumerate(own):
            said = predict(point, parameters, prices)
            whole = WAVES * point.conc * ((point.isl or 0) + (point.osl or 0)) / (said.tput_per_gpu * point.gpus)
            one = Candidate(
                str(number), point.label, point.conc, 1 / said.tpot_s, said.tput_per_gpu,
                point.gpus * whole / 3600, point.gpus * START_S / 3600,
            )  # fmt: skip
            candidates.append(one)
            real[one.id] = Seen(1 / (point.tpot_s or 1), point.tput or 0)
        arms = {one.arm: one.start_cost for one in candidates}
        budget = SHARE * (sum(one.run_cost for one in candidates) + sum(arms.values()))
        everything = list(real.values())
        ours = choose(candidates, budget, lambda one, real=real: real[one.id], LEVELS)
        found["ours"].append(regret([real[choice.candidate.id] for choice in ours], everything))
        cells += len(ours)
        found["least"].append(least(candidates, real, budget))
        by_arm = defaultdict(list)
        for one in sorted(candidates, key=lambda one: one.conc):
            by_arm[one.arm].append(one)
        ends = [one for cells_ in by_arm.values() for one in (cells_[0], cells_[-1])]
        rest = [one for cells_ in by_arm.values() for one in cells_[1:-1]]
        found["extremes"].append(regret([real[one.id] for one in spend(ends + rest, budget)], everything))
        drawn = []
        for seed in range(20):
            order = random.Random(seed).sample(sorted(by_arm), len(by_arm))
            mixed = [one for arm in order for one in random.Random(seed).sample(by_arm[arm], len(by_arm[arm]))]
            drawn.append(regret([real[one.id] for one in spend(mixed, budget)], everything))
        found["random"].append(statistics.fmean(drawn))
    print(
        json.dumps(
            {
                "bench": "budget",
                "series": len(found["ours"]),
                "cells_chosen": cells,
                "cells": sum(len(own) for own in series.values() if len(own) >= 12),
                "regret": {
                    kind: {
                        "mean": round(statistics.fmean(values), 4),
                        "median": round(statistics.median(values), 4),
                        "p90": round(sorted(values)[int(0.9 * (len(values) - 1))], 4),
                        "worst": round(max(values), 4),
                        "at_most_2_percent": round(sum(v <= 0.02 for v in values) / len(values), 3),
                    }
                    for kind, values in found.items()
                },
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
