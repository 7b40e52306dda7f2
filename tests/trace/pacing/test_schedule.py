"""Recorded moments are kept whether the server answers or not; a conversation's own order is kept always."""

from __future__ import annotations

import pytest
from tests.trace.making import session, turn
from tests.trace.pacing.driving import drive

from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome
from ridgeline.core.units import SECOND
from ridgeline.trace.pacing import SchedulePacer, ScheduleSettings


def at(*seconds: float | None, delay: float | None = None) -> list[object]:
    return [
        turn(
            [k],
            at_ns=None if s is None else round(s * SECOND),
            delay_ns=None if delay is None else round(delay * SECOND),
        )
        for k, s in enumerate(seconds)
    ]


def test_arrivals_are_the_recorded_ones_however_slow_the_server_is() -> None:
    sessions = [session(at(100.0), name="a"), session(at(100.5), name="b"), session(at(103.0), name="c")]
    pacer = SchedulePacer(sessions, ScheduleSettings())
    run = drive(pacer, lambda send: 10.0)
    assert [(seen.at, seen.name) for seen in run.seen] == [(0, "a:0"), (0.5, "b:0"), (3, "c:0")]
    assert [seen.send.lane for seen in run.seen] == [0, 1, 2], "lanes count what is in flight"
    assert [seen.send.scheduled_ns for seen in run.seen] == [0, SECOND // 2, 3 * SECOND]
    assert (pacer.phases.profiling_end_ns, pacer.phases.drained_ns) == (3 * SECOND, 13 * SECOND)


def test_a_turn_waits_for_the_answer_that_is_in_its_prompt() -> None:
    pacer = SchedulePacer([session(at(0, 1, 9), name="a")], ScheduleSettings())
    run = drive(pacer, lambda send: 3.0)
    assert [seen.at for seen in run.seen] == [0, 3, 9]
    pacer = SchedulePacer([session(at(0, None, delay=2.0), name="a")], ScheduleSettings())
    assert [seen.at for seen in drive(pacer, lambda send: 3.0).seen] == [0, 5]


def test_a_free_lane_is_used_again_and_children_name_their_parent() -> None:
    tree = session(at(0), at(5), name="t")
    run = drive(SchedulePacer([tree], ScheduleSettings(benchmark_id="b")), lambda send: 1.0)
    root, child = (seen.send for seen in run.seen)
    assert (root.lane, child.lane) == (0, 0) and child.parent_correlation_id == root.correlation_id
    assert root.marker == child.marker != "" and root.parent_correlation_id is None


def test_the_window_cuts_the_trace_and_the_grace_its_answers() -> None:
    pacer = SchedulePacer(
        [session(at(second), name=str(second)) for second in range(10)],
        ScheduleSettings(duration_ns=4 * SECOND, grace_ns=SECOND),
    )
    run = drive(pacer, lambda send: 3.0)
    assert [seen.at for seen in run.seen] == [0, 1, 2, 3]
    assert run.cancels == [(5.0, "3:0")]


def test_an_overflow_ends_its_conversation_only() -> None:
    sessions = [session(at(0, 1, 2), name="long"), session(at(0.5, 2), name="short")]
    pacer = SchedulePacer(sessions, ScheduleSettings())
    pacer.begin(0)
    (first,) = pacer.advance(0).sends
    (other,) = pacer.advance(SECOND // 2).sends
    pacer.completed(first.id, SECOND // 2, Outcome.OVERFLOW)
    pacer.completed(other.id, SECOND, Outcome.HTTP_ERROR)
    assert pacer.next_at() == 2 * SECOND
    (last,) = pacer.advance(2 * SECOND).sends
    pacer.advance(2 * SECOND)
    pacer.completed(last.id, 3 * SECOND, Outcome.OK)
    assert pacer.finished and last.session.id == "short"


def test_sessions_without_moments_and_wrong_settings_are_told() -> None:
    with pytest.raises(InputError, match="1 of 2 sessions have no time stamps"):
        SchedulePacer([session(at(None), name="a"), session(at(1), name="b")], ScheduleSettings())
    with pytest.raises(InputError, match="no session"):
        SchedulePacer([], ScheduleSettings())
    with pytest.raises(InputError) as wrong:
        ScheduleSettings(duration_ns=0, grace_ns=-1, failure_threshold=2)
    assert len(wrong.value.problems) == 3
