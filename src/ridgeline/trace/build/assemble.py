"""A recording becomes a session tree: the root, its children, and who starts and waits for whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.build.chains import find_chains
from ridgeline.trace.build.edges import Span, predecessors
from ridgeline.trace.build.hits import infinite_cache_hits
from ridgeline.trace.build.raw import SLACK_S, RawTrace, Request, Subagent, width
from ridgeline.trace.build.workers import label_workers
from ridgeline.trace.session import Branch, Conversation, Session, Turn, TurnKey


class _Stream(NamedTuple):
    """A conversation to be: its requests in order, and the recorded facts its place in the tree follows from."""

    id: str
    scope: str
    requests: tuple[Request, ...]
    declared: int
    kind: str


class _Child(NamedTuple):
    """Streams that start together with one recorded event."""

    streams: tuple[_Stream, ...]
    spawn: int  # root turn
    join: int | None
    start: float
    label: str  # names its branch, should it be the first of the group
    group: str  # "spawn" | "flatspawn"


def build_session(trace: RawTrace) -> Session:
    """The session tree of one recording. Raises InputError: no requests, twice the same agent id, declared prefix
    longer than the first prompt."""
    if not trace.requests:
        raise InputError([Problem("no requests outside subagents, nothing to replay", trace.where, "requests")])
    flat = find_chains(trace.requests)
    root = _Stream(trace.id, trace.id, flat.main, trace.declared_tokens, "weka_main")
    children = list(_subagents(trace, root))
    for index, (worker, label) in enumerate(zip(flat.workers, label_workers(flat), strict=True)):
        declared = _declared(trace, worker.requests, flat.main, trace.declared_tokens)
        stream = _Stream(f"{trace.id}::{label}", trace.id, worker.requests, declared, "weka_flat")
        first = worker.requests[0]
        spawn = _last_before(flat.main, first.outer)
        end = max(request.end for request in worker.requests)
        join = _first_after(flat.main, first.outer, end)
        children.append(_Child((stream,), spawn or 0, join, first.t, str(index), "flatspawn"))
    streams = [root, *(stream for child in children for stream in child.streams)]
    branches, owner = _branches(trace.id, children)
    return _tree(trace, streams, branches, owner)


def _subagents(trace: RawTrace, root: _Stream) -> list[_Child]:
    children = []
    for agent in trace.subagents:
        spawn = _last_before(root.requests, agent.outer)
        if spawn is None or not agent.requests:
            continue
        name = f"{trace.id}::sa:{agent.agent_id}"
        chains = find_chains(agent.requests)
        streams = [_Stream(name, name, chains.main, agent.declared_tokens, "weka_subagent")]
        for worker, label in zip(chains.workers, label_workers(chains), strict=True):
            declared = _declared(trace, worker.requests, chains.main, agent.declared_tokens)
            streams.append(_Stream(f"{name}:{label}", name, worker.requests, declared, "weka_subagent"))
        join = _first_after(root.requests, agent.outer, _end(agent))
        children.append(_Child(tuple(streams), spawn, join, agent.t, agent.agent_id, "spawn"))
    ids = [child.label for child in children]
    twice = sorted({label for label in ids if ids.count(label) > 1})
    if twice:
        raise InputError(
            [Problem(f"agent id {label!r} names two subagents", trace.where, "agent_id") for label in twice]
        )
    return children


def _end(agent: Subagent) -> float:
    """When a subagent was done: its own duration, else its last answer, else its start."""
    if agent.duration_ms is not None:
        return agent.t + width(agent.duration_ms) / 1000
    return max((request.end for request in agent.requests), default=agent.t)


def _last_before(root: Sequence[Request], outer: int) -> int | None:
    return max((k for k, request in enumerate(root) if request.outer < outer), default=None)


def _first_after(root: Sequence[Request], outer: int, end: float) -> int | None:
    return next((k for k, r in enumerate(root) if r.outer > outer and r.t + SLACK_S >= end), None)


def _prefix_blocks(declared: int, block_size: int) -> int:
    return -(-declared // block_size)


def _declared(trace: RawTrace, worker: Sequence[Request], base: Sequence[Request], declared: int) -> int:
    """A worker has the declared system prompt only if its first prompt opens with the base chain's."""
    blocks = _prefix_blocks(declared, trace.block_size)
    ids, reference = worker[0].ids, base[0].ids
    same = len(ids) >= blocks <= len(reference) and ids.common(reference) >= blocks
    return declared if same else 0


