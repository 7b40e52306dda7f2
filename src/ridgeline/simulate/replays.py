"""Agentic points replayed one a core: each is an hour of virtual time, which takes seconds to minutes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from multiprocessing import get_context

from ridgeline.core.errors import InputError
from ridgeline.simulate.agentic import WHOLE_SET, Seen, agent_sessions, old_pacing, predicted
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.points import Measured

Task = tuple[Measured, CostParameters, int]
_LONGEST = 160  # characters of a reason


class Replays:
    """Points to be replayed, their parameters and how many simulated seconds each."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks

    def all(self, jobs: int) -> Iterator[Seen | str]:
        """What every point shows, in order, as it is done; or why there is nothing to see."""
        processes = min(jobs, len(self.tasks))
        if processes < 2:
            yield from map(_replayed, self.tasks)
            return
        for kind in {(point.model in WHOLE_SET, old_pacing(point)) for point, _, _ in self.tasks}:
            agent_sessions(*kind)  # once, before the processes part
        with get_context("fork").Pool(processes) as pool:
            yield from pool.imap(_replayed, self.tasks)


def _replayed(task: Task) -> Seen | str:
    try:
        return predicted(*task) or "no request ends within the window"
    except InputError as error:
        reason = error.problems[0].message if error.problems else str(error)
        return reason[:_LONGEST]
