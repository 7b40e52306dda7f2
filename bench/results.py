"""How fast results are made: a million request records into a point, a frontier over 100,000 points.

Run `python bench/results.py`. Prints JSON: seconds of processor time (median of the repeats; other work on the machine
does not count), wall seconds beside them, memory.
Targets: aggregation under 2 s and 500 MB, frontier query under 50 ms.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.point import Axis, Measure, Point, Source
from ridgeline.core.record import Phases, Replay
from ridgeline.core.topology import Topology
from ridgeline.results import records
from ridgeline.results.aggregate import aggregate
from ridgeline.results.frontier import frontier
from ridgeline.results.plane import Plane, solve

CELL = Cell(
    Benchmark("bench", "image", "model", "model", "fp8", "vllm", "h200"),
    Scenario("agentic-coding", duration_s=3600),
    Arm(topology=Topology(tp=8)),
    256,
)


def synthesise(path: Path, n: int, chunks: int) -> None:
    """A records file of `n` good requests with `chunks` content events each, in row groups as our writer makes them."""
    rng = np.random.default_rng(1)
    size = 65_536
    metadata = records.replay_metadata(
        Replay(
            records=(), phases=Phases(profiling_start_ns=0, profiling_end_ns=3_600 * 10**9, drained_ns=3_601 * 10**9)
        )
    )
    schema = records.with_metadata(pa.Table.from_batches([], records.SCHEMA), metadata).schema
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, n, size):
            rows = min(size, n - start)
            sent = np.sort(rng.integers(0, 3_500 * 10**9, rows))
            first = sent + rng.integers(10**7, 10**9, rows)
            gaps = rng.integers(10**6, 3 * 10**7, (rows, chunks))
            gaps[:, 0] = 0
            arrivals = first[:, None] + np.cumsum(gaps, axis=1)
            numbers = {
                "request_id": np.arange(start, start + rows),
                "lane": rng.integers(0, 256, rows),
                "tree": np.arange(start, start + rows) // 20,
                "turn_index": np.zeros(rows, dtype=int),
                "depth": np.zeros(rows, dtype=int),
                "scheduled_ns": sent - 10**5,
                "sent_ns": sent,
                "first_byte_ns": first,
                "first_token_ns": first,
                "first_visible_ns": first,
                "last_token_ns": arrivals[:, -1],
                "end_ns": arrivals[:, -1] + 1000,
                "prompt_tokens": rng.integers(1000, 100_000, rows),
                "asked_prompt_tokens": rng.integers(1000, 100_000, rows),
                "completion_tokens": np.full(rows, chunks),
                "cached_tokens": rng.integers(0, 1000, rows),
                "chunks": np.full(rows, chunks),
                "first_chunk_tokens": np.ones(rows, dtype=int),
                "theoretical_hit_blocks": rng.integers(0, 10, rows),
                "theoretical_total_blocks": np.full(rows, 10),
            }
            texts = {"phase": "profiling", "outcome": "ok", "session_id": "s", "conversation_id": "s/root"}
            arrays = []
            for field in schema:
                if field.name in numbers:
                    arrays.append(pa.array(numbers[field.name]).cast(field.type))
                elif field.name == "chunk_ns":
                    offsets = pa.array(np.arange(0, rows * chunks + 1, chunks, dtype=np.int32))
                    arrays.append(pa.ListArray.from_arrays(offsets, pa.array(arrivals.ravel())))
                elif field.name == "flags":
                    arrays.append(pa.array([[]] * rows, type=field.type))
                elif field.nullable:
                    arrays.append(pa.nulls(rows, field.type))
                else:
                    arrays.append(pa.array([texts.get(field.name, "")] * rows, type=field.type))
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=size)


def peak_mb() -> float:
    """Peak resident memory of this process alone: `ru_maxrss` would be that of who started it, if larger."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measure_aggregation(path: str) -> tuple[float, float, float, float]:
    """(processor seconds, wall seconds, peak resident MB, MB before), in a fresh process."""
    before, start, wall = peak_mb(), time.process_time(), time.perf_counter()
    aggregate(Path(path), cell=CELL, source=Source.MEASURED, run_key="k")
    return time.process_time() - start, time.perf_counter() - wall, peak_mb(), before


def timed(repeats: int, run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def measure_frontier(n: int, repeats: int) -> dict[str, float]:
    rng = np.random.default_rng(2)
    x, y = rng.random(n), rng.random(n)
    axes = Axis("x", "u", "higher"), Axis("y", "u", "higher")
    points = [
        Point(
            id=f"p{i}", run_key="r", cell_fingerprint="c", name="n", line="l", series=f"s{i % 40}",
            source=Source.MEASURED, concurrency=1, gpus=8, facts={},
            measures={"x": Measure(float(x[i]), "u"), "y": Measure(float(y[i]), "u")},
        )
        for i in range(n)
    ]  # fmt: skip
    plane = Plane([p.id for p in points], [p.series for p in points], [p.source for p in points], x, y)
    return {
        "columns": timed(repeats, lambda: [series.frontier for series in solve(plane, *axes)]),
        "objects": timed(repeats, lambda: frontier(points, *axes).members),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--chunks", type=int, default=8, help="content events a request")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        synthesise(path, asked.records, asked.chunks)
        size = path.stat().st_size / 1e6
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            runs = [pool.apply(measure_aggregation, (str(path),)) for _ in range(asked.repeats)]
    found = {
        "records": asked.records,
        "chunks_a_request": asked.chunks,
        "file_mb": round(size, 1),
        "aggregate_cpu_s": round(statistics.median(run[0] for run in runs), 3),
        "aggregate_wall_s": round(statistics.median(run[1] for run in runs), 3),
        "aggregate_peak_mb": round(max(run[2] for run in runs)),
        "of_which_before_mb": round(min(run[3] for run in runs)),
        "points": asked.points,
    }
    found |= {
        f"frontier_{name}_ms": round(1000 * s, 1) for name, s in measure_frontier(asked.points, asked.repeats).items()
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
