"""How fast the dashboard answers: 100,000 points in a store, and a point with a million requests. Everything is made up
by a small rule; the server runs in this process, Chromium (when there is one) looks at it. One line a measurement.

    python bench/dashboard.py [POINTS] [REQUESTS]
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.point import Measure, Point, Source
from ridgeline.core.record import Phases, Replay
from ridgeline.core.topology import Topology
from ridgeline.publish.web.app import create_app
from ridgeline.publish.web.context import Context
from ridgeline.publish.web.data import Library, Shelf
from ridgeline.publish.web.folders import FolderShelf
from ridgeline.publish.web.stored import Kept, StoreShelf
from ridgeline.results import identity, records
from ridgeline.results.importers.api import Bundle, Imported, ImportedPoint, ImportedRun, Importer
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.results.store import Store

MODELS, HARDWARE, ENGINES, RUNGS = 20, ("h100", "h200", "b200", "b300", "mi355x"), ("vllm", "sglang"), 25
FRAMES = """async () => {
  const chart = globalThis.ridgelineTimeline, out = [];
  for (let i = 0; i < 30; i++) { const t = performance.now(); chart.frame(); out.push(performance.now() - t); }
  return out;
}"""
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def made(count: int) -> Iterator[Point]:
    """Points over twenty models, ten series each, in many lines; throughput saturates, interactivity falls."""
    for number in range(count):
        model, rest = number % MODELS, number // MODELS
        series, rest = rest % (len(HARDWARE) * len(ENGINES)), rest // (len(HARDWARE) * len(ENGINES))
        rung, line = rest % RUNGS + 1, rest // RUNGS
        hardware, engine = HARDWARE[series % len(HARDWARE)], ENGINES[series // len(HARDWARE)]
        benchmark = Benchmark(
            f"m{model}-{hardware}-{engine}-{line}", "image:1", f"Model-{model}", f"m{model}", "fp8", engine, hardware
        )
        cell = Cell(benchmark, Scenario("fixed-seq-len", 8192, 1024), Arm(Topology(2)), rung)
        speed = 200 * (1 + series / 10) / (1 + 0.05 * rung) * (1 - 0.003 * (line % 90))
        measures = {
            f"{name}.{part}": Measure(base * factor, unit, 100)
            for name, base, unit in (
                ("interactivity", speed, "tok/s/user"),
                ("ttft", 0.1 + 0.02 * rung, "s"),
                ("itl", 1 / speed, "s"),
                ("tpot", 1 / speed, "s"),
                ("e2e_latency", 1000 / speed, "s"),
            )
            for part, factor in (("mean", 1.1), ("p50", 1.0), ("p90", 0.8), ("p99", 0.6))
        } | {
            f"throughput_per_gpu.{part}": Measure(speed * rung * share, "tok/s/GPU")
            for part, share in (("total", 9), ("output", 1), ("input", 8))
        }
        yield Point(
            id=f"{number:x}.1",
            run_key=f"{number:064x}",
            cell_fingerprint=f"{number:064x}",
            name=cell.name,
            line=cell.line,
            series=identity.series(cell, Source.MEASURED),
            source=Source.MEASURED,
            concurrency=rung,
            gpus=2,
            facts=identity.facts(cell),
            measures=measures,
            measured_at="2026-01-01T00:00:00+00:00",
        )


def filled(folder: Path, count: int) -> Store:
    """A store with `count` points in twenty runs."""
    store = Store.open(folder)
    points = list(made(count))
    for run in range(20):
        mine = tuple(ImportedPoint(point=point) for point in points[run::20])
        name = f"run {run}"
        found = ImportedRun(
            origin="bench", key=name, name=name, started_at=f"2026-01-{run + 1:02}T00:00:00+00:00", points=mine
        )
        importer = Importer(
            "bench",
            1,
            "made up",
            lambda path: None,
            lambda bundle, derive, f=found: Imported(format="bench", version=1, runs=(f,)),
        )
        marker = folder / f"{run}.txt"
        marker.write_text(name)
        store.add(importer, Bundle.of_file(marker), channel="local")
    return store


def big_run(folder: Path, requests: int, lanes: int = 64) -> None:
    """A run folder with one cell whose records are `requests` long, an hour on 64 lanes."""
    header = RunHeader(name="big", created_at="2026-01-01T00:00:00+00:00")
    benchmark = Benchmark("big", "image", "Model", "model", "fp8", "vllm", "h200")
    cell = Cell(benchmark, Scenario("agentic-coding", duration_s=3600), Arm(Topology(8)), lanes)
    point = replace(
        next(made(1)), id="f" * 64 + ".1", run_key="f" * 64, name=cell.name, line=cell.line, facts=identity.facts(cell)
    )
    with RunFolder.create_or_open(folder / "big", header) as run:
        place = run.write_cell(cell, point, None, None)
    rng = np.random.default_rng(7)
    lane = np.arange(requests) % lanes
    turn = np.arange(requests) // lanes
    step = 3600e9 / (requests / lanes)
    sent = (turn * step + rng.uniform(0, step * 0.2, requests)).astype(np.int64)
    first = sent + rng.exponential(step * 0.1, requests).astype(np.int64) + 1_000_000
    end = first + (rng.uniform(0.1, 0.6, requests) * step).astype(np.int64)
    deep = (turn % 5 == 4).astype(np.int64)
    columns: dict[str, Any] = {
        name: pa.nulls(requests, field.type) for name, field in zip(records.SCHEMA.names, records.SCHEMA, strict=True)
    }
    text = lambda values: pa.array(values).dictionary_encode()  # noqa: E731
    empty = pa.array(np.zeros(requests + 1, dtype=np.int32))
    columns |= {
        "request_id": pa.array(np.arange(requests)),
        "phase": text(["profiling"] * requests),
        "lane": pa.array(lane.astype(np.int32)),
        "tree": pa.array(lane),
        "session_id": text([f"s{n}" for n in (turn // 40 * lanes + lane) % 4000]),
        "conversation_id": text(["c"] * requests),
        "turn_index": pa.array(turn.astype(np.int32)),
        "depth": pa.array(deep.astype(np.int32)),
        "correlation_id": text(
            [
                f"{a}.{b // 10 if d else 'r'}"
                for a, b, d in zip(lane.tolist(), turn.tolist(), deep.tolist(), strict=True)
            ]
        ),
        "source_kind": text([""] * requests),
        "scheduled_ns": pa.array(sent - 500_000),
        "sent_ns": pa.array(sent),
        "first_token_ns": pa.array(first),
        "last_token_ns": pa.array(end),
        "end_ns": pa.array(end),
        "outcome": text(["ok"] * requests),
        "prompt_tokens": pa.array(np.full(requests, 20_000)),
        "completion_tokens": pa.array(np.full(requests, 300)),
        "flags": pa.ListArray.from_arrays(empty, pa.array([], pa.string())),
        "chunk_ns": pa.ListArray.from_arrays(empty, pa.array([], pa.int64())),
    }
    table = pa.Table.from_arrays(
        [
            columns[name].cast(records.SCHEMA.field(name).type)
            if columns[name].type != records.SCHEMA.field(name).type
            else columns[name]
            for name in records.SCHEMA.names
        ],
        schema=records.SCHEMA,
    )
    about = records.replay_metadata(
        Replay(
            records=(),
            phases=Phases(start_ns=0, profiling_start_ns=0, profiling_end_ns=int(3600e9), drained_ns=int(3605e9)),
        )
    )
    pq.write_table(
        records.with_metadata(table, about), place / "records.parquet", compression="zstd", row_group_size=65_536
    )
    from ridgeline.core.record import ServerSample
    from ridgeline.results.samples import write_samples

    write_samples(
        place / "samples.parquet",
        [
            ServerSample(
                at_ns=second * 10**9,
                endpoint="e",
                values={
                    f'vllm:{name}{{engine="{rank}"}}': value
                    for rank in range(8)
                    for name, value in (
                        ("kv_cache_usage_perc", 0.5 + 0.05 * rank),
                        ("num_requests_running", 8.0),
                        ("num_requests_waiting", 1.0),
                        ("prefix_cache_queries_total", 1000.0 * second),
                        ("prefix_cache_hits_total", 900.0 * second),
                        ("generation_tokens_total", 500.0 * second),
                    )
                },
            )
            for second in range(0, 3600, 2)
        ],
    )


def serve(shelf: Shelf) -> str:
    """Where a server of this process answers."""
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(create_app(Context(Library([shelf]))), log_level="warning", access_log=False)
    )
    threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    while not server.started:
        time.sleep(0.02)
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def timed(url: str, times: int = 1) -> float:
    import httpx

    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        answer = httpx.get(url, timeout=120)
        answer.raise_for_status()
        best = min(best, time.perf_counter() - start)
    return best


def say(what: str, seconds: float, limit: float | None = None) -> None:
    mark = "" if limit is None else f"  (limit {limit:g} s: {'met' if seconds < limit else 'MISSED'})"
    print(f"{what:<58} {seconds:6.2f} s{mark}", flush=True)


def painted(page: Any, url: str, ready: str) -> tuple[float, float]:
    """(first contentful paint, until `ready` is true) of a page, in seconds."""
    start = time.perf_counter()
    page.goto(url, wait_until="commit")
    while not page.evaluate(ready):
        time.sleep(0.01)
    done = time.perf_counter() - start
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
    return (paint or 0) / 1000, done


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    requests = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory(prefix="ridgeline-bench-") as name:
        folder = Path(name)
        start = time.perf_counter()
        store = filled(folder / "store", count) if (folder / "store").mkdir() is None else None
        say(f"fill a store with {count:,} points (not a limit)", time.perf_counter() - start)
        assert store is not None
        here = serve(StoreShelf(Kept(store), "local"))
        say("first frontier page of a cold server", timed(f"{here}/"), 1.0)
        say("frontier page again", timed(f"{here}/", 3), 1.0)
        say("another model, nothing kept", timed(f"{here}/api/v1/chart?model=Model-7"), 1.0)
        say("frontier answer of the interface", timed(f"{here}/api/v1/frontier?model=Model-3"))
        say("first search", timed(f"{here}/api/v1/points?q=b200 c4"), 1.0)
        say("search again", timed(f"{here}/api/v1/points?q=h100 sglang", 3), 1.0)
        say("first SQL over points", timed(f"{here}/api/v1/sql?q=SELECT count(*) FROM points"), 1.0)
        say("first SQL over measures", timed(f"{here}/api/v1/sql?q=SELECT count(*) FROM measures"), 1.0)
        say("SQL again", timed(f"{here}/api/v1/sql?q=SELECT measure, avg(value) FROM measures GROUP BY 1"), 1.0)
        say("gates page: runs against the ones before", timed(f"{here}/gates"))
        (folder / "runs").mkdir()
        big_run(folder / "runs", requests)
        there = serve(FolderShelf([folder / "runs"]))
        import httpx

        id = httpx.get(f"{there}/api/v1/points").json()["points"][0]["id"]
        say(f"columns of {requests:,} requests", timed(f"{there}/api/v1/points/{id}/timeline"), 2.0)
        say("server metrics and felt latency", timed(f"{there}/api/v1/points/{id}/server-metrics"), 2.0)
        look(here, f"{there}/points/{id}")
        store.close()


def look(frontier: str, point: str) -> None:
    """The same in a browser, where there is one."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no Chromium: what a browser paints was not measured")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{frontier}/api/v1/health")
        paint, done = painted(page, f"{frontier}/?model=Model-11", "document.querySelectorAll('.chart .pt').length > 0")
        say("browser: first paint of a model not seen before", paint, 1.0)
        say("browser: its marks are drawn", done, 1.0)
        paint, done = painted(page, point, "document.documentElement.dataset.ready === 'panels'")
        say("browser: point page, first paint", paint)
        say("browser: timeline and panels drawn", done, 2.0)
        frames = page.evaluate(FRAMES)
        say("browser: one frame of the timeline, median", float(np.median(frames)) / 1000, 1 / 30)
        page.get_by_role("button", name="Show everything").click()
        frames = page.evaluate(FRAMES)
        say("browser: one frame of the whole hour, median", float(np.median(frames)) / 1000, 1 / 30)
        browser.close()


if __name__ == "__main__":
    main()
