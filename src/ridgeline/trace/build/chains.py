"""Which of the flat requests of a recording continue each other.

A proxy records every request of a session in one list, whoever sent it. A request continues the chain whose last
prompt is a full prefix of its own; anything else forks. Where a chain ends exactly where a fork begins (a prompt was
compacted or edited), the fork is spliced back on: a seam. What is left beside the main chain are workers.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ridgeline.trace.build.raw import SLACK_S, Request

PREAMBLE_OUTPUT = 64  # an isolated first request this short is a title or a quota check, not the conversation
GUARD_GAP_S, GUARD_SHARE = 3600.0, 0.5  # a fork this late that keeps less than this share is a new conversation


class Fork(NamedTuple):
    """Where a chain left another: the request it shares `depth` leading blocks with."""

    parent: int  # chain
    source: int  # position of the request in the sorted list
    depth: int


@dataclass(slots=True)
class Chain:
    """Requests that continue each other, by position in the sorted list."""

    index: int
    members: list[int] = field(default_factory=list)
    tail: int | None = None  # last member with block ids
    fork: Fork | None = None


class Worker(NamedTuple):
    """A chain beside the main one. `fork_point`: (merged parent chain, request) when it shares blocks with it."""

    requests: tuple[Request, ...]
    fork_point: tuple[int, int] | None


class Chains(NamedTuple):
    """`preamble` requests open the main chain but are no yardstick for it."""

    main: tuple[Request, ...]
    workers: tuple[Worker, ...]
    preamble: int


def find_chains(requests: Sequence[Request]) -> Chains:
    """Split requests (any order) into the main chain and workers. Every request ends in exactly one of them."""
    ordered = sorted(requests, key=lambda request: request.order)
    if len(ordered) < 2:
        return Chains(tuple(ordered), (), 0)
    preamble = 1 if _is_preamble(ordered) else 0
    body = ordered[preamble:]
    merged = _splice(body, _grow(body))
    chains = [tuple(body[i] for i in sorted(chain.members)) for chain in merged]
    main = min(range(len(merged)), key=lambda i: min(merged[i].members))
    workers = [
        Worker(chains[i], (merged[i].fork.parent, merged[i].fork.source) if merged[i].fork else None)  # type: ignore[union-attr]
        for i in range(len(merged))
        if i != main
    ]
    workers.sort(key=lambda worker: worker.requests[0].order)
    return Chains((*ordered[:preamble], *chains[main]), tuple(workers), preamble)


def _is_preamble(ordered: Sequence[Request]) -> bool:
    """The earliest request stands alone: no shared prefix, and short or made of blocks found nowhere else."""
    first, others = ordered[0], [request for request in ordered[1:] if request.ids]
    if not first.ids or any(first.ids.common(other.ids) for other in others):
        return False
    if first.output <= PREAMBLE_OUTPUT:
        return True
    own = set(first.ids)
    return all(own.isdisjoint(other.ids) for other in others)


def _grow(body: Sequence[Request]) -> list[Chain]:
    """Phase 1: each request extends the longest chain it can, or forks from the nearest one."""
    chains = [Chain(0)]
    for position, request in enumerate(body):
        if not request.ids:
            chains[0].members.append(position)  # nothing to tell it by
            continue
        tails = [(chain, body[chain.tail]) for chain in chains if chain.tail is not None]
        fitting = [
            (len(tail.ids), -chain.index)
            for chain, tail in tails
            if tail.model == request.model and tail.end <= request.t + SLACK_S and request.ids.starts_with(tail.ids)
        ]
        if fitting:
            chosen = chains[-max(fitting)[1]]
        elif not tails:
            chosen = chains[0]
        else:
            depth, _, near = max((tail.ids.common(request.ids), len(tail.ids), -chain.index) for chain, tail in tails)
            source = chains[-near].tail
            assert source is not None
            chosen = Chain(len(chains), fork=Fork(-near, source, depth) if depth else None)
            chains.append(chosen)
        chosen.members.append(position)
        chosen.tail = position
    return chains


def _splice(body: Sequence[Request], chains: list[Chain]) -> list[Chain]:
    """Phase 2: seams. Returns the chains that are left, each with its fork pointing at a merged chain."""
    owner = list(range(len(chains)))  # chain -> chain it was merged into

    def root(index: int) -> int:
        while owner[index] != index:
            index = owner[index]
        return index

    forks: dict[int, list[tuple[int, int]]] = {}  # source -> (depth, chain)
    for chain in chains:
        if chain.fork:
            forks.setdefault(chain.fork.source, []).append((chain.fork.depth, chain.index))
    holder = {position: chain.index for chain in chains for position in chain.members}
    heap = [(body[source].order[1], source) for source in forks]
    heapq.heapify(heap)
    while heap:
        _, source = heapq.heappop(heap)
        waiting = forks.pop(source, [])
        home = chains[root(holder[source])]
        if not waiting or home.tail != source:
            continue
        elected = _elect(body, source, waiting, chains, home.index, root)
        if elected is None:
            continue
        guest = chains[elected]
        owner[elected] = home.index
        home.members += guest.members
        home.tail = guest.tail
        assert guest.tail is not None
        for _, index in waiting:
            if index == elected:
                continue
            depth = body[guest.tail].ids.common(body[_first_hashed(body, chains[index])].ids)
            if depth:
                forks.setdefault(guest.tail, []).append((depth, index))
                heapq.heappush(heap, (body[guest.tail].order[1], guest.tail))
    left = [chain for chain in chains if owner[chain.index] == chain.index and chain.members]
    for chain in left:
        if chain.fork:
            chain.fork = chain.fork._replace(parent=root(chain.fork.parent))
    return left


def _elect(
    body: Sequence[Request],
    source: int,
    waiting: Sequence[tuple[int, int]],
    chains: Sequence[Chain],
    home: int,
    root: object,
) -> int | None:
    """The fork that continues `source`: deepest, then earliest, then first found. None when all are separate work."""
    best: tuple[int, float, int] | None = None
    for depth, index in waiting:
        first = body[_first_hashed(body, chains[index])]
        gap = first.t - body[source].end
        if gap < -SLACK_S or first.model != body[source].model or index == home:
            continue
        if gap > GUARD_GAP_S and depth / len(body[source].ids) < GUARD_SHARE:
            continue
        rank = (depth, -first.t, -index)
        best = rank if best is None or rank > best else best
    return None if best is None else -best[2]


def _first_hashed(body: Sequence[Request], chain: Chain) -> int:
    return next(position for position in chain.members if body[position].ids)
