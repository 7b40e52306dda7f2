"""Profiling, rule by rule: what an answer sets in motion."""

from dataclasses import replace

import pytest
from tests.trace.pacing.driving import Run, drive, family, line, name_of, settings, stream

from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome
from ridgeline.core.units import SECOND, nanoseconds
from ridgeline.trace.pacing import AgentPacer, Send
from ridgeline.trace.session import Branch, Session, TurnKey


def failing(*names: str, how: Outcome = Outcome.HTTP_ERROR):  # type: ignore[no-untyped-def]
    return lambda send: how if name_of(send) in names else Outcome.OK


def once(session: Session, latency: object = 0.4, outcome: object = lambda send: Outcome.OK, **changes: object) -> Run:
    """One tree, replayed from its first turn to its end."""
    pacer = AgentPacer([session], settings(max_trees=1, failure_threshold=None, **changes))
    return drive(pacer, latency, outcome)  # type: ignore[arg-type]


def test_a_turn_follows_its_delay_after_the_end_of_the_one_before() -> None:
    run = once(line("t", 0, 2, 5), 1.0)  # recorded idle: 1.6 and 2.6 s; each answer takes 1 s instead of 0.4
    assert [seen.at for seen in run.seen] == [0, 2.6, 6.2]


def test_a_failed_turn_is_followed_like_any_other() -> None:
    run = once(line("t", 0, 2, 5), outcome=failing("t:0", "t:1"))
    assert [seen.at for seen in run.seen] == [0, 2, 5]


def test_delays_count_from_the_answer_and_not_from_when_it_was_reported() -> None:
    pacer = AgentPacer([line("t", 0, 2)], settings())
    pacer.begin(0)
    (send,) = pacer.advance(0).sends
    pacer.completed(send.id, nanoseconds(0.4), Outcome.OK)  # reported at 3 s
    (late,) = pacer.advance(nanoseconds(3)).sends
    assert late.scheduled_ns == nanoseconds(2)


def test_tokens_and_phase_are_those_of_the_turn() -> None:
    run = once(line("t", 0, 2))
    assert [(seen.send.max_tokens, seen.send.phase, seen.send.key) for seen in run.seen] == [
        (5, "profiling", TurnKey(0, 0)),
        (6, "profiling", TurnKey(0, 1)),
    ]


def test_children_start_after_the_spawning_turn_at_their_recorded_distance() -> None:
    run = once(family(), 1.0)
    spawned_at = run.seen[1].end
    assert run.at("family::sa:a:0") == pytest.approx(spawned_at)
    assert run.at("family::sa:b:0") == pytest.approx(spawned_at + 0.3)


def test_children_are_spawned_by_a_failed_turn_too() -> None:
    run = once(family(), outcome=failing("family:1"))
    assert "family::sa:a:0" in run.names()


def test_children_recorded_inside_the_spawning_request_start_with_it() -> None:
    session = family()
    inside = replace(session.branches[0], start_ns=nanoseconds(2.2))  # turn 1 runs from 2.0 to 2.4 s
    session = replace(session, branches=(inside, session.branches[1]))
    run = once(session, 2.0)
    sent = run.at("family:1")
    assert run.at("family::sa:a:0") == pytest.approx(sent + 0.6)  # child at 2.6, turn at 2.0
    assert run.at("family::sa:b:0") == pytest.approx(sent + 0.9)


@pytest.mark.parametrize(("profile", "expected"), [("agentx", "delay"), ("aiperf-0.13", "children")])
def test_a_join_waits_for_children_and_for_its_delay_where_the_profile_says_so(profile: str, expected: str) -> None:
    run = once(family(), 0.1, profile=profile)
    children_done = max(seen.end for seen in run.seen if seen.name in ("family::sa:a:1", "family::sa:b:1"))
    recorded = run.seen[1].end + 3.6
    assert children_done < recorded
    assert run.at("family:2") == pytest.approx(recorded if expected == "delay" else children_done)


