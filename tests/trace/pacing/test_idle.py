"""Both idle caps."""

from dataclasses import replace

import pytest
from tests.trace.pacing.driving import drive, line, settings, stream

from ridgeline.core.record import Outcome
from ridgeline.core.units import SECOND, nanoseconds
from ridgeline.trace.pacing import AgentPacer
from ridgeline.trace.session import Branch, Session, TurnKey


def capped(**changes: object):  # type: ignore[no-untyped-def]
    return settings(**({"system_idle_cap_ns": 10 * SECOND} | changes))


def test_lanes_that_wait_60_and_75_seconds_wait_10_and_25() -> None:
    pool = [line("a", 0, 60.4), line("b", 0, 75.4)]
    pacer = AgentPacer(pool, capped(concurrency=2, max_trees=2))
    run = drive(pacer, lambda send: 30.0 if send.key.turn else 0.4)
    assert (run.at("a:1"), run.at("b:1")) == (10.4, 25.4)
    assert pacer.tally.idle_cut_ns == 50 * SECOND


def test_every_idle_time_is_cut_anew() -> None:
    pool = [line("a", 0, 60.4), line("b", 0, 75.4)]
    run = drive(AgentPacer(pool, capped(concurrency=2, max_trees=2)))
    assert (run.at("a:1"), run.at("b:1")) == (10.4, 20.8)  # idle again from 10.8 s on


def test_nothing_is_cut_while_a_third_is_in_flight() -> None:
    pool = [line("a", 0, 60.4), line("b", 0, 75.4), line("c", 0)]
    run = drive(AgentPacer(pool, capped(concurrency=3, max_trees=3)), lambda send: 100.0 if send.lane == 2 else 0.4)
    assert (run.at("a:1"), run.at("b:1")) == (60.4, 75.4)


def test_the_cut_begins_when_the_last_answer_is_back() -> None:
    pool = [line("a", 0, 60.4), line("b", 0, 75.4), line("c", 0)]
    run = drive(
        AgentPacer(pool, capped(concurrency=3, max_trees=3)),
        lambda send: 0.4 if send.lane < 2 and not send.key.turn else 20.0,
    )
    assert (run.at("a:1"), run.at("b:1")) == (30.0, 45.0)


def test_a_gap_within_the_cap_is_kept() -> None:
    run = drive(AgentPacer([line("a", 0, 10.4, 20.9)], capped(max_trees=1)))
    assert [seen.at for seen in run.seen] == [0, 10.4, pytest.approx(20.8)]


def test_no_cap_waits_as_recorded() -> None:
    run = drive(AgentPacer([line("a", 0, 600)], settings(max_trees=1)))
    assert run.at("a:1") == 600


def held_then_far() -> Session:
    """Root turn 1 (5 s) waits for the chain's first turn, which starts 100 s after the root's first."""
    return Session(
        id="t",
        conversations=(
            stream("t", (0, 5), more={0: {"spawns": (0,)}, 1: {"predecessors": (TurnKey(1, 0),)}}),
            stream("t::fa:000", (100.4,), branch=0),
        ),
        branches=(Branch(id="0", children=(1,), spawn_turn=0, join_turn=None, start_ns=nanoseconds(0.4)),),
    )


def test_a_turn_that_is_held_does_not_hide_a_far_timer_from_the_system_cap() -> None:
    run = drive(AgentPacer([held_then_far()], capped(max_trees=1)))
    assert (run.at("t::fa:000:0"), run.at("t:1")) == (10.4, 10.8)


@pytest.mark.parametrize(("profile", "child", "root"), [("agentx", 10.4, 20.8), ("aiperf-0.13", 30.4, 10.4)])
def test_the_old_profile_cannot_move_the_delayed_start_of_a_child(profile: str, child: float, root: float) -> None:
    """There it sleeps on a timer of its own, which the guard does not see: the root's is cut, the child's is not."""
    session = Session(
        id="t",
        conversations=(stream("t", (0, 60.4), more={0: {"spawns": (0,)}}), stream("t::sa:a", (30.4,), branch=0)),
        branches=(Branch(id="0", children=(1,), spawn_turn=0, join_turn=None, start_ns=nanoseconds(0.4)),),
    )
    run = drive(AgentPacer([session], capped(max_trees=1, profile=profile)))
    assert (run.at("t::sa:a:0"), run.at("t:1")) == (pytest.approx(child), pytest.approx(root))


