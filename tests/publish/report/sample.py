"""Points made by a small rule, in every state a page can show. The numbers are invented; only their shape is real:
throughput saturates with concurrency and interactivity falls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.point import Caution, Measure, Point, Source, Validity
from ridgeline.core.topology import Topology
from ridgeline.results import identity
from ridgeline.results.frontier import Exclusion
from ridgeline.results.runfolder import RunHeader

HEADER = RunHeader(
    name="sample",
    created_at="2026-03-04T05:06:07+00:00",
    command=("ridgeline", "sweep", "benchmarks/sample.yaml", "--trace", "two words.jsonl"),
    ridgeline="0.1.0",
    settings={"speed": 1.0, "trace": "sample sessions"},
    host={"cpus": 2},
)
FIXED = Scenario("fixed-seq-len", isl=8192, osl=1024)
AGENTIC = Scenario("agentic-coding", duration_s=1800)
LADDER = (1, 2, 4, 8, 16, 32, 64)


def cell(
    hardware: str, framework: str, tp: int, concurrency: int, *, scenario: Scenario = FIXED, precision: str = "fp8"
) -> Cell:
    benchmark = Benchmark(
        key=f"model-a-{hardware}-{framework}-{precision}",
        image="engine:1.2",
        model="Example/Model-A",
        model_prefix="model-a",
        precision=precision,
        framework=framework,
        runner=hardware,
    )
    return Cell(benchmark, scenario, Arm(topology=Topology(tp=tp)), concurrency)


def point(
    of: Cell,
    source: Source = Source.MEASURED,
    *,
    strength: float = 1.0,
    measures: dict[str, Measure] | None = None,
    **more: Any,
) -> Point:
    """A point of `of`: per-user speed falls with load per GPU, throughput rises towards a ceiling."""
    c, tp = of.concurrency, of.arm.gpus
    itl = (0.0062 + 0.011 / tp + 0.00085 * c / tp) / strength
    total = 9.0 * c / (itl * tp) * (1 - 0.0022 * c)
    ttft = 0.12 + 0.02 * c / tp
    found = {
        "ttft.p50": Measure(ttft, "s", n=100),
        "ttft.p90": Measure(1.8 * ttft, "s", n=100),
        "itl.p50": Measure(itl, "s", n=100),
        "e2e_latency.p50": Measure(ttft + 1023 * itl, "s", n=100),
        "e2e_latency.p90": Measure(1.3 * (ttft + 1023 * itl), "s", n=100),
        "interactivity.p50": Measure(1 / itl, "tok/s/user", n=100),
        "interactivity.p90": Measure(0.8 / itl, "tok/s/user", n=100),
        "throughput_per_gpu.total": Measure(total, "tok/s/GPU"),
        "throughput_per_gpu.output": Measure(total / 9, "tok/s/GPU"),
        "throughput_per_gpu.input": Measure(total * 8 / 9, "tok/s/GPU"),
        "tpot.p50": Measure(itl, "s", n=100),
        "tpot.p99": Measure(None, "s", n=100, reason="100 samples: a p99 needs 500"),
        "server_cache_hit": Measure(0.42 + 0.001 * c, "ratio"),
        "error_rate": Measure(0.0, "ratio"),
        **(measures or {}),
    }
    key = identity.run_key(
        of, None, image="engine:1.2", model_revision=None, trace_digest=None, replay_settings={}, source=source
    )
    return Point(
        id=identity.point_id(key),
        run_key=key,
        cell_fingerprint=of.fingerprint,
        name=of.name,
        line=of.line,
        series=identity.series(of, source),
        source=source,
        concurrency=c,
        gpus=of.gpus,
        facts=identity.facts(of),
        measures=found,
        measured_at="2026-03-04T05:06:07+00:00",
        provenance={"engine_version": "1.2.3"},
        **more,
    )


def ladder(
    hardware: str,
    framework: str,
    tps: Iterable[int] = (2, 4),
    source: Source = Source.MEASURED,
    strength: float = 1.0,
    **more: Any,
) -> list[Point]:
    return [point(cell(hardware, framework, tp, c, **more), source, strength=strength) for tp in tps for c in LADDER]


def emulated_points() -> list[Point]:
    """What a run without any GPU gives: two series, nothing measured."""
    return [
        *ladder("h200", "emulated", source=Source.EMULATED),
        *ladder("b200", "emulated", source=Source.EMULATED, strength=1.8),
        *ladder("h200", "emulated", source=Source.EMULATED, scenario=AGENTIC, strength=0.9),
    ]


def every_state() -> tuple[list[Point], list[Exclusion]]:
    """Measured, emulated and predicted series; degraded, unproven, invalid and missing points; failed cells."""
    b200 = ladder("b200", "vllm", strength=1.7)
    h200 = ladder("h200", "vllm")
    mi355x = ladder("mi355x", "sglang", strength=1.25)
    b300 = ladder("b300", "emulated", source=Source.EMULATED, strength=2.2)
    h100 = ladder("h100", "vllm", tps=(8,), source=Source.PREDICTED, strength=0.8)
    gone = Measure(None, "tok/s/user", reason="Fewer than 20 requests finished in the window.")
    h200[3] = replace(
        h200[3], validity=Validity.DEGRADED, reasons=("D301 expected 64 captured sequences, the log shows 32",)
    )
    h200[5] = replace(h200[5], validity=Validity.INVALID, reasons=("38 % of the requests failed",))
    b200[6] = replace(
        b200[6],
        cautions=(
            Caution("W204", "Saturated: concurrency doubled, throughput moved 1.2 %.", "Stop the ladder at 32."),
        ),
    )
    mi355x = [replace(one, validity=Validity.UNPROVEN, reasons=("no log came with this point",)) for one in mi355x]
    mi355x[2] = replace(mi355x[2], measures={**mi355x[2].measures, "interactivity.p50": gone})
    failed = [
        Exclusion(
            "f1",
            "model-a-h200-vllm-fp8/8k1k/TP2/c256",
            "failed",
            "launch: the KV pool holds 0.31 M tokens, one request a slot needs 2.36 M",
        ),
        Exclusion(
            "f2",
            "model-a-h200-vllm-fp8/8k1k/TP2/c512",
            "failed",
            "launch: the KV pool holds 0.31 M tokens, one request a slot needs 2.36 M",
        ),
    ]
    return [*b200, *h200, *mi355x, *b300, *h100], failed