@pytest.mark.parametrize("profile", ["agentx", "aiperf-0.13"])
def test_a_join_never_precedes_the_last_child(profile: str) -> None:
    run = once(family(), lambda send: 9.0 if "sa:b" in name_of(send) else 0.1, profile=profile)
    assert run.at("family:2") == next(seen.end for seen in run.seen if seen.name == "family::sa:b:1")


@pytest.mark.parametrize("profile", ["agentx", "aiperf-0.13"])
def test_a_join_whose_children_are_long_done_keeps_its_delay(profile: str) -> None:
    session = Session(
        id="t",
        conversations=(
            stream("t", (0, 5, 10), more={0: {"spawns": (0,)}, 2: {"joins": (0,)}}),
            stream("t::sa:a", (1,), branch=0),
        ),
        branches=(Branch(id="0", children=(1,), spawn_turn=0, join_turn=2, start_ns=SECOND),),
    )
    assert once(session, profile=profile).at("t:2") == 10


def test_nobody_waits_for_a_background_child() -> None:
    run = once(family(), lambda send: 50.0 if "sa:c" in name_of(send) else 0.1)
    assert run.at("family:4") < 50


def test_a_child_error_on_its_last_turn_releases_the_join() -> None:
    run = once(family(), outcome=failing("family::sa:b:1"))
    assert "family:4" in run.names()


def preceded(by: TurnKey) -> Session:
    """A root (0, 5 s) and a chain (1, 2 s) that turn 0 starts; root turn 1 is preceded by `by`."""
    return Session(
        id="t",
        conversations=(
            stream("t", (0, 5), more={0: {"spawns": (0,)}, 1: {"predecessors": (by,)}}),
            stream("t::fa:000", (1, 2), branch=0),
        ),
        branches=(Branch(id="0", children=(1,), spawn_turn=0, join_turn=None, start_ns=SECOND),),
    )


@pytest.mark.parametrize(("by", "turn"), [(TurnKey(1, 0), "t::fa:000:0"), (TurnKey(1, 1), "t::fa:000:1")])
@pytest.mark.parametrize("how", [Outcome.OK, Outcome.HTTP_ERROR])
def test_a_turn_waits_for_its_predecessor_however_that_ends(by: TurnKey, turn: str, how: Outcome) -> None:
    run = once(preceded(by), lambda send: 20.0 if name_of(send) == turn else 0.4, failing(turn, how=how))
    assert run.at("t:1") == next(seen.end for seen in run.seen if seen.name == turn)


def test_a_predecessor_that_is_done_delays_nothing() -> None:
    assert once(preceded(TurnKey(1, 1))).at("t:1") == 5


def test_an_overflow_ends_the_stream_and_satisfies_who_waited_for_its_rest() -> None:
    run = once(preceded(TurnKey(1, 1)), outcome=failing("t::fa:000:0", how=Outcome.OVERFLOW))
    assert run.names() == ["t:0", "t::fa:000:0", "t:1"]
    assert run.at("t:1") == 5


def test_an_overflowing_root_ends_the_tree_when_its_children_are_done() -> None:
    pacer = AgentPacer([family(), line("next", 0)], settings(max_trees=2))
    run = drive(pacer, outcome=failing("family:2", how=Outcome.OVERFLOW))
    assert run.names()[-2:] == ["family:2", "next:0"]  # nothing was left of the tree
    child = drive(
        AgentPacer([family(), line("next", 0)], settings(max_trees=2)),
        lambda send: 7.0 if name_of(send) == "family::sa:c:1" else 0.4,
        failing("family:3", how=Outcome.OVERFLOW),
    )
    assert child.at("next:0") == next(seen.end for seen in child.seen if seen.name == "family::sa:c:1")


def test_an_overflowing_child_releases_the_join() -> None:
    run = once(family(), outcome=failing("family::sa:a:0", "family::sa:b:0", how=Outcome.OVERFLOW))
    assert not {"family::sa:a:1", "family::sa:b:1"} & set(run.names())
    assert run.at("family:2") == 6.0