def _branches(trace_id: str, children: Sequence[_Child]) -> tuple[list[Branch], dict[int, int]]:
    """Children with equal spawn and join share a branch. Returns branches and conversation -> branch."""
    groups: dict[tuple[str, int, int | None], list[tuple[_Child, list[int]]]] = {}
    conversation = 1
    for child in children:
        indices = list(range(conversation, conversation + len(child.streams)))
        conversation += len(indices)
        groups.setdefault((child.group, child.spawn, child.join), []).append((child, indices))
    branches: list[Branch] = []
    owner: dict[int, int] = {}
    for number, ((group, spawn, join), members) in enumerate(groups.items()):
        inside = tuple(chain.from_iterable(indices for _, indices in members))
        owner |= dict.fromkeys(inside, number)
        start = min(child.start for child, _ in members)
        name = f"{trace_id}:{group}:{members[0][0].label}"
        branches.append(Branch(id=name, children=inside, spawn_turn=spawn, join_turn=join, start_ns=_ns(start)))
    return branches, owner


def _tree(trace: RawTrace, streams: Sequence[_Stream], branches: Sequence[Branch], owner: dict[int, int]) -> Session:
    edges = _edges(streams)
    hits = _hits(streams)
    conversations = []
    for index, stream in enumerate(streams):
        blocks = _prefix_blocks(stream.declared, trace.block_size)
        if blocks > len(stream.requests[0].ids):
            text = f"declares {stream.declared} tool and system tokens, but its first prompt has fewer blocks"
            raise InputError([Problem(f"{stream.id} {text}", trace.where, "system_tokens")])
        turns = []
        previous: Request | None = None
        for k, request in enumerate(stream.requests):
            spawns = tuple(b for b, branch in enumerate(branches) if index == 0 and branch.spawn_turn == k)
            joins = tuple(b for b, branch in enumerate(branches) if index == 0 and branch.join_turn == k)
            turns.append(
                Turn(
                    at_ns=_ns(request.t),
                    delay_ns=None if previous is None else _delay(previous, request),
                    api_ns=None if request.api_time is None else _ns(request.api_time),
                    input_tokens=request.input,
                    output_tokens=request.output,
                    model=request.model,
                    hash_ids=request.ids,
                    declared_prefix_tokens=stream.declared if k == 0 else 0,
                    kind=_kind(previous, request),
                    spawns=spawns,
                    joins=joins,
                    predecessors=tuple(TurnKey(*key) for key in edges.get((index, k), ())),
                    hit_blocks=hits[index, k],
                    outer=request.outer,
                    inner=request.inner,
                    source_kind=stream.kind,
                )
            )
            previous = request
        conversations.append(
            Conversation(
                id=stream.id, scope=stream.scope, turns=tuple(turns), depth=int(index > 0), branch=owner.get(index)
            )
        )
    return Session(
        id=trace.id, conversations=tuple(conversations), branches=tuple(branches), block_size=trace.block_size
    )


def _ns(seconds: float) -> int | None:
    return round(seconds * 1e9) if math.isfinite(seconds) else None


def _delay(previous: Request, request: Request) -> int | None:
    """Idle between the previous answer and this request. The arithmetic is in milliseconds, as recorded clocks are."""
    gap = (request.t - previous.t) * 1000
    idle = gap - (previous.api_time or 0.0) * 1000
    return round(max(0.0, idle) * 1e6) if math.isfinite(idle) else None


def _kind(previous: Request | None, request: Request) -> str | None:
    if request.input_types:
        return "tool_result" if "tool_result" in request.input_types else "user_input"
    if previous is None or not previous.stop:
        return None
    return "tool_result" if previous.stop == "tool_use" else "user_input"


def _edges(streams: Sequence[_Stream]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    scopes: dict[str, list[int]] = {}
    for index, stream in enumerate(streams):
        scopes.setdefault(stream.scope, []).append(index)
    edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for members in scopes.values():
        spans = [
            [Span(r.t * 1000, r.t * 1000 + width(r.api_time) * 1000, (i, k)) for k, r in enumerate(streams[i].requests)]
            for i in members
        ]
        edges |= predecessors(spans, [streams[i].id for i in members])
    return edges


def _hits(streams: Sequence[_Stream]) -> dict[tuple[int, int], int]:
    order: list[tuple[float, int, int, int, BlockIds]] = sorted(
        ((r.t, r.outer, index, k, r.ids) for index, s in enumerate(streams) for k, r in enumerate(s.requests)),
        key=lambda item: item[:4],
    )
    hits = infinite_cache_hits(item[4] for item in order)
    return {(index, k): hit for (_, _, index, k, _), hit in zip(order, hits, strict=True)}