def test_a_sleeping_child_is_cut_off_with_the_window() -> None:
    session = Session(
        id="t",
        conversations=(stream("t", (0,), more={0: {"spawns": (0,)}}), stream("t::sa:a", (90.4,), branch=0)),
        branches=(Branch(id="0", children=(1,), spawn_turn=0, join_turn=None, start_ns=nanoseconds(0.4)),),
    )
    run = drive(AgentPacer([session], settings(profile="aiperf-0.13", duration_ns=50 * SECOND)))
    assert run.names() == ["t:0"] and run.finished_at == 50


def busy_neighbour(*sessions: Session, **changes: object) -> AgentPacer:
    """The sessions beside a lane that keeps the system busy, with a tree cap of 300 s and no system cap to speak of."""
    neighbour = line("busy", *[40 * k for k in range(40)])
    pool = [neighbour, *sessions]
    return AgentPacer(
        pool, capped(concurrency=len(pool), trace_idle_cap_ns=300 * SECOND, system_idle_cap_ns=None, **changes)
    )


def test_a_tree_is_idle_for_the_trace_cap_at_most_and_keeps_its_own_spacing() -> None:
    session = Session(
        id="t",
        conversations=(
            stream("t", (0, 900.4), more={0: {"spawns": (0,)}}),
            stream("t::fa:000", (950.4,), branch=0),
        ),
        branches=(Branch(id="0", children=(1,), spawn_turn=0, join_turn=None, start_ns=nanoseconds(0.4)),),
    )
    pacer = busy_neighbour(session)
    run = drive(pacer, stop_at=600)
    assert run.at("t:1") == 300.4
    assert run.at("t::fa:000:0") == pytest.approx(350.4)
    assert run.at("busy:9") == 360  # the neighbour is not moved
    assert pacer.tally.tree_idle_cuts == 1


def test_a_held_turn_does_not_hide_the_next_one_from_the_trace_cap() -> None:
    far = held_then_far()
    far = replace(far, conversations=(far.root, stream("t::fa:000", (900.4,), branch=0)))
    run = drive(busy_neighbour(far), stop_at=600)
    assert (run.at("t::fa:000:0"), run.at("t:1")) == (300.4, pytest.approx(300.8))


def test_a_turn_that_the_trace_cap_wakes_only_to_be_held_brings_forward_the_next() -> None:
    far = held_then_far()
    root = stream("t", (0, 500), more={0: {"spawns": (0,)}, 1: {"predecessors": (TurnKey(1, 0),)}})
    far = replace(far, conversations=(root, stream("t::fa:000", (900.4,), branch=0)))
    pacer = busy_neighbour(far)
    run = drive(pacer, stop_at=600)
    assert (run.at("t::fa:000:0"), run.at("t:1")) == (300.4, pytest.approx(300.8))
    assert pacer.tally.tree_idle_cuts == 2


def test_the_trace_cap_counts_from_the_opening_of_the_window() -> None:
    session = line("t", 0, 1000)
    pool = [line("busy", *[5 * k for k in range(200)]), session]
    pacer = AgentPacer(
        pool,
        settings(concurrency=2, trace_idle_cap_ns=300 * SECOND, start_min_ratio=0.2, start_max_ratio=0.2),
    )
    run = drive(pacer, stop_at=600)
    assert run.at("t:1") == 300  # 800 s after its t*


def test_a_request_in_flight_keeps_the_tree_busy() -> None:
    run = drive(busy_neighbour(line("t", 0, 900)), lambda send: 500.0 if send.lane else 0.4, stop_at=950)
    assert run.at("t:1") == 800  # 300 s after its answer, not after its sending


def test_the_old_profile_does_not_watch_trees() -> None:
    run = drive(busy_neighbour(line("t", 0, 900), profile="aiperf-0.13"), stop_at=950)
    assert run.at("t:1") == 900


def test_a_cut_is_applied_by_the_answer_already() -> None:
    pacer = AgentPacer([line("t", 0, 100)], capped())
    pacer.begin(0)
    (send,) = pacer.advance(0).sends
    pacer.completed(send.id, SECOND, Outcome.OK)
    assert pacer.next_at() == 11 * SECOND
