"""What a recording says, before anything is concluded from it. Times in seconds, as written in the file."""

from __future__ import annotations

import math
from typing import NamedTuple

from ridgeline.core.where import Where
from ridgeline.trace.blocks import BlockIds

SLACK_S = 1e-6  # recorded times are rounded; two moments this close count as one


class Request(NamedTuple):
    """One model call. `outer`: its place in the trace's list; `inner`: its place in a subagent's list."""

    outer: int
    inner: int | None
    t: float
    model: str
    input: int
    output: int
    ids: BlockIds
    api_time: float | None
    stop: str = ""
    input_types: tuple[str, ...] = ()

    @property
    def end(self) -> float:
        """When the answer was complete; a missing, negative or non-finite duration counts as none."""
        return self.t + width(self.api_time)

    @property
    def order(self) -> tuple[float, int]:
        return (self.t, self.outer if self.inner is None else self.inner)


class Subagent(NamedTuple):
    """A marker: a child conversation was started here. Inner times are on the trace's own clock."""

    outer: int
    t: float
    agent_id: str
    duration_ms: float | None
    requests: tuple[Request, ...]
    declared_tokens: int = 0  # tool + system tokens


class RawTrace(NamedTuple):
    """One recorded session."""

    id: str
    block_size: int
    requests: tuple[Request, ...]
    subagents: tuple[Subagent, ...] = ()
    declared_tokens: int = 0
    where: Where | None = None


def width(duration: float | None) -> float:
    """A duration that can be added: missing, negative and non-finite become 0."""
    return duration if duration is not None and math.isfinite(duration) and duration > 0 else 0.0
