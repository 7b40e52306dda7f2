"""Subjects written by hand: a cell, the command line of its engine, and what is known."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario
from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.finding import Finding, Verdict
from ridgeline.core.topology import Topology
from ridgeline.core.where import Where
from ridgeline.engine.modules import modules_of
from ridgeline.plan.checks.accepted import METRICS
from ridgeline.plan.checks.report import CellReport, check
from ridgeline.plan.checks.subject import Knowledge, Subject, bind, formats_for
from ridgeline.plan.checks.workload import workload_of
from ridgeline.spec.facts.acceptance import Curve
from ridgeline.spec.facts.builds import Dump
from ridgeline.spec.facts.library import find_gpu, find_model
from ridgeline.spec.facts.observations import Observation
from ridgeline.spec.facts.tuning import TuningRule, TuningTable
from ridgeline.spec.settings import Fleet

ROCM = "vllm/vllm-openai-rocm:v0.26.0"
DSV4 = "deepseek-ai/DeepSeek-V4-Pro"
RUNNER = "cluster:mi355x-amds"
TODAY = datetime.date(2026, 11, 1)
MTP3 = {
    "method": "mtp", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic",
    "synthetic_acceptance_length": 2.49,
}  # fmt: skip
CURVES = (Curve("deepseek-v4-pro", "dsv4_mtp", "thinking_on", {1: 1.79, 2: 2.27, 3: 2.49, 4: 2.54}, "a test"),)


def words(flags: dict[str, Any]) -> list[str]:
    """Flags as a command line; True is a bare switch, objects become JSON, None leaves a flag out."""
    found = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        found.append(f"--{name}")
        if isinstance(value, list):
            found += [str(item) for item in value]
        elif value is not True:
            found.append(json.dumps(value) if isinstance(value, dict) else str(value))
    return found


def items(texts: list[str], file: str = "recipe.sh") -> tuple[Item, ...]:
    """Each word with a place of its own."""
    return tuple(Item(text, Where(file, line)) for line, text in enumerate(texts, 1))


def service(name: str, texts: list[str], env: dict[str, str] | None = None, **more: Any) -> Service:
    pairs = tuple((key, Item(value, Where("recipe.sh", 99))) for key, value in (env or {}).items())
    return Service(name, items(texts), pairs, readiness=more.pop("readiness", Readiness()), **more)


def make(
    topology: Topology = Topology(8, ep=8, dp_attn=True),
    *,
    model: str = DSV4,
    runner: str = RUNNER,
    image: str = ROCM,
    precision: str = "fp4",
    framework: str = "vllm",
    concurrency: int = 32,
    free: float | None = 256.0,
    flags: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    router: list[str] | None = None,
    services: tuple[Service, ...] = (),
    arm: dict[str, Any] | None = None,
    scenario: Scenario | None = None,
    contexts: tuple[int, ...] = (),
    argv: list[str] | None = None,
    after: tuple[str, ...] = (),
    **known: Any,
) -> Subject:
    """DeepSeek-V4-Pro with three drafts on MI355X unless told otherwise. `flags` override the usual ones."""
    spec = "mtp" if model == DSV4 else "none"
    options = {"spec_decoding": spec, **(arm or {})}
    if router is not None:
        options.setdefault("router", Component("vllm-router", "0.1.14"))
    cell = Cell(
        Benchmark("key", image, model, "prefix", precision, framework, runner),
        scenario or Scenario("agentic-coding", duration_s=3600),
        Arm(topology, **options),
        concurrency,
        Where("space.yaml", 7),
    )
    usual: dict[str, Any] = {
        "gpu-memory-utilization": 0.86 if model == DSV4 else 0.9,
        "max-num-batched-tokens": 8192,
        "max-num-seqs": 2 * concurrency,
    }
    usual |= {"tensor-parallel-size": None if topology.dp_attn else topology.tp}
    usual |= {
        "data-parallel-size": topology.tp if topology.dp_attn else None,
        "enable-expert-parallel": topology.ep > 1,
    }
    if model == DSV4:
        usual |= {"kv-cache-dtype": "fp8", "speculative-config": MTP3}
    command = argv or ["vllm", "serve", model, *words({**usual, **(flags or {})})]
    engine = service("engine", command, env, role="engine", after=after)
    others = list(services)
    if router is not None:
        others.append(service("router", router, role="router", after=("engine",)))
    arch, gpu = find_model(model), find_gpu(runner)
    fleet = Fleet(runner, gpu.name.lower(), 8, free, datetime.date(2026, 8, 20) if free else None)
    subject = Subject(
        cell=cell, arch=arch, gpu=gpu, formats=formats_for(cell, arch, gpu), fleet=fleet,
        workload=workload_of(cell, contexts, "a trace"), known=Knowledge(**{"curves": CURVES, **known}),
    )  # fmt: skip
    return bind(subject, Deployment((engine, *others), "engine", model, framework))


def overhead(subject: Subject, gib: float, **more: Any) -> Observation:
    """A start alike the subject's that took `gib` beside weights and cache."""
    launch = subject.launches[0]
    sized = subject.sizing(launch)
    total, loaded = subject.gpu.memory_bytes / 2**30, sized.loaded / 2**30
    return Observation(**{
        "image": subject.cell.benchmark.image, "model": subject.arch.name, "gpu": subject.gpu.name,
        "topology": launch.topology.label, "batched_tokens": launch.budget or 0, "drafts": launch.query - 1,
        "utilization": launch.utilization, "total_gib": total, "weights_gib": loaded,
        "kv_gib": total * launch.utilization - loaded - gib, "source": "a start", **more,
    })  # fmt: skip


