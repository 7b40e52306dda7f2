"""The end of a run: cut-off, grace, cancel, patience, too many failures. For the agent pacer and its ledger."""

import pytest
from tests.trace.pacing.driving import drive, family, line, settings

from ridgeline.core.record import Outcome
from ridgeline.core.units import SECOND, nanoseconds
from ridgeline.trace.pacing import AgentPacer, Send
from ridgeline.trace.pacing.ledger import Ledger

WINDOW = 10.0


def windowed(**changes: object) -> AgentPacer:
    """Turns every second in a window of 10 s with 3 s of grace."""
    base: dict[str, object] = {"duration_ns": nanoseconds(WINDOW), "grace_ns": nanoseconds(3)}
    return AgentPacer([line("t", *range(100))], settings(**(base | changes)))


def test_nothing_is_sent_from_the_cut_off_on() -> None:
    pacer = windowed()
    run = drive(pacer)
    assert run.seen[-1].at == 9.0  # the turn due at exactly 10 s is not sent
    assert (pacer.phases.profiling_end_ns, pacer.phases.drained_ns) == (10 * SECOND, 10 * SECOND)
    assert pacer.aborted is None


def test_what_is_in_flight_may_finish_inside_the_grace() -> None:
    pacer = windowed()
    run = drive(pacer, lambda send: 3.5 if send.key.turn == 9 else 0.4)
    assert run.cancels == []
    assert run.seen[-1].outcome is Outcome.OK
    assert pacer.phases.drained_ns == nanoseconds(12.5)
    assert len(run.seen) == 10


def test_what_outlives_the_grace_is_cancelled() -> None:
    pacer = windowed()
    run = drive(pacer, lambda send: 30 if send.key.turn == 9 else 0.4)
    assert run.cancels == [(13.0, "t:9")]
    assert run.finished_at == 13.0
    assert pacer.phases.drained_ns == 13 * SECOND
    assert (pacer.tally.trees_finished, pacer.tally.lanes_in_use) == (0, 1)


def test_cancelled_requests_are_awaited_for_ten_seconds_at_most() -> None:
    pacer = windowed()
    run = drive(pacer, lambda send: float("inf") if send.key.turn == 9 else 0.4, answers_cancels=False)
    assert run.finished_at == 23.0
    assert pacer.phases.drained_ns == 13 * SECOND


def test_the_cut_off_applies_to_held_turns_and_unborn_children_too() -> None:
    pacer = AgentPacer([family()], settings(duration_ns=nanoseconds(3.95), grace_ns=100 * SECOND))
    run = drive(pacer, lambda send: 5.0 if send.key == (2, 1) else 0.4)
    assert run.names()[-1] == "family::sa:b:1"
    assert run.finished_at == pytest.approx(8.7)


def test_a_run_ends_as_soon_as_nothing_is_in_flight() -> None:
    pacer = AgentPacer([line("t", 0, 500)], settings(duration_ns=10 * SECOND))
    assert drive(pacer).finished_at == 10.0


def test_a_late_wake_up_does_not_send_after_the_cut_off() -> None:
    pacer = windowed()
    pacer.begin(0)
    (send,) = pacer.advance(0).sends
    pacer.completed(send.id, nanoseconds(9.5), Outcome.OK)
    assert pacer.advance(nanoseconds(10.2)).sends == []
    assert pacer.finished


def test_an_answer_after_the_end_of_patience_is_still_accepted() -> None:
    pacer = windowed()
    pacer.begin(0)
    (send,) = pacer.advance(0).sends
    assert pacer.advance(13 * SECOND).cancels == [send.id]
    assert pacer.advance(23 * SECOND).cancels == [] and pacer.finished
    pacer.completed(send.id, 24 * SECOND, Outcome.OK)
    assert pacer.finished and pacer.next_at() is None
    with pytest.raises(KeyError):
        pacer.completed(send.id, 24 * SECOND, Outcome.OK)


def every(n: int, how: Outcome = Outcome.HTTP_ERROR):  # type: ignore[no-untyped-def]
    def outcome(send: Send) -> Outcome:
        return how if send.id % n == n - 1 else Outcome.OK

    return outcome


def test_too_many_failures_end_the_run_at_once() -> None:
    pacer = windowed(duration_ns=100 * SECOND, failure_threshold=0.10)
    run = drive(pacer, outcome=every(5))
    assert len(run.seen) == 10  # not judged before ten records: 2 of 10 is above 10 %
    assert pacer.aborted == "2 of 10 requests failed, more than the 10% allowed"
    assert pacer.phases.profiling_end_ns == pacer.phases.drained_ns == nanoseconds(9.4)


def test_failures_at_the_threshold_are_allowed() -> None:
    pacer = windowed(duration_ns=50 * SECOND, failure_threshold=0.20)  # every fifth: never above
    run = drive(pacer, outcome=every(5))
    assert pacer.aborted is None and len(run.seen) == 50


def test_an_abort_cancels_what_is_in_flight() -> None:
    pool = [line(name, *range(100)) for name in "ab"]
    pacer = AgentPacer(pool, settings(concurrency=2, failure_threshold=0.5))
    run = drive(pacer, lambda s: 1000.0 if s.lane else 0.4, lambda s: Outcome.TIMEOUT)
    assert run.cancels == [(9.4, "b:0")]
    assert pacer.aborted is not None


def test_overflows_and_cancels_are_neither_records_nor_failures() -> None:
    ledger: Ledger[str] = Ledger(lanes=1, duration_ns=None, grace_ns=0, failure_threshold=0.0)
    ledger.begin(0)
    ledger.start_profiling(0)
    for outcome in (Outcome.OVERFLOW, Outcome.CANCELLED) * 20:
        ledger.returned(ledger.send("x"), 1, outcome)
    assert (ledger.profiled, ledger.records, ledger.failures, ledger.aborted) == (40, 0, 0, None)


def test_warmup_failures_are_not_judged() -> None:
    ledger: Ledger[str] = Ledger(lanes=1, duration_ns=None, grace_ns=0, failure_threshold=0.0)
    ledger.begin(0)
    for _ in range(20):
        ledger.returned(ledger.send("x"), 1, Outcome.HTTP_ERROR)
    assert (ledger.profiled, ledger.aborted) == (0, None)


def test_more_lanes_need_more_records_to_be_judged() -> None:
    ledger: Ledger[str] = Ledger(lanes=50, duration_ns=None, grace_ns=0, failure_threshold=0.5)
    ledger.begin(0)
    ledger.start_profiling(0)
    for count in range(1, 51):
        assert ledger.aborted is None
        ledger.returned(ledger.send("x"), count, Outcome.TIMEOUT)
    assert ledger.aborted == "50 of 50 requests failed, more than the 50% allowed"
