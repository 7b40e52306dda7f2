"""What kind of worker a chain beside the main one is. Labels name conversations; they do not change when it is sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ridgeline.trace.build.chains import Chains, Worker

SMALL_INPUT, SMALL_SHARE = 16384, 0.10  # a single request below both is a helper call (title, classifier)
SUMMARY_OUTPUT, SUMMARY_RATIO = 4000, 20  # a long prompt reduced to a short text is a compaction
GROUP_SIZE = 3  # workers forked at one request that run at the same time


def label_workers(chains: Chains) -> list[str]:
    """`aux:NNN`, `wg:GGG_MMM` or `fa:NNN` for every worker, in order; NNN counts all workers."""
    yardstick = chains.main[chains.preamble :] or chains.main
    model = yardstick[0].model
    small = max(SMALL_INPUT, int(SMALL_SHARE * max(request.input for request in yardstick)))
    labels = {}
    for index, worker in enumerate(chains.workers):
        first = worker.requests[0]
        if len(worker.requests) > 1:
            continue
        helper = first.model != model or first.input < small
        summary = 0 < first.output < SUMMARY_OUTPUT and first.input >= SMALL_INPUT
        if helper or (summary and first.input > SUMMARY_RATIO * first.output):
            labels[index] = f"aux:{index:03d}"
    rest = [index for index in range(len(chains.workers)) if index not in labels]
    for group, members in enumerate(_groups(chains.workers, rest)):
        labels |= {index: f"wg:{group:03d}_{member:03d}" for member, index in enumerate(members)}
    return [labels.get(index, f"fa:{index:03d}") for index in range(len(chains.workers))]


def _groups(workers: Sequence[Worker], candidates: Sequence[int]) -> list[list[int]]:
    """Sets of workers that forked at one request and overlap in time, by earliest start."""
    by_fork: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index in candidates:
        point = workers[index].fork_point
        if point is not None:
            by_fork[point].append(index)
    groups = []
    for members in by_fork.values():
        run: list[int] = []
        until = float("-inf")
        for index in sorted(members, key=lambda index: workers[index].requests[0].order):
            start = workers[index].requests[0].t
            if run and start >= until:
                groups.append(run)
                run, until = [], float("-inf")
            run.append(index)
            until = max(until, max(request.end for request in workers[index].requests))
        groups.append(run)
    large = [group for group in groups if len(group) >= GROUP_SIZE]
    return sorted(large, key=lambda group: workers[group[0]].requests[0].order)