def seen(subject: Subject, gib: float = 10.76, **more: Any) -> Subject:
    """The subject with one start like it on record."""
    found = (*subject.known.observations, overhead(subject, gib, **more))
    return replace(subject, known=replace(subject.known, observations=found))


def dump_of(subject: Subject, **more: Any) -> Dump:
    """A dump of the subject's build that knows everything its command line says."""
    launch = subject.launches[0]
    options = {f"--{flag.name}": None for flag in launch.flags.values()} | {
        f.written: None for f in launch.flags.values()
    }

    facts: dict[str, Any] = {
        "kind": subject.build.kind, "package": subject.build.kind,
        "version": ".".join(map(str, subject.build.version)), "options": options, "env": frozenset(launch.env),
        "metrics": frozenset(METRICS.get(subject.build.kind, ())), "moe_backends": {"mxfp4": ("aiter", "flydsl")},
        "connectors": None, "source": "a test", "importable": dict.fromkeys(modules_of(launch), True),
        "image": subject.cell.benchmark.image,
    }  # fmt: skip
    return Dump(**{**facts, **more})


def known(subject: Subject, gib: float = 10.76, **more: Any) -> Subject:
    """The subject with a start on record and a dump of its build."""
    after = seen(subject, gib)
    return replace(after, known=replace(after.known, dumps=(dump_of(after, **more),)))


SIZES = (4, 16, 64, 256, 1024, 4096, 8192)


def table(
    text: str = "flydsl_gfx950_mi355x_IntraNode_ep8.json", dtype: str = "fp4", sizes: tuple[int, ...] = SIZES
) -> TuningTable:
    """A table with rows for DeepSeek-V4-Pro at EP8."""
    rows = tuple(TuningRule(dtype, 7168, 6, 48, False, size, 128, 4) for size in sizes)
    combine = tuple(TuningRule("bf16", 7168, 6, 48, True, size, 64, 4) for size in sizes)
    return TuningTable(text, "IntraNode", int(text.rpartition("_ep")[2].partition(".")[0]), rows, combine)


def report(subject: Subject) -> CellReport:
    return check(subject)


def findings(subject: Subject, rule: str) -> list[Finding]:
    return [item.finding for item in check(subject).judged if item.finding.rule == rule]


def verdict(subject: Subject, rule: str) -> Verdict:
    """The worst that a rule says."""
    return max((item.verdict for item in findings(subject, rule)), key=lambda v: v.rank)


DP8_FREE: dict[str, Any] = {"flags": {"gpu-memory-utilization": 0.95}}
