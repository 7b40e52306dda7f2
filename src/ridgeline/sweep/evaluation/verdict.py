"""What scores mean for a cell, and who was scored, in the words of InferenceX's artifacts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.point import Source
from ridgeline.core.topology import Topology
from ridgeline.sweep.evaluation.lmeval import Score

LENGTHS = (8192, 1024)  # what evaluations of agentic cells count as, as InferenceX has it
JUDGED = "exact_match,"


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"  # below the bar
    UNSCORED = "unscored"  # no metric that a bar is for
    ERROR = "error"  # no scores at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """An evaluation of one cell. `metric`, `score`, `stderr`, `bar`: the judged one; None where nothing was judged."""

    status: Status
    task: str
    concurrency: int
    cell_fingerprint: str
    name: str
    source: str
    metric: str | None = None
    score: float | None = None
    stderr: float | None = None
    bar: float | None = None
    samples: int | None = None
    message: str = ""
    changes: tuple[str, ...] = ()  # against the deployment that was timed
    scores: tuple[Score, ...] = ()
    folder: str = ""  # where its files lie in the run

    def text(self) -> str:
        """`gsm8k 0.912 +- 0.008, bar 0.9: passed`."""
        if self.score is None or self.bar is None:
            return f"{self.task}: {self.status}" + (f" ({self.message})" if self.message else "")
        error = f" +- {self.stderr:.3f}" if self.stderr is not None else ""
        return f"{self.task} {self.score:.3f}{error}, bar {self.bar:g}: {self.status}"


def evaluated(
    cell: Cell,
    task: str,
    scores: Sequence[Score],
    bar_of: Callable[[str, str], float],
    source: Source,
    changes: Sequence[str] = (),
) -> Evaluated:
    """The verdict: the strict match of the task decides, else any other exact match; a bar is for nothing else.
    `bar_of`: the least score by model prefix and task."""
    judged = [score for score in scores if score.metric.startswith(JUDGED)]
    strict = [s for s in judged if any(word in s.metric for word in ("strict", "resolved"))]
    best = next(iter(strict or judged), None)
    common: dict[str, Any] = {
        "task": task,
        "concurrency": cell.concurrency,
        "cell_fingerprint": cell.fingerprint,
        "name": cell.name,
        "source": str(source),
        "changes": tuple(changes),
        "scores": tuple(scores),
    }
    if best is None:
        seen = ", ".join(score.metric for score in scores) or "nothing"
        return Evaluated(status=Status.UNSCORED, message=f"no exact match was scored, but {seen}", **common)
    bar = bar_of(cell.benchmark.model_prefix, task)
    return Evaluated(
        status=Status.PASSED if best.value >= bar else Status.FAILED,
        metric=best.metric,
        score=best.value,
        stderr=best.stderr,
        bar=bar,
        samples=best.samples,
        **common,
    )


def meta_env(cell: Cell) -> dict[str, Any]:
    """`meta_env.json`: the evaluated cell under InferenceX's keys."""
    benchmark, arm, scenario = cell.benchmark, cell.arm, cell.scenario
    fixed = scenario.kind == "fixed-seq-len"
    found: dict[str, Any] = {
        "is_multinode": bool(arm.pools),
        "framework": benchmark.framework,
        "precision": benchmark.precision,
        "spec_decoding": arm.spec_decoding,
        "disagg": benchmark.disagg,
        "hw": benchmark.runner.removeprefix("cluster:"),
        "image": benchmark.image,
        "model": benchmark.model,
        "model_prefix": benchmark.model_prefix,
        "infmax_model_prefix": benchmark.model_prefix,
        "isl": scenario.isl if fixed else LENGTHS[0],
        "osl": scenario.osl if fixed else LENGTHS[1],
        "conc": cell.concurrency,
    }
    if arm.topology is not None:
        return found | _sizes("", arm.topology)
    for pool in arm.pools:
        found |= _sizes(f"{pool.role}_", pool.topology) | {f"{pool.role}_num_workers": pool.workers}
    return found


def _sizes(prefix: str, topology: Topology) -> dict[str, Any]:
    return {
        f"{prefix}tp": topology.tp,
        f"{prefix}ep": topology.ep,
        f"{prefix}pp": topology.pp,
        f"{prefix}dcp_size": topology.dcp,
        f"{prefix}pcp_size": topology.pcp,
        f"{prefix}dp_attention": "true" if topology.dp_attn else "false",
    }
