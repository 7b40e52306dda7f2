"""Runs for the dashboard's tests: the report's invented points as runs, and a run folder with requests and scrapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.publish.report import sample

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.finding import Evidence, Expectation
from ridgeline.core.point import Measure, Point, Source
from ridgeline.core.record import Outcome, Phases, Record, Replay, ServerSample
from ridgeline.core.where import Where
from ridgeline.publish.web.data import Channel
from ridgeline.publish.web.memory import FixedShelf, Held, held
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.proof.verdict import prove

HEADER = sample.HEADER


def run(id: str, points: list[Point], *, at: str = "2026-03-04T05:06:07+00:00", failed: Any = (), **more: Any) -> Held:
    return held(id, replace(HEADER, name=id, created_at=at), points, failed, **more)


def shelf(*runs: Held, channel: Channel = "local") -> FixedShelf:
    return FixedShelf(runs, channel)


def every_state() -> FixedShelf:
    points, failed = sample.every_state()
    return shelf(run("main", points, failed=failed))


def scaled(points: list[Point], by: float, at: str) -> list[Point]:
    """The same cells, run again: throughput times `by`."""
    found = []
    for point in points:
        y = point.measures["throughput_per_gpu.total"]
        more = {"throughput_per_gpu.total": Measure(by * (y.value or 0), y.unit)}
        found.append(replace(point, measures={**point.measures, **more}, measured_at=at))
    return found


def replay(requests: int = 60, lanes: int = 3) -> Replay:
    """Root turns on every lane, two subagents under lane 1, one failure, one request that never got a token."""
    records = []
    second = 10**9
    for i in range(requests):
        lane, at = i % lanes, (i // lanes) * 2 * second
        deep = lane == 1 and i % 6 == 1
        sent = at + 50_000_000
        failed = i == 10
        records.append(
            Record(
                request_id=i,
                phase="warmup" if i < lanes else "profiling",
                lane=lane,
                tree=lane,
                session_id=f"session-{lane}",
                conversation_id=f"c{lane}",
                turn_index=i // lanes,
                depth=int(deep),
                correlation_id=f"{lane}.{i % 4 if deep else 'root'}",
                scheduled_ns=at,
                sent_ns=sent,
                first_token_ns=None if failed else sent + 300_000_000,
                last_token_ns=None if failed else sent + second,
                end_ns=sent + second + 1_000_000,
                outcome=Outcome.TIMEOUT if failed else Outcome.OK,
                prompt_tokens=1000,
                cached_tokens=800,
                completion_tokens=None if failed else 40,
                chunks=40,
            )
        )
    last = (requests // lanes) * 2 * second
    samples = tuple(
        ServerSample(
            at_ns=at * second,
            endpoint="engine",
            values=None
            if at == 9
            else {
                'vllm:kv_cache_usage_perc{engine="0"}': 0.5,
                'vllm:kv_cache_usage_perc{engine="1"}': 0.7,
                'vllm:num_requests_running{engine="0"}': 2.0,
                'vllm:num_requests_waiting{engine="0"}': 1.0,
                'vllm:prefix_cache_queries_total{engine="0"}': 1000.0 * at,
                'vllm:prefix_cache_hits_total{engine="0"}': 800.0 * at,
                'vllm:generation_tokens_total{engine="0"}': 40.0 * at,
            },
        )
        for at in range(last // second)
    )
    phases = Phases(start_ns=0, profiling_start_ns=2 * second, profiling_end_ns=last, drained_ns=last + second)
    return Replay(records=tuple(records), phases=phases, samples=samples, speed=2.0)


def folder(path: Path, name: str = "mine") -> RunFolder:
    """A run folder with three finished cells, of which the first has requests, and one failure."""
    header = RunHeader(
        name=name, created_at="2026-05-06T07:08:09+00:00", command=("ridgeline", "sweep", "a.yaml"), ridgeline="0.1.0"
    )
    argv = (Item("engine"), Item("--tp"), Item("2", Where("a.yaml", 7)))
    deployment = Deployment((Service("engine", argv),), "engine", "model", "emulated", recipe="emulated")
    expectations = [Expectation("kv_tokens", ">=", 1000, "tokens", "K1"), Expectation("engines", "==", 2, "", "R1")]
    proof = prove(expectations, [Evidence("kv_tokens", 900, Where("/var/log/engine.log", 12))])
    log = path.parent / f"{name}.log"
    log.write_text("".join(f"line {n}: all is well\n" for n in range(1000)) + "WARNING the pool is small\n")
    with RunFolder.create_or_open(path / name, header) as made:
        for number, concurrency in enumerate((1, 2, 4)):
            cell = sample.cell("h200", "emulated", 2, concurrency, scenario=sample.AGENTIC)
            point = sample.point(cell, Source.EMULATED)
            if number:
                made.write_cell(cell, point, None, None)
            else:
                extra = {"proof": proof.outcomes, "found": {"node": "n1"}}
                made.write_cell(cell, point, replay(), deployment, {"engine.log": log}, extra)
        made.write_failure(
            sample.cell("h200", "emulated", 2, 64), "f" * 64, "start", "no port was free", hint="free one"
        )
    return made
