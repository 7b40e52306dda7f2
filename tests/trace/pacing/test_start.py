"""From nothing to the measured window: primers, pressure, handoff, the anchor."""

from dataclasses import replace

import pytest
from tests.trace.pacing.driving import Run, drive, family, line, name_of, settings

from ridgeline.core.record import Outcome
from ridgeline.core.units import SECOND, nanoseconds
from ridgeline.trace.pacing import AgentPacer, PacingSettings
from ridgeline.trace.pacing.snapshot import drawn
from ridgeline.trace.session import Session


def at_half(**changes: object) -> PacingSettings:
    """Every lane starts in the middle of its session, after primers; no pressure."""
    base: dict[str, object] = {"warmup": True, "warmup_requests_per_lane": 0, "duration_ns": 30 * SECOND}
    return settings(**(base | {"start_min_ratio": 0.5, "start_max_ratio": 0.5} | changes))


def warm(run: Run) -> list[tuple[float, str]]:
    return [(round(seen.at, 6), seen.name) for seen in run.seen if seen.send.phase == "warmup"]


def measured(run: Run, count: int) -> list[tuple[float, str]]:
    return [(round(seen.at, 6), seen.name) for seen in run.seen if seen.send.phase == "profiling"][:count]


# t* = 5 s of 0..10: the next turn is at 6 s, the primer is the turn at 4 s (lead 1 s)
EARLY = line("early", 0, 4, 6, 10)
# t* = 10 s of 0..20: next at 14 s (offset 4), primer at 3 s (lead 7 s)
LATE = line("late", 0, 3, 14, 20)


def test_primers_are_spread_so_that_all_starts_meet() -> None:
    run = drive(AgentPacer([EARLY, LATE], at_half(concurrency=2)))
    assert warm(run) == [(0, "late:1"), (6, "early:1")]
    assert all(seen.send.max_tokens == 1 for seen in run.seen if seen.send.phase == "warmup")


def test_primers_go_out_together_in_a_burst() -> None:
    run = drive(AgentPacer([EARLY, LATE], at_half(concurrency=2, start_style="burst")))
    assert warm(run) == [(0, "early:1"), (0, "late:1")]
    assert measured(run, 2) == [(0.4, "early:2"), (0.4, "late:2")]  # each lane anchored at its own first turn


def test_a_primer_lead_is_capped_at_the_system_idle_cap() -> None:
    capped = at_half(concurrency=2, system_idle_cap_ns=5 * SECOND)
    assert warm(drive(AgentPacer([EARLY, LATE], capped))) == [(0, "late:1"), (4, "early:1")]
    old = at_half(concurrency=2, system_idle_cap_ns=5 * SECOND, profile="aiperf-0.13")
    # No cap on leads there: 6 s apart, of which the guard lets 5 s pass with nothing in flight (from 0.4 s on).
    assert warm(drive(AgentPacer([EARLY, LATE], old))) == [(0, "late:1"), (5.4, "early:1")]


def test_profiling_opens_with_the_first_stream_of_all_lanes() -> None:
    run = drive(AgentPacer([EARLY, LATE], at_half(concurrency=2)))
    assert measured(run, 2) == [(6.4, "early:2"), (9.4, "late:2")]  # offsets 1 and 4, less the common 1


def test_the_old_anchor_is_the_start_itself() -> None:
    run = drive(AgentPacer([EARLY, LATE], at_half(concurrency=2, profile="aiperf-0.13")))
    assert measured(run, 2) == [(7.4, "early:2"), (10.4, "late:2")]


def test_a_stream_at_its_first_turn_has_no_primer() -> None:
    pacer = AgentPacer([line("t", 0, 1)], at_half(start_min_ratio=0.0, start_max_ratio=0.0))
    run = drive(pacer)
    assert warm(run) == []
    assert pacer.phases.profiling_start_ns == 0


def test_the_measured_window_opens_when_the_last_primer_is_back() -> None:
    pacer = AgentPacer([EARLY, LATE], at_half(concurrency=2))
    drive(pacer, lambda send: 3.0 if send.phase == "warmup" else 0.4)
    assert pacer.phases.profiling_start_ns == 9 * SECOND


def in_the_middle_of_the_family(**changes: object) -> AgentPacer:
    """t* = 2.7 s of the family: root waits at turn 2, child a is at its second turn, child b at its first."""
    return AgentPacer([family()], at_half(start_min_ratio=0.3, start_max_ratio=0.3, **changes))


