"""How long a report takes to write and how large it is, by number of points. Synthetic points with the register's
measures; one process, one core."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.point import Measure, Point, Source
from ridgeline.core.topology import Topology
from ridgeline.publish.report import render_picture, render_report
from ridgeline.results import identity
from ridgeline.results.metrics import METRICS
from ridgeline.results.runfolder import RunHeader

HEADER = RunHeader(name="bench", created_at="2026-01-01T00:00:00+00:00", command=("ridgeline", "sweep", "a.yaml"))
SIZES = (60, 420, 2000)


def points(count: int) -> Iterator[Point]:
    """Twelve series of `count` / 12 points, each with every measure of the register."""
    for number in range(count):
        series, rung = number % 12, number // 12
        benchmark = Benchmark(
            f"b{series}", "image", "Model", "model", "fp8", f"engine{series % 3}", f"gpu{series // 3}"
        )
        cell = Cell(benchmark, Scenario("fixed-seq-len", 1024, 1024), Arm(Topology(2)), rung + 1)
        key = f"{cell.fingerprint}"
        speed = 200 * (1 + series / 12) / (1 + 0.05 * rung)
        measures = {name: Measure(1.0, m.unit) for m in METRICS.values() for name in m.measures}
        measures |= {f"interactivity.{p}": Measure(speed, "tok/s/user") for p in ("p50", "p90")}
        measures["throughput_per_gpu.total"] = Measure(speed * (rung + 1), "tok/s/GPU")
        yield Point(
            id=key,
            run_key=key,
            cell_fingerprint=key,
            name=cell.name,
            line=cell.line,
            series=identity.series(cell, Source.MEASURED),
            source=Source.MEASURED,
            concurrency=cell.concurrency,
            gpus=2,
            facts=identity.facts(cell),
            measures=measures,
        )


def main() -> None:
    for count in SIZES:
        made = list(points(count))
        start = time.perf_counter()
        page = render_report(made, [], header=HEADER)
        middle = time.perf_counter()
        picture = render_picture(made, header=HEADER)
        end = time.perf_counter()
        print(
            f"{count:>5} points: page {middle - start:.2f} s, {len(page) / 1e6:.2f} MB; "
            f"picture {end - middle:.2f} s, {len(picture) / 1e3:.0f} kB"
        )


if __name__ == "__main__":
    main()
