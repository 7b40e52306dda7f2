"""Faults that can be seeded into the emulated engine: what it does then differs from what it was asked to do.

They prove that a run notices. Each one makes the engine behave, count and log as a real engine with that defect does;
nothing in a run is told that a fault was seeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.engine import Engine
from ridgeline.simulate.limits import Limits
from ridgeline.simulate.scheduler import Scheduler

# kind -> (what it does, whether it takes a number)
KINDS: dict[str, tuple[str, bool]] = {
    "graphs-above": ("no graph is captured for more than N sequences", True),
    "no-prefix-cache": ("the prefix cache is off", False),
    "no-affinity": ("requests go round the ranks, whatever session they belong to", False),
    "preempt-every": ("every N-th step of a rank takes the blocks from a running request", True),
    "acceptance": ("speculation accepts N tokens a step on average", True),
    "absent-rank": ("the last data-parallel rank is not there", False),
    "small-pool": ("the KV pool holds N tokens a rank", True),
}


class Fault(NamedTuple):
    """One seeded fault."""

    kind: str
    number: float = 0.0


def parse_faults(texts: Iterable[str]) -> tuple[Fault, ...]:
    """Faults from `KIND` or `KIND=N`. Raises InputError with every one that is wrong."""
    found, problems = [], []
    for text in texts:
        kind, _, value = text.partition("=")
        known = KINDS.get(kind)
        if known is None:
            problems.append(Problem(f"unknown fault `{kind}`", key="--fault", hint=f"one of {', '.join(KINDS)}"))
            continue
        try:
            number = float(value) if known[1] else 0.0
        except ValueError:
            number = -1.0
        if (known[1] and number <= 0) or (value and not known[1]):
            want = f"`{kind}=N` with a number above 0" if known[1] else f"`{kind}` alone"
            problems.append(Problem(f"`{text}` is not understood", key="--fault", hint=f"write {want}"))
        else:
            found.append(Fault(kind, number))
    if problems:
        raise InputError(problems)
    return tuple(found)


def degraded(options: EngineOptions, faults: Sequence[Fault]) -> EngineOptions:
    """What the engine does instead of what was asked."""
    for kind, number in faults:
        if kind == "graphs-above":
            most = int(number) * (1 + options.num_speculative_tokens)
            sizes = tuple(size for size in (1, 2, 4, *range(8, most + 1, 8)) if size <= most)
            options = replace(options, cudagraph_capture_sizes=sizes)
        elif kind == "no-prefix-cache":
            options = replace(options, enable_prefix_caching=False)
        elif kind == "no-affinity":
            options = replace(options, router="round-robin")
        elif kind == "acceptance":
            if not options.num_speculative_tokens:
                raise InputError([Problem("this engine does not speculate", key="--fault")])
            options = replace(options, acceptance_length=number)
        elif kind == "small-pool":
            options = replace(options, kv_tokens=int(number))
    return options


def seed_faults(engine: Engine, faults: Sequence[Fault]) -> None:
    """Change an engine that has not started yet. Raises InputError for a rank to take away where there is one only."""
    for kind, number in faults:
        if kind == "preempt-every":
            engine.ranks = [_Restless(engine.limits, int(number)) for _ in engine.ranks]
        elif kind == "absent-rank":
            if len(engine.ranks) < 2:
                raise InputError([Problem("there is one rank only", key="--fault", hint="use it with --dp-attn")])
            engine.lose_rank()


class _Restless(Scheduler):
    """A scheduler that preempts its last running request every so many steps."""

    def __init__(self, limits: Limits, every: int) -> None:
        super().__init__(limits)
        self._every = every
        self._steps = 0

    def schedule(self) -> Batch | None:
        self._steps += 1
        if self._steps % self._every == 0 and self.running:
            self.preempt_last()
        return super().schedule()