def test_waiting_parents_and_children_are_primed_too_and_nothing_is_spawned_twice() -> None:
    run = drive(in_the_middle_of_the_family())
    assert warm(run) == [(0, "family:1"), (0.6, "family::sa:a:0")]
    assert [name for name in run.names("profiling") if name.endswith("sa:b:0")][:1] == ["family::sa:b:0"]
    first_tree = [seen for seen in run.seen if seen.send.tree == 0 and seen.name == "family::sa:b:0"]
    assert len(first_tree) == 1


@pytest.mark.parametrize(("profile", "at"), [("agentx", 4.1), ("aiperf-0.13", 2.0)])
def test_a_parent_that_waits_at_the_start_goes_at_its_offset_or_with_its_children(profile: str, at: float) -> None:
    run = drive(in_the_middle_of_the_family(profile=profile), lambda send: 0.4 if send.phase == "warmup" else 0.1)
    # The window opens at 1.0 s; offsets from t* are b 0.2, a 0.9, root 3.3. Anchored at b, the root is due at
    # 1.0 + 3.3 - 0.2. Not anchored: b runs 1.2-1.3 and, 0.6 s later, 1.9-2.0; a runs 1.9-2.0; then the root.
    assert run.at("family:2") == pytest.approx(at)


def pressed(quota: int, **changes: object) -> PacingSettings:
    return at_half(warmup_requests_per_lane=quota, **changes)


def test_pressure_sends_the_quota_of_every_lane_without_delays_one_token_each() -> None:
    run = drive(AgentPacer([line("t", *range(40))], pressed(3)))
    assert warm(run) == [(0, "t:19"), (0.4, "t:20"), (0.8, "t:21"), (1.2, "t:22")]
    assert measured(run, 2) == [(1.6, "t:23"), (2.6, "t:24")]


def test_a_turn_over_the_quota_is_kept_for_profiling() -> None:
    pacer = AgentPacer([family()], pressed(2, start_min_ratio=0.1, start_max_ratio=0.1))  # t* = 0.9 s
    run = drive(pacer)
    assert run.names("warmup") == ["family:0", "family:1", "family::sa:a:0"]
    # Back on the tree's clock: b at 2.9 anchors, a's second turn at 3.6, the root at 6.0 s.
    opened = 1.2
    expected = [(opened, "b:0"), (opened + 0.7, "a:1"), (opened + 1.0, "b:1"), (opened + 3.1, "2")]
    assert [(at, name.removeprefix("family:").removeprefix(":sa:")) for at, name in measured(run, 4)] == [
        (pytest.approx(at), name) for at, name in expected
    ]


def test_the_old_handoff_keeps_what_is_left_of_each_delay() -> None:
    run = drive(
        AgentPacer(
            [line("a", *range(0, 40, 2)), line("b", *range(0, 40, 2))], pressed(1, concurrency=2, profile="aiperf-0.13")
        ),
        lambda send: 1.0 if send.phase == "warmup" and send.lane == 1 and send.key.turn == 10 else 0.4,
    )
    # Lane 0 was answered 0.6 s before the window opened, lane 1 as it opened: 1.6 s of delay less that.
    opened = 0.4 + 1.0
    assert measured(run, 2) == [(pytest.approx(opened + 1.0), "a:11"), (pytest.approx(opened + 1.6), "b:11")]


def test_trees_are_replaced_under_pressure_and_measured_from_their_first_turn_on() -> None:
    run = drive(AgentPacer([line("a", 0, 1), line("b", 0, 5, 9)], pressed(2)))
    assert run.names("warmup") == ["a:0", "a:1", "b:0"]
    assert measured(run, 2) == [(1.2, "b:1"), (5.2, "b:2")]


def test_a_lane_that_is_empty_after_pressure_starts_with_the_next_session() -> None:
    run = drive(AgentPacer([line("a", 0, 1), line("b", 0, 5, 9)], pressed(1)))
    assert run.names("warmup") == ["a:0", "a:1"]
    assert measured(run, 1) == [(0.8, "b:0")]


def test_pressure_may_last_a_time_instead() -> None:
    run = drive(AgentPacer([line("t", *range(40))], pressed(0, warmup_duration_ns=SECOND)))
    assert run.names("warmup") == ["t:19", "t:20", "t:21", "t:22"]  # 0.4 + 1.0 s: the third is still in flight
    assert measured(run, 1) == [(1.6, "t:23")]


def test_the_idle_guard_sleeps_under_pressure_and_wakes_after_it() -> None:
    pacer = AgentPacer(
        [line("t", 0, 1, 100, 200)],
        pressed(1, system_idle_cap_ns=10 * SECOND, start_min_ratio=0.004, start_max_ratio=0.004),
    )
    run = drive(pacer)
    assert warm(run) == [(0, "t:0"), (0.4, "t:1")]
    assert measured(run, 1) == [(0.8, "t:2")]