def test_a_ring_of_waits_is_broken_by_the_one_that_waited_longest() -> None:
    session = Session(
        id="t",
        conversations=(
            stream("t", (0, 5), more={0: {"spawns": (0,)}, 1: {"predecessors": (TurnKey(1, 0),)}}),
            stream("t::fa:000", (1,), branch=0, more={0: {"predecessors": (TurnKey(0, 1),)}}),
        ),
        branches=(Branch(id="0", children=(1,), spawn_turn=0, join_turn=None, start_ns=SECOND),),
    )
    pacer = AgentPacer([session], settings(max_trees=1))
    assert drive(pacer).names() == ["t:0", "t::fa:000:0", "t:1"]
    assert pacer.tally.turns_forced == 1


def test_a_finished_tree_is_replaced_at_once_in_the_order_of_the_pool() -> None:
    pool = [line(name, 0, 1) for name in "abc"]
    run = drive(AgentPacer(pool, settings(concurrency=2, max_trees=6)), lambda send: 0.4 if send.lane else 0.5)
    starts = [(seen.at, seen.name, seen.send.lane, seen.send.tree) for seen in run.seen if seen.send.key.turn == 0]
    assert starts == [
        (0, "a:0", 0, 0),
        (0, "b:0", 1, 1),
        (1.4, "c:0", 1, 2),
        (1.6, "a:0", 0, 3),
        (2.8, "b:0", 1, 4),
        (3.2, "c:0", 0, 5),
    ]


def test_a_lane_waits_for_every_child_before_it_recycles() -> None:
    run = drive(
        AgentPacer([family(), line("next", 0)], settings(max_trees=2)),
        lambda send: 50.0 if "sa:c" in name_of(send) else 0.4,
    )
    assert run.at("next:0") == next(seen.end for seen in run.seen if seen.name == "family::sa:c:1")


def test_ids_and_markers_belong_to_the_tree() -> None:
    pacer = AgentPacer([family()], settings(max_trees=2))
    run = drive(pacer)
    trees: dict[int, list[Send]] = {}
    for seen in run.seen:
        trees.setdefault(seen.send.tree, []).append(seen.send)
    assert [len({send.marker for send in sends}) for sends in trees.values()] == [1, 1]
    assert trees[0][0].marker != trees[1][0].marker
    for sends in trees.values():
        root = next(send for send in sends if send.key.conversation == 0)
        assert root.parent_correlation_id is None
        children = [send for send in sends if send.key.conversation]
        assert {send.parent_correlation_id for send in children} == {root.correlation_id}
        assert len({send.correlation_id for send in sends}) == 4
    assert not {s.correlation_id for s in trees[0]} & {s.correlation_id for s in trees[1]}


def test_more_lanes_than_sessions_share_the_pool() -> None:
    run = drive(AgentPacer([line("a", 0), line("b", 0)], settings(concurrency=5, max_trees=5)))
    assert run.names() == ["a:0", "b:0", "a:0", "b:0", "a:0"]
    assert len({seen.send.marker for seen in run.seen}) == 5


def test_a_shuffled_pool_is_dealt_fairly() -> None:
    pool = [line(name, 0) for name in "abcd"]
    run = drive(AgentPacer(pool, settings(order="shuffled", max_trees=8)))
    assert sorted(run.names()[:4]) == sorted(run.names()[4:]) == ["a:0", "b:0", "c:0", "d:0"]


def test_counts_can_end_a_run() -> None:
    pacer = AgentPacer([line("t", 0, 1, 2)], settings(duration_ns=None, max_requests=4))
    run = drive(pacer)
    assert run.names() == ["t:0", "t:1", "t:2", "t:0"]
    assert pacer.phases.profiling_end_ns == nanoseconds(2.4)
    assert pacer.phases.drained_ns == nanoseconds(2.8)


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(InputError, match="no session"):
        AgentPacer([], settings())
    with pytest.raises(InputError, match="no session"):
        AgentPacer([line("t")], settings())
