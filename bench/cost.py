"""How far the uncalibrated cost model is from measured fixed-sequence points.

    python bench/cost.py [POINTS.csv]

Prices a steady state for every aggregated point without speculation: `conc` requests decode at their mean context, and
conc/osl prefills of `isl` tokens fall into each step. Compares with the measured median time per output token. The
parameters come from one H200 and none of these points. Prints one JSON line: median ratio and median absolute error by
GPU and engine, and Kendall's tau inside every series (hardware, engine, model, precision, lengths) of 12 points or
more. Points: RIDGELINE_GOLDEN/results/fixed_seq_points.csv unless given.
"""

from __future__ import annotations

import csv
import json
import math
import os
import statistics
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.simulate.batch import Batch, Chunk
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import parameters_for

MODELS = {
    "dsr1": "deepseek-r1", "llama70b": "llama-3.1-70b", "gptoss120b": "gpt-oss-120b", "minimaxm2.5": "minimax-m2.5",
    "minimaxm3": "minimax-m3", "dsv4": "deepseek-v4-pro",
}  # fmt: skip


def _decode(requests: int, context: int) -> Batch:
    batch = Batch()
    batch.decodes = batch.decode_tokens = batch.tokens = batch.emitting = requests
    batch.decode_context = requests * context
    return batch


def _prefill(tokens: int) -> Batch:
    batch = Batch()
    batch.chunks, batch.tokens, batch.emitting, batch.attached = [Chunk(tokens, 0)], tokens, 1, tokens // 16
    return batch


def predict(price: StepCost, ranks: int, isl: int, osl: int, conc: int) -> float:
    """Steady-state seconds per output token."""
    busy = min(ranks, conc)
    batches: list[Batch | None] = [_decode(max(1, round(conc / ranks)), isl + osl // 2)] * busy
    batches += [None] * (ranks - busy)
    alone: list[Batch | None] = [_prefill(isl), *[None] * (ranks - 1)]
    return price.seconds(batches) + conc / osl * price.seconds(alone) / ranks


def _tau(pairs: list[tuple[float, float]]) -> float:
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(pairs, 2)]
    return sum((sign > 0) - (sign < 0) for sign in signs) / len(signs)


def main() -> int:
    default = (
        Path(__file__).parent.parent / os.environ.get("RIDGELINE_GOLDEN", "../shared") / "results/fixed_seq_points.csv"
    )
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    if not path.exists():
        print(json.dumps({"bench": "cost", "skipped": f"no points at {path.name} (RIDGELINE_GOLDEN)"}))
        return 0
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["disagg"] == "False" and row["spec_method"] == "none"]
    errors: dict[str, list[float]] = defaultdict(list)
    series: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    prices: dict[tuple[object, ...], StepCost] = {}
    refused = 0
    for row in rows:
        topology = Topology(
            int(row["decode_tp"]), ep=int(row["decode_ep"]), dp_attn=row["decode_dp_attention"] == "True"
        )
        key = (row["model"], row["hardware"], row["precision"], topology)
        try:
            if key not in prices:
                options = options_from(
                    MODELS[row["model"]], row["hardware"], topology, row["precision"], kv_cache_dtype="fp8"
                )
                prices[key] = StepCost(options, parameters_for(options.gpu.name, "vllm"))
        except InputError:
            refused += 1
            continue
        found = predict(prices[key], topology.dp_ranks, int(row["isl"]), int(row["osl"]), int(row["conc"]))
        measured = float(row["median_tpot_s"])
        errors[f"{row['hardware']}/{row['framework']}"].append(math.log(found / measured))
        name = tuple(row[part] for part in ("hardware", "framework", "model", "precision", "isl", "osl"))
        series[name].append((found, measured))
    taus = [_tau(pairs) for pairs in series.values() if len(pairs) >= 12]
    print(
        json.dumps(
            {
                "bench": "cost",
                "points": sum(map(len, errors.values())),
                "refused": refused,
                "by_gpu_and_engine": {
                    name: {
                        "n": len(values),
                        "median_ratio": round(math.exp(statistics.median(values)), 2),
                        "median_error": round(statistics.median(abs(math.exp(value) - 1) for value in values), 2),
                    }
                    for name, values in sorted(errors.items())
                },
                "series": len(taus),
                "tau_median": round(statistics.median(taus), 3),
                "tau_lowest": round(min(taus), 3),
                "tau_at_least_0.6": sum(tau >= 0.6 for tau in taus),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
