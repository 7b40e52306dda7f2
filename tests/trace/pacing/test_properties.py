"""What must hold for any session, any latencies and either profile."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.trace.pacing.driving import Run, drive, stream

from ridgeline.core.record import Outcome
from ridgeline.core.units import SECOND, nanoseconds
from ridgeline.trace.pacing import AgentPacer, PacingSettings, Send
from ridgeline.trace.session import Branch, Session, TurnKey


def any_session(seed: int, id: str) -> Session:
    """A root, up to three branches of up to three children, and predecessors as the recording implies them."""
    draw = random.Random(seed)
    api = 0.4
    root = sorted(round(draw.uniform(0, 40), 3) for _ in range(draw.randint(1, 7)))
    starts: list[list[float]] = [root]
    owners: list[int | None] = [None]
    branches: list[Branch] = []
    for index in range(draw.randint(0, 3)):
        spawn = draw.randrange(len(root))
        children = []
        for _ in range(draw.randint(1, 3)):
            begin = root[spawn] + draw.choice((0.1, 0.5, 3.0, 30.0)) * draw.random()
            starts.append(sorted(begin + draw.uniform(0, 8) for _ in range(draw.randint(1, 4))))
            owners.append(index)
            children.append(len(starts) - 1)
        start_ns = min(nanoseconds(starts[child][0]) for child in children)
        done = max(starts[child][-1] + api for child in children)
        join = next((k for k in range(spawn + 1, len(root)) if root[k] >= done), None)
        branches.append(
            Branch(id=str(index), children=tuple(children), spawn_turn=spawn, join_turn=join, start_ns=start_ns)
        )
    conversations = []
    for index, own in enumerate(starts):
        more: dict[int, dict[str, Any]] = {}
        for turn, at in enumerate(own):
            before = [
                TurnKey(other, max(k for k, s in enumerate(theirs) if s < at and s + api <= at))
                for other, theirs in enumerate(starts)
                if other != index and any(s < at and s + api <= at for s in theirs)
            ]
            more[turn] = {"predecessors": tuple(before)}
            if index == 0:
                more[turn]["spawns"] = tuple(k for k, b in enumerate(branches) if b.spawn_turn == turn)
                more[turn]["joins"] = tuple(k for k, b in enumerate(branches) if b.join_turn == turn)
        conversations.append(stream(f"{id}::{index}" if index else id, own, api=api, branch=owners[index], more=more))
    return Session(id=id, conversations=tuple(conversations), branches=tuple(branches))


cases = st.builds(
    dict,
    seed=st.integers(0, 10_000),
    lanes=st.integers(1, 4),
    pool=st.integers(1, 4),
    profile=st.sampled_from(("agentx", "aiperf-0.13")),
    quota=st.integers(0, 5),
    start_style=st.sampled_from(("spread", "burst")),
    failing=st.sampled_from((0.0, 0.2)),
    idle_cap=st.sampled_from((None, 2 * SECOND)),
)


def play(case: dict[str, Any]) -> tuple[AgentPacer, Run]:
    pacer = AgentPacer(
        [any_session(case["seed"] + index, f"s{index}") for index in range(case["pool"])],
        PacingSettings(
            concurrency=case["lanes"],
            benchmark_id="b",
            profile=case["profile"],
            duration_ns=120 * SECOND,
            warmup_requests_per_lane=case["quota"],
            start_style=case["start_style"],
            system_idle_cap_ns=case["idle_cap"],
            trace_idle_cap_ns=5 * SECOND,
            failure_threshold=None,
        ),
    )
    draw = random.Random(case["seed"])
    latencies = [draw.choice((0.05, 0.4, 3.0, 12.0)) for _ in range(997)]
    outcomes = [draw.random() < case["failing"] for _ in range(997)]
    kinds = (Outcome.HTTP_ERROR, Outcome.OVERFLOW, Outcome.TRUNCATED)

    def outcome(send: Send) -> Outcome:
        if send.phase == "warmup" or not outcomes[send.id % 997]:
            return Outcome.OK
        return kinds[send.id % 3]

    return pacer, drive(pacer, lambda send: latencies[send.id % 997], outcome)


@hypothesis_settings(max_examples=15, deadline=None)
@given(cases)
def test_the_rules_hold_for_any_load(case: dict[str, Any]) -> None:
    pacer, run = play(case)
    assert pacer.finished and pacer.aborted is None
    assert pacer.tally.turns_forced == 0  # waits implied by a recording never form a ring
    ends: dict[tuple[int, TurnKey], float] = {}
    sent: dict[tuple[int, TurnKey], float] = {}
    ended: dict[tuple[int, int], float] = {}  # streams that overflowed: nobody waits for the rest of them
    measured = [seen for seen in run.seen if seen.send.phase == "profiling"]
    live: dict[int, int] = {}
    for seen in sorted(run.seen, key=lambda seen: (seen.at, seen.send.id)):
        send = seen.send
        assert live.setdefault(send.lane, send.tree) <= send.tree
        live[send.lane] = send.tree
        assert len(live) <= case["lanes"]
    for seen in measured:
        key = (seen.send.tree, seen.send.key)
        assert key not in sent, "a turn is measured once"
        sent[key] = seen.at
        ends[key] = seen.end if seen.end is not None else float("inf")
        if seen.outcome is Outcome.OVERFLOW:
            ended[(seen.send.tree, seen.send.key.conversation)] = ends[key]
    for (tree, key), at in sent.items():
        session = next(seen.send.session for seen in measured if seen.send.tree == tree)
        if key.turn and (tree, TurnKey(key.conversation, key.turn - 1)) in ends:
            assert at >= ends[(tree, TurnKey(key.conversation, key.turn - 1))]
        for before in session.turn(key).predecessors:
            if (tree, before) in sent:
                assert at >= ends[(tree, before)]
        for branch in session.turn(key).joins:
            for child in session.branches[branch].children:
                for turn in range(len(session.conversations[child].turns)):
                    if (tree, TurnKey(child, turn)) in sent:
                        assert at >= ends[(tree, TurnKey(child, turn))]
    closes = 120 + (pacer.phases.profiling_start_ns or 0) / SECOND
    assert all(seen.at < closes for seen in measured)
    markers: dict[int, set[str]] = {}
    for seen in run.seen:
        markers.setdefault(seen.send.tree, set()).add(seen.send.marker)
    assert all(len(each) == 1 for each in markers.values())
    assert len(set().union(*markers.values())) == len(markers)


@hypothesis_settings(max_examples=15, deadline=None)
@given(cases)
def test_no_lane_stands_still_while_its_tree_could_go_on(case: dict[str, Any]) -> None:
    """With the trace cap at 5 s, a tree of the `agentx` profile is never without a request for longer."""
    pacer, run = play(case | {"profile": "agentx"})
    opened = (pacer.phases.profiling_start_ns or 0) / SECOND
    for lane in range(case["lanes"]):
        spans = sorted((s.at, s.end or s.at) for s in run.seen if s.send.lane == lane and s.send.phase == "profiling")
        reached = opened
        for start, end in [*spans, (min(opened + 120, run.finished_at), 0.0)]:
            assert start - reached <= 5.0 + 1e-6
            reached = max(reached, end)


@hypothesis_settings(max_examples=15, deadline=None)
@given(cases)
def test_equal_completions_give_equal_sends(case: dict[str, Any]) -> None:
    first, second = play(case)[1], play(case)[1]
    assert first.seen == second.seen


@hypothesis_settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=2, max_size=6), st.integers(0, 60))
def test_a_cut_keeps_order_and_spacing(waits: list[int], cap: int) -> None:
    pool = [Session(id=str(i), conversations=(stream(str(i), (0, wait + 0.4)),)) for i, wait in enumerate(waits)]
    pacer = AgentPacer(
        pool,
        PacingSettings(
            concurrency=len(pool),
            benchmark_id="b",
            warmup=False,
            start_min_ratio=0.0,
            start_max_ratio=0.0,
            max_trees=len(pool),
            system_idle_cap_ns=cap * SECOND,
            trace_idle_cap_ns=None,
        ),
    )
    run = drive(pacer, lambda send: 0.4 if send.key.turn == 0 else 1000.0)  # busy from the first second turn on
    cut = max(0, min(waits) - cap)
    assert [run.at(f"{index}:1") for index in range(len(pool))] == [round(wait + 0.4 - cut, 6) for wait in waits]
