"""The load that checks reason about: how long contexts grow and how many requests a lane has in flight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ridgeline.core.cell import Cell

# Lanes send one request at a time, and a session's subagents run beside it: recipes allow for two per lane.
AGENTIC_REQUESTS_PER_LANE = 2


@dataclass(frozen=True, slots=True)
class Workload:
    """Tokens of context (input and output together) of a request. `assumed`: not from the trace that will run."""

    p50: int
    p95: int
    longest: int
    requests_per_lane: int
    source: str
    assumed: bool

    def in_flight(self, concurrency: int, ranks: int) -> int:
        """Requests one rank has at once, when all lanes are busy and ranks are even."""
        return -(-self.requests_per_lane * concurrency // ranks)


# Peak input and output of a session in the public 739 sessions of kv-cache-tester (Apache-2.0) that the agentic
# scenario replays: p50 148k, p90 341k, longest 895k. Per request: p50 103,659, p90 233,634, p99 498,519. The p95 is
# read off the logarithm of the share between p90 and p99.
PUBLISHED = Workload(
    103_659, 290_000, 895_000, AGENTIC_REQUESTS_PER_LANE, "published figures of the 739 public sessions", True
)


def workload_of(cell: Cell, contexts: Iterable[int] = (), source: str = "") -> Workload:
    """The workload of a cell: its own lengths, else the contexts of a trace's requests, else the published figures."""
    scenario = cell.scenario
    if scenario.kind == "fixed-seq-len":
        length = (scenario.isl or 0) + (scenario.osl or 0)
        return Workload(length, length, length, 1, f"isl {scenario.isl} + osl {scenario.osl}", False)
    ordered = sorted(contexts)
    if not ordered:
        return PUBLISHED
    last = len(ordered) - 1
    return Workload(
        ordered[last // 2], ordered[round(0.95 * last)], ordered[-1], AGENTIC_REQUESTS_PER_LANE, source, False
    )
