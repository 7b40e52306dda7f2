"""How far the uncalibrated cost model is from measured fixed-sequence points.

    python bench/cost.py [POINTS.csv]

Every point in steady state, with `default.json` alone: measured on one H200 or assumed, nothing fitted. Prints
one JSON line: median ratio and median error of the time per token by GPU and engine, and Kendall's tau inside every
series of 12 points or more. Rows whose own numbers contradict their concurrency are left out. Points:
RIDGELINE_GOLDEN/results/fixed_seq_points.csv unless given.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from ridgeline.simulate.fit import covered
from ridgeline.simulate.points import read_points
from ridgeline.simulate.validate import taus, uncalibrated


def main() -> int:
    root = Path(__file__).parent.parent / os.environ.get("RIDGELINE_GOLDEN", "../shared")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "results/fixed_seq_points.csv"
    if not path.exists():
        print(json.dumps({"bench": "cost", "skipped": f"no points at {path.name} (RIDGELINE_GOLDEN)"}))
        return 0
    points, refused = covered(read_points(path))
    pairs = uncalibrated([point for point in points if not point.doubtful])
    errors: dict[str, list[float]] = defaultdict(list)
    for point, seen in pairs:
        if point.tpot_s:
            errors[f"{point.hardware}/{point.engine}"].append(math.log(seen.tpot_s / point.tpot_s))
    order = list(taus(pairs).values())
    print(
        json.dumps(
            {
                "bench": "cost",
                "points": len(pairs),
                "refused": len(refused),
                "by_gpu_and_engine": {
                    name: {
                        "n": len(values),
                        "median_ratio": round(math.exp(statistics.median(values)), 2),
                        "median_error": round(statistics.median(abs(math.exp(value) - 1) for value in values), 2),
                    }
                    for name, values in sorted(errors.items())
                },
                "series": len(order),
                **{
                    f"tau_{what}": {
                        "median": round(statistics.median(pair[index] for pair in order), 3),
                        "lowest": round(min(pair[index] for pair in order), 3),
                        "at_least_0.6": sum(pair[index] >= 0.6 for pair in order),
                    }
                    for index, what in enumerate(("throughput", "tpot"))
                },
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
