"""Small records, cells and points for the tests of this room."""

from __future__ import annotations

from typing import Any

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.point import Measure, Point, Source
from ridgeline.core.record import Outcome, Phases, Record, Replay, ServerSample
from ridgeline.core.topology import Topology

MS = 1_000_000
S = 1_000_000_000


def cell(concurrency: int = 4, kind: str = "agentic-coding", tp: int = 2, **changes: Any) -> Cell:
    scenario = (
        Scenario("agentic-coding", duration_s=60) if kind == "agentic-coding" else Scenario("fixed-seq-len", 1024, 1024)
    )
    benchmark = Benchmark(
        key="tiny-fp8-h200-vllm",
        image="acme/engine:1",
        model="acme/tiny",
        model_prefix="tiny",
        precision="fp8",
        framework="vllm",
        runner="cluster:h200",
    )
    arm = Arm(topology=Topology(tp=tp), **changes)
    return Cell(benchmark, scenario, arm, concurrency)


def deployment() -> Deployment:
    service = Service("engine", (Item("serve"), Item("--port"), Item("{port:http}")), (("A", Item("1")),))
    return Deployment((service,), "engine", "acme/tiny", "vllm", metrics=("engine",))


def point(concurrency: int = 4, key: str = "", attempt: int = 1, **measures: float) -> Point:
    key = key or f"{concurrency:02x}" * 32
    c = cell(concurrency)
    return Point(
        id=f"{key}.{attempt}",
        run_key=key,
        cell_fingerprint=c.fingerprint,
        name=c.name,
        line=c.line,
        series="s/measured",
        source=Source.MEASURED,
        concurrency=concurrency,
        gpus=2,
        facts={"model": "acme/tiny", "isl": None},
        measures={name: Measure(value, "u", n=3) for name, value in measures.items()}
        | {"gone": Measure(None, "s", reason="never seen")},
        attempt=attempt,
    )


def record(i: int = 0, at: int = 0, **changes: Any) -> Record:
    """A good request sent at `at` (ns): first byte 40 ms, first token 50 ms, then a token every 10 ms, 11 tokens."""
    base: dict[str, Any] = {
        "request_id": i,
        "phase": "profiling",
        "lane": 0,
        "tree": i,
        "session_id": f"s{i}",
        "conversation_id": f"s{i}/root",
        "turn_index": 0,
        "scheduled_ns": at - 1 * MS,
        "sent_ns": at,
        "first_byte_ns": at + 40 * MS,
        "first_token_ns": at + 50 * MS,
        "first_visible_ns": at + 60 * MS,
        "last_token_ns": at + 150 * MS,
        "end_ns": at + 151 * MS,
        "status": 200,
        "asked_prompt_tokens": 100,
        "max_tokens": 11,
        "prompt_tokens": 100,
        "completion_tokens": 11,
        "cached_tokens": 64,
        "chunks": 11,
        "first_chunk_tokens": 1,
        "chunk_ns": tuple(at + 50 * MS + k * 10 * MS for k in range(11)),
        "theoretical_hit_blocks": 3,
        "theoretical_total_blocks": 4,
    }
    return Record(**(base | changes))


def failed(i: int, at: int = 0, outcome: Outcome = Outcome.HTTP_ERROR, **changes: Any) -> Record:
    """A request that came to nothing 5 ms after `at`."""
    nothing = dict.fromkeys(
        ("first_byte_ns", "first_token_ns", "first_visible_ns", "last_token_ns", "prompt_tokens", "completion_tokens",
         "cached_tokens", "chunks", "first_chunk_tokens")
    )  # fmt: skip
    base = {**nothing, "outcome": outcome, "status": 500, "error": "boom", "end_ns": at + 5 * MS, "chunk_ns": ()}
    return record(i, at, **(base | changes))


def replay(records: list[Record] | tuple[Record, ...], end_s: float = 60.0, **changes: Any) -> Replay:
    phases = Phases(
        start_ns=0, profiling_start_ns=0, profiling_end_ns=int(end_s * S), drained_ns=int((end_s + 1) * S)
    )  # fmt: skip
    return Replay(**({"records": tuple(records), "phases": phases} | changes))


def sample(at_s: float, endpoint: str = "http://e/metrics", **values: float) -> ServerSample:
    """A scrape; `vllm__x=1` stands for `vllm:x`."""
    return ServerSample(
        at_ns=int(at_s * S), endpoint=endpoint, values={name.replace("__", ":"): v for name, v in values.items()}
    )
