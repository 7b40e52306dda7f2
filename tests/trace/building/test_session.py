"""Session trees: spawn and join, delays, kinds, edges, hits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.making import request, trace

from ridgeline.core.errors import InputError
from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.build import Subagent, build_session
from ridgeline.trace.build.edges import Span, predecessors
from ridgeline.trace.build.hits import infinite_cache_hits
from ridgeline.trace.session import TurnKey


def agent(outer: int, t: float, name: str, duration_ms: float | None = None, *, calls: int = 2) -> Subagent:
    inner = tuple(request(outer, t + 2 * k, [100, *range(200, 201 + k)])._replace(inner=k) for k in range(calls))
    return Subagent(outer, t, name, duration_ms, inner)


def growing(*times: float, gap: int = 1) -> list:
    return [request(k * gap, t, range(k + 1)) for k, t in enumerate(times)]


def test_a_subagent_hangs_between_spawn_and_join() -> None:
    root = [request(0, 0, [0]), request(2, 5, [0, 1]), request(3, 30, [0, 1, 2])]
    session = build_session(trace(root, subagents=(agent(1, 2, "x", 4000),)))
    (branch,) = session.branches
    assert branch.id == "s1:spawn:x"
    assert (branch.spawn_turn, branch.join_turn, branch.start_ns) == (0, 2, 2_000_000_000)  # ends at 6 s, after turn 1
    assert session.root.turns[0].spawns == (0,)
    assert session.root.turns[2].joins == (0,)
    child = session.conversations[1]
    assert (child.id, child.scope, child.depth, child.branch) == ("s1::sa:x", "s1::sa:x", 1, 0)
    assert [turn.at_ns for turn in child.turns] == [2_000_000_000, 4_000_000_000]
    assert [(turn.outer, turn.inner) for turn in child.turns] == [(1, 0), (1, 1)]


def test_end_of_a_subagent_is_its_duration_else_its_last_answer() -> None:
    root = [request(0, 0, [0]), request(2, 4.5, [0, 1], api_time=0.1), request(3, 5, [0, 1, 2])]
    for duration, join in ((2500, 1), (3000, 2), (-5, 1), (None, 2)):  # last answer ends at 5 s
        session = build_session(trace(root, subagents=(agent(1, 2, "x", duration),)))
        assert session.branches[0].join_turn == join, duration
    assert build_session(trace(root, subagents=(agent(1, 2, "x", 9000),))).branches[0].join_turn is None


def test_equal_spawn_and_join_share_a_branch() -> None:
    root = [request(0, 0, [0]), request(4, 50, [0, 1]), request(6, 60, [0, 1, 2])]
    agents = (agent(1, 3, "x", 10_000), agent(2, 2, "y", 20_000), agent(5, 55, "z", 1000))
    session = build_session(trace(root, subagents=agents))
    assert [(b.id, b.children, b.start_ns) for b in session.branches] == [
        ("s1:spawn:x", (1, 2), 2_000_000_000),
        ("s1:spawn:z", (3,), 55_000_000_000),
    ]


def test_a_subagent_before_the_first_request_is_left_out() -> None:
    session = build_session(trace([request(1, 0, [0])], subagents=(agent(0, 0, "x"),)))
    assert len(session.conversations) == 1


def test_what_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(InputError, match="no requests outside subagents"):
        build_session(trace([], subagents=(agent(0, 0, "x"),)))
    with pytest.raises(InputError, match="names two subagents"):
        build_session(
            trace(growing(0, 9), subagents=(agent(0, 1, "x"), agent(0, 2, "x")))._replace(
                requests=(request(-1, 0, [0]),)
            )
        )
    with pytest.raises(InputError, match="fewer blocks"):
        build_session(trace(growing(0), declared_tokens=65))


def test_flat_workers_start_with_the_turn_before_them() -> None:
    root = [request(0, 0, [0], api_time=20), request(1, 2, [0, 5, 6], api_time=2), request(2, 30, [0, 1])]
    session = build_session(trace(root))
    assert [c.id for c in session.conversations] == ["s1", "s1::aux:000"]
    assert session.conversations[1].scope == "s1"
    (branch,) = session.branches
    assert (branch.id, branch.spawn_turn, branch.join_turn) == ("s1:flatspawn:0", 0, 1)


def test_delays_are_idle_time_and_never_negative() -> None:
    root = [request(0, 0, [0], api_time=2.5), request(1, 4, [0, 1], api_time=9), request(2, 6, [0, 1], api_time=None)]
    turns = build_session(trace(root[:2])).root.turns
    assert [turn.delay_ns for turn in turns] == [None, 1_500_000_000]
    overlapping = build_session(trace([root[1], root[2]._replace(ids=BlockIds.of([])), root[0]._replace(t=8)]))
    assert overlapping.root.turns[1].delay_ns == 0
    assert overlapping.root.turns[1].api_ns is None


def test_kinds_follow_the_input_or_the_answer_before() -> None:
    root = [
        request(0, 0, [0], stop="tool_use"),
        request(1, 5, [0, 1], stop="end_turn"),
        request(2, 9, [0, 1, 2], stop=""),
        request(3, 12, [0, 1, 2, 3], input_types=("text", "tool_result")),
        request(4, 15, [0, 1, 2, 3, 4], input_types=("text",)),
    ]
    kinds = [turn.kind for turn in build_session(trace(root)).root.turns]
    assert kinds == [None, "tool_result", "user_input", "tool_result", "user_input"]


def test_a_worker_has_the_declared_prompt_only_if_it_opens_with_it() -> None:
    for first, declared in (([0, 1, 8], 128), ([0, 9, 8], 0)):
        root = [request(0, 0, [0, 1, 2], api_time=20), request(1, 2, first, api_time=2), request(2, 30, [0, 1, 2, 3])]
        worker = build_session(trace(root, declared_tokens=128)).conversations[1]
        assert worker.turns[0].declared_prefix_tokens == declared


def test_edges_are_the_latest_ended_requests_without_the_implied_ones() -> None:
    a = [Span(0, 10, (0, 0)), Span(40, 50, (0, 1))]
    b = [Span(12, 20, (1, 0)), Span(60, 70, (1, 1))]
    c = [Span(22, 30, (2, 0))]
    found = predecessors([a, b, c], ["s", "s::fa:0", "s::fa:1"])
    assert found == {
        (0, 1): [(2, 0)],  # b's first precedes c's, so only c's is kept
        (1, 0): [(0, 0)],
        (1, 1): [(0, 1)],
        (2, 0): [(1, 0)],
    }
    assert predecessors([a], ["s"]) == {}


def test_edges_reach_the_tree() -> None:
    root = [request(0, 0, [0], api_time=20), request(1, 2, [0, 5, 6], api_time=2), request(2, 30, [0, 1])]
    assert build_session(trace(root)).root.turns[1].predecessors == (TurnKey(1, 0),)


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-1, 4), max_size=6), max_size=8), st.booleans())
def test_hits_are_the_leading_blocks_seen_before(prompts: list[list[int]], far: bool) -> None:
    if far:
        prompts = [[block + 2**40 for block in prompt] for prompt in prompts]
    seen: set[int] = set()
    expected = []
    for prompt in prompts:
        expected.append(next((i for i, block in enumerate(prompt) if block not in seen), len(prompt)))
        seen.update(prompt)
    assert infinite_cache_hits(BlockIds.of(prompt) for prompt in prompts) == expected


def test_hits_of_shared_arrays_are_counted_from_what_was_used() -> None:
    whole = BlockIds.of(range(10))
    assert infinite_cache_hits([whole[:3], whole[:7], whole[:5], whole]) == [0, 3, 5, 7]  # type: ignore[list-item]
