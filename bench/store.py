"""The store's own speed: frontier queries over many points, importing, and opening.

    python bench/store.py [--points 100000]

Prints JSON. A frontier query is asked of an open store (as `serve` keeps one): once with columns to read, then with
other axes, then again. Points lie in 40 series over four models; each has the measures of an InferenceX row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ridgeline.core.point import Measure, Point, Source
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer
from ridgeline.results.metrics import axis
from ridgeline.results.store import Store

NAMES = [
    f"{metric}.{s}"
    for metric in ("ttft", "itl", "icl", "e2e_latency", "interactivity")
    for s in ("mean", "p50", "p90", "p99")
]
NAMES += [f"throughput_per_gpu.{part}" for part in ("total", "input", "output")]


def made_up(n: int) -> ImportedRun:
    rng = np.random.default_rng(1)
    values = rng.random((n, len(NAMES)))
    points = []
    for i in range(n):
        model = f"m{i % 4}"
        measures = {name: Measure(float(value), "u") for name, value in zip(NAMES, values[i], strict=True)}
        points.append(
            ImportedPoint(
                point=Point(
                    id=f"p{i}.1",
                    run_key=f"p{i}",
                    cell_fingerprint="f",
                    name=f"{model}/l{i % 4000}/c{i // 4000}",
                    line=f"{model}/l{i % 4000}",
                    series=f"{model}/s{i % 40}",
                    source=Source.MEASURED,
                    concurrency=i // 4000 + 1,
                    gpus=8,
                    measures=measures,
                    facts={"model_prefix": model, "scenario_name": "1k1k", "hardware": "h200"},
                )
            )
        )
    return ImportedRun(origin="bench", key="1", name="bench", points=tuple(points))


def timed(call: Callable[[], object], repeats: int) -> float:
    """Median milliseconds of processor time: other work on the machine does not count."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return round(1000 * statistics.median(seconds), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    found: dict[str, float] = {"points": asked.points}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.json"
        source.write_text("{}")
        run = made_up(asked.points)
        importer = Importer(
            "bench", 1, "bench", lambda path: None, lambda b, d: Imported(format="bench", version=1, runs=(run,))
        )
        with Store.open(Path(folder) / "store") as store:
            start = time.perf_counter()
            store.add(importer, Bundle.of_file(source))
            found["import_s"] = round(time.perf_counter() - start, 1)
        found["catalogue_mb"] = round((Path(folder) / "store" / "catalogue.sqlite").stat().st_size / 1e6, 1)
        start = time.perf_counter()
        with Store.open(Path(folder) / "store") as store:
            found["open_ms"] = round(1000 * (time.perf_counter() - start), 1)
            x, y = axis("interactivity.p50"), axis("throughput_per_gpu.output")
            found["frontier_first_ms"] = timed(lambda: store.frontier(x, y).members, 1)
            other = axis("ttft.p50"), axis("throughput_per_gpu.total")
            found["frontier_new_axes_ms"] = timed(lambda: store.frontier(*other).members, 1)
            found["frontier_all_ms"] = timed(lambda: store.frontier(x, y).members, asked.repeats)
            found["frontier_one_model_ms"] = timed(lambda: store.frontier(x, y, model="m1").members, asked.repeats)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
