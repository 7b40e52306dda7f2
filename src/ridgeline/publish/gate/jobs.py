"""A selection → the jobs that a sweep starts, by family, with the inputs that each job is sent.

Fail-fast works inside a family. Rows of sequence lengths that no family takes never run; they are named, not dropped.
Families and inputs are InferenceX's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ridgeline.publish.gate.canary import pick
from ridgeline.publish.gate.decision import Decision
from ridgeline.publish.gate.policy import GatePolicy

Row = Mapping[str, Any]
FIXED_BUCKETS = ("1k1k", "8k1k")
EVALS = {
    "evals": "evals",
    "agentic_evals": "agentic evals",
    "multinode_evals": "multi evals",
    "multinode_agentic_evals": "multi agentic evals",
}


class Job(NamedTuple):
    """`inputs`: what it is started with where that differs from its row. `minutes`: until it is cut."""

    row: Row
    inputs: Mapping[str, Any]
    minutes: int


class Family(NamedTuple):
    """Jobs that stand or fall together under fail-fast."""

    name: str
    jobs: tuple[Job, ...]
    fail_fast: bool


class Jobs(NamedTuple):
    """`canary` goes first and alone; `never` are rows no family takes. `collects`: whose results are gathered.
    `ingest`: which one a push to the main branch asks for, `agentic` when any agentic row was selected."""

    canary: Job | None
    families: tuple[Family, ...]
    never: tuple[Row, ...]
    collects: tuple[str, ...]
    ingest: str = "fixed"

    @property
    def total(self) -> int:
        return sum(len(family.jobs) for family in self.families) + (self.canary is not None)


def jobs_of(output: Mapping[str, Any], decision: Decision, policy: GatePolicy) -> Jobs:
    """The jobs of a selection in output shape (`changelog.output.as_object`) under a decision."""
    single, multi = output["single_node"], output["multi_node"]
    canary, single = pick(single, policy.canary.buckets) if decision.canary else (None, dict(single))
    named: list[tuple[str, Iterable[Row]]] = [
        *((f"single {bucket}", single.get(bucket, ())) for bucket in FIXED_BUCKETS),
        *((f"multi {bucket}", multi.get(bucket, ())) for bucket in FIXED_BUCKETS),
        ("agentic", single.get("agentic", ())),
        ("multi agentic", multi.get("agentic", ())),
        *((name, output[key]) for key, name in EVALS.items()),
    ]
    families = tuple(
        Family(name, tuple(_job(name, row, decision, policy) for row in rows), decision.fail_fast)
        for name, rows in named
        if rows
    )
    never = [
        row
        for buckets in (single, multi)
        for bucket, rows in buckets.items()
        if bucket not in (*FIXED_BUCKETS, "agentic")
        for row in rows
    ]
    first = None if canary is None else _job("single canary", canary, decision, policy)
    return Jobs(first, families, tuple(never), _collects(families, canary is not None), _ingest(output))


def _job(family: str, row: Row, decision: Decision, policy: GatePolicy) -> Job:
    multi, agentic = "prefill" in row, row.get("scenario-type") == "agentic-coding"
    inputs: dict[str, Any] = {}
    if family.endswith("evals"):
        inputs |= {"run-eval": True, "eval-only": True}
        if multi:
            concurrencies = row["conc"] if row.get("eval-all-concs") else [row.get("eval-conc")]
            inputs["eval-conc"] = " ".join(str(one) for one in concurrencies if one is not None)
    else:
        inputs["run-eval"] = bool(row.get("run-eval")) if family.startswith("single ") else False
    if agentic:
        inputs |= {"isl": "0", "osl": "0", "max-model-len": "0"}
        inputs |= {"conc": row["conc"][0]} if multi else {"disagg": False}
        if not family.endswith("evals"):
            inputs["duration"] = policy.fast_mode.duration_s if decision.fast else row["duration"]
            mode = policy.fast_mode if decision.fast else policy.normal_mode
            inputs["warmup-requests-per-lane"] = mode.warmup_requests_per_lane
    return Job(row, inputs, (780 if agentic else 480) if multi else 500)


def _collects(families: tuple[Family, ...], canary: bool) -> tuple[str, ...]:
    """Throughput is gathered after a canary or a fixed family ran (a purely agentic sweep gathers its own), evaluations
    after any evaluation."""
    names = [family.name for family in families]
    fixed = canary or any(name.endswith(FIXED_BUCKETS) for name in names)
    evals = any(name.endswith("evals") for name in names)
    return tuple(["throughput"] * fixed + ["evaluations"] * evals)


def _ingest(output: Mapping[str, Any]) -> str:
    agentic = output["single_node"].get("agentic") or output["multi_node"].get("agentic")
    return "agentic" if agentic or output["agentic_evals"] or output["multinode_agentic_evals"] else "fixed"
