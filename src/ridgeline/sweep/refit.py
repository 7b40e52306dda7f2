"""One start without load on another image: real memory facts, old against new, and the flags that follow.

In: a cell's deployment and evidence of an earlier start. Out: what was found, the differences, and proposals. It never
changes a recipe: proposals are for people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ridgeline.core.deployment import Deployment
from ridgeline.core.finding import Evidence
from ridgeline.core.units import GIB
from ridgeline.launch.phases import Phases
from ridgeline.launch.supervisor import Supervisor, Wrap
from ridgeline.sweep.proof import from_logs

# Facts of memory and graphs that a start tells, in the order they are shown.
FACTS = (
    "engine_version", "free_at_start_gib", "weights_gib", "consumed_gib", "activation_gib", "non_torch_gib", "kv_gib",
    "kv_tokens", "kv_concurrency", "max_model_len", "graph_gib",
    "full_graphs", "piecewise_graphs", "cudagraph_mode", "attention_backend", "moe_backend", "prefix_caching",
    "model_runner", "async_scheduling",
)  # fmt: skip
LOST = 0.03  # of the pool: smaller by more than this is worth a flag
UTILIZATION = "--gpu-memory-utilization"
DEFAULT_UTILIZATION = 0.9
MOST = 0.98  # nothing above is proposed: the driver and the graphs need the rest


class Change(NamedTuple):
    """One fact, before and now; None where a start did not tell it."""

    name: str
    old: float | str | None
    new: float | str | None


@dataclass(frozen=True, slots=True)
class Refit:
    """What one start showed."""

    evidence: tuple[Evidence, ...]
    changes: tuple[Change, ...]
    proposals: tuple[str, ...]
    ready_s: Mapping[str, float | None]


def start_once(
    deployment: Deployment,
    folder: Path,
    on_start: Callable[[str, Phases], None] = lambda service, phases: None,
    wrap: Wrap | None = None,
) -> tuple[tuple[Evidence, ...], dict[str, float | None]]:
    """Start a deployment, wait until it has answered, stop it. `wrap`: words that enter an image. Raises
    EnvironmentFailed when it does not come up."""
    supervisor = Supervisor(deployment, folder, on_start=on_start)
    if wrap is not None:
        supervisor.wrap = wrap
    with supervisor:
        ready = {name: running.ready_s for name, running in supervisor.running.items()}
    logs = {path.name: path for path in supervisor.logs.values()}
    return from_logs(deployment, logs), ready


def refit(
    deployment: Deployment,
    new: Sequence[Evidence],
    ready_s: Mapping[str, float | None],
    old: Sequence[Evidence] = (),
    *,
    gpu_memory: int | None = None,
) -> Refit:
    """Compare two starts. `gpu_memory`: of one GPU, bytes, for a proposal of its share."""
    before, now = facts(old), facts(new)
    names = [name for name in FACTS if name in before or name in now]
    changes = tuple(Change(name, before.get(name), now.get(name)) for name in names)
    return Refit(tuple(new), changes, tuple(_proposals(deployment, before, now, gpu_memory)), ready_s)


def facts(evidence: Sequence[Evidence]) -> dict[str, float | str]:
    """One value a fact: the smallest where ranks differ, since the poorest one decides."""
    found: dict[str, float | str] = {}
    for piece in evidence:
        known = found.get(piece.name)
        if piece.name not in FACTS:
            continue
        if known is None or (isinstance(known, float) and isinstance(piece.value, float) and piece.value < known):
            found[piece.name] = piece.value
    return found


def _proposals(
    deployment: Deployment, old: Mapping[str, float | str], new: Mapping[str, float | str], gpu_memory: int | None
) -> list[str]:
    found = []
    before, now = old.get("kv_gib"), new.get("kv_gib")
    if isinstance(before, float) and isinstance(now, float) and now < before * (1 - LOST):
        lost = before - now
        text = f"the KV pool lost {lost:.2f} GiB a GPU"
        if gpu_memory:
            given = _utilization(deployment)
            wanted = min(MOST, given + lost * GIB / gpu_memory)
            text += f": {UTILIZATION} {wanted:.3f} instead of {given:g} gives it back, if that much is free"
        found.append(text)
    full_old, full_new = old.get("full_graphs"), new.get("full_graphs")
    if isinstance(full_old, float) and isinstance(full_new, float) and full_new < full_old:
        found.append(
            f"{full_new:.0f} full graphs instead of {full_old:.0f}: name the sizes with --cudagraph-capture-sizes"
        )
    for name in ("attention_backend", "moe_backend"):
        if name in old and name in new and old[name] != new[name]:
            flag = f"--{name.replace('_', '-')}"
            found.append(f"{name.replace('_', ' ')} changed from {old[name]} to {new[name]}: {flag} pins it")
    return found


def _utilization(deployment: Deployment) -> float:
    for service in deployment.services:
        words = [item.text for item in service.argv]
        for flag, value in pairwise(words):
            if flag == UTILIZATION:
                return float(value)
    return DEFAULT_UTILIZATION
