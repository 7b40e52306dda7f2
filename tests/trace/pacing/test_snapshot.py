from dataclasses import replace

from tests.trace.pacing.driving import family, line

from ridgeline.core.units import nanoseconds
from ridgeline.trace.pacing.snapshot import Snapshot, after_turn, at_time, drawn, from_the_beginning


def at(seconds: float) -> Snapshot:
    return at_time(family(), nanoseconds(seconds))


def test_the_next_turn_is_the_first_at_or_after_the_moment() -> None:
    assert at(1.0).streams == ((0, 1),)
    assert at(2.0).streams == ((0, 1),)
    assert at(2.0).completed == (1, 0, 0, 0)


def test_a_child_is_live_between_its_spawning_turn_and_its_branch_start() -> None:
    assert at(2.3).streams == ((0, 2), (1, 0), (2, 0))
    assert at(2.3).spawned == (True, False)


def test_siblings_go_on_where_they_are() -> None:
    assert at(3.0).streams == ((0, 2), (1, 1), (2, 1))
    assert at(3.0).completed == (2, 1, 1, 0)
    assert at(3.7).streams == ((0, 2), (2, 1))  # the first child is over


def test_a_tree_may_have_no_root_left() -> None:
    late = family()
    assert at_time(late, nanoseconds(9.0)).streams == ((0, 4),)
    children_last = at_time(late, nanoseconds(7.0))
    assert children_last.streams == ((0, 3), (3, 1))
    assert at_time(late, nanoseconds(9.1)).streams == ()


def test_a_branch_that_started_before_its_spawning_turn_is_live() -> None:
    session = family()
    early = replace(session.branches[0], start_ns=nanoseconds(1.5))
    moved = replace(session, branches=(early, session.branches[1]))
    assert at_time(session, nanoseconds(1.8)).streams == ((0, 1),)
    assert at_time(moved, nanoseconds(1.8)).streams == ((0, 1), (1, 0), (2, 0))


def test_the_draw_stays_between_the_ratios_and_follows_the_lane() -> None:
    session = line("t", *range(101))
    origins = {drawn(session, 42, lane, 0.25, 0.75).origin_ns for lane in range(20)}
    assert len(origins) == 20
    assert all(nanoseconds(25) <= origin <= nanoseconds(75) for origin in origins if origin is not None)
    assert drawn(session, 42, 0, 1.0, 1.0).streams == ((0, 100),)
    assert drawn(session, 42, 0, 0.0, 0.0) == at_time(session, 0)


def test_without_times_the_cut_is_between_turns_and_leaves_one_to_measure() -> None:
    session = line("t", *[None] * 10)
    nexts = {drawn(session, seed, 0, 0.25, 1.0).streams[0].turn for seed in range(80)}
    assert nexts == {3, 4, 5, 6, 7, 8, 9}
    assert drawn(line("one", None), 42, 0, 0.0, 1.0).streams == ((0, 0),)


def test_children_of_an_untimed_cut_are_over_or_still_to_come() -> None:
    assert after_turn(family(), 1) == (None, ((0, 2),), (2, 2, 2, 0), (True, False))


def test_the_beginning_has_nothing_done() -> None:
    start = from_the_beginning(family())
    assert (start.origin_ns, start.streams, start.completed) == (0, ((0, 0),), (0, 0, 0, 0))