def test_markers_and_ids_survive_from_warmup_to_profiling() -> None:
    run = drive(AgentPacer([line("t", *range(40))], pressed(2, max_trees=1)))
    assert len({(seen.send.marker, seen.send.correlation_id, seen.send.tree) for seen in run.seen}) == 1


def test_without_warmup_profiling_begins_at_once_in_the_middle() -> None:
    pacer = AgentPacer([EARLY], at_half(warmup=False))
    assert measured(drive(pacer), 2) == [(0, "early:2"), (3.6 + 0.4, "early:3")]
    assert pacer.phases.profiling_start_ns == 0


def test_sessions_without_times_start_between_turns_and_use_their_delays() -> None:
    untimed: Session = line("t", None, None, None, None)
    turns = tuple(replace(turn, delay_ns=2 * SECOND) for turn in untimed.root.turns)
    session = replace(untimed, conversations=(replace(untimed.root, turns=turns),))
    run = drive(AgentPacer([session], at_half(max_trees=1)))
    cut = drawn(session, 42, 0, 0.5, 0.5).streams[0].turn
    assert warm(run) == [(0, f"t:{cut - 1}")]
    assert measured(run, 2)[0] == (0.4, f"t:{cut}")


@pytest.mark.parametrize("how", [Outcome.HTTP_ERROR, Outcome.CLIENT_ERROR, Outcome.OVERFLOW, Outcome.TIMEOUT])
def test_a_failed_root_primer_ends_the_run(how: Outcome) -> None:
    pacer = AgentPacer([EARLY, LATE], at_half(concurrency=2))
    run = drive(pacer, outcome=lambda send: how)
    assert run.names() == ["late:1"]
    assert pacer.finished and pacer.aborted == f"the primer of late failed: {how}"
    assert pacer.phases.profiling_start_ns is None


def test_a_poor_answer_is_enough_for_a_primer() -> None:
    pacer = AgentPacer([EARLY], at_half())
    drive(pacer, outcome=lambda send: Outcome.EMPTY if send.phase == "warmup" else Outcome.OK)
    assert pacer.aborted is None


def test_a_failed_child_primer_ends_nothing() -> None:
    pacer = in_the_middle_of_the_family()
    run = drive(
        pacer, outcome=lambda s: Outcome.HTTP_ERROR if name_of(s) == "family::sa:a:0" and s.id == 1 else Outcome.OK
    )
    assert pacer.aborted is None and "family::sa:a:1" in run.names("profiling")


def test_primers_that_outlive_the_grace_end_the_run_if_they_are_roots() -> None:
    pacer = AgentPacer([EARLY], at_half(warmup_grace_ns=60 * SECOND))
    run = drive(pacer, float("inf"))
    assert run.cancels == [(60.0, "early:1")]
    assert pacer.aborted is not None and "grace of 60 s" in pacer.aborted


def test_late_child_primers_are_cancelled_and_the_run_goes_on() -> None:
    pacer = in_the_middle_of_the_family(warmup_grace_ns=60 * SECOND)
    run = drive(pacer, lambda send: float("inf") if send.phase == "warmup" and send.key.conversation else 0.4)
    assert run.cancels[0] == (pytest.approx(60.6), "family::sa:a:0")
    assert pacer.aborted is None
    assert pacer.phases.profiling_start_ns == nanoseconds(60.6)


def test_cancelled_primers_that_never_come_back_end_the_run() -> None:
    pacer = in_the_middle_of_the_family(warmup_grace_ns=60 * SECOND)
    slow = drive(
        pacer,
        lambda send: float("inf") if send.phase == "warmup" and send.key.conversation else 0.4,
        answers_cancels=False,
    )
    assert pacer.aborted == "cancelled primers were not given back"
    assert slow.finished_at == pytest.approx(60.6 + 10 + 10)


def test_pressure_that_outlives_its_grace_fails_the_run() -> None:
    pacer = AgentPacer([line("t", *range(40))], pressed(2, warmup_grace_ns=60 * SECOND))
    drive(pacer, lambda send: float("inf") if send.key.turn == 21 else 0.4)
    assert pacer.aborted is not None and pacer.phases.profiling_start_ns is None


def test_no_grace_waits_for_ever() -> None:
    pacer = AgentPacer([EARLY], at_half(warmup_grace_ns=None))
    drive(pacer, lambda send: 90000.0 if send.phase == "warmup" else 0.4)
    assert pacer.aborted is None
