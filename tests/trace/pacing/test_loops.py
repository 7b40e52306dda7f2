import pytest
from tests.trace.pacing.driving import Run, drive, line

from ridgeline.core.errors import InputError
from ridgeline.core.record import Outcome
from ridgeline.core.units import SECOND, nanoseconds
from ridgeline.trace.pacing import ArrivalSettings, ClosedLoopPacer, LoopSettings, OpenLoopPacer
from ridgeline.trace.session import TurnKey

POOL = [line(str(index), 0) for index in range(200)]


def most_in_flight(run: Run, phase: str) -> int:
    seen = [one for one in run.seen if one.send.phase == phase]
    return max(sum(other.at <= one.at < (other.end or 1e9) for other in seen) for one in seen)


def test_a_closed_loop_keeps_its_lanes_busy_and_ends_by_count() -> None:
    pacer = ClosedLoopPacer(POOL, LoopSettings(concurrency=3, requests=7))
    run = drive(pacer, lambda send: 1.0 + send.lane)
    assert [(seen.at, seen.send.lane) for seen in run.seen] == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (3, 0)]
    assert [seen.name for seen in run.seen] == [f"{index}:0" for index in range(7)]
    assert (pacer.phases.profiling_end_ns, pacer.phases.drained_ns) == (3 * SECOND, 4 * SECOND)
    assert run.cancels == []


def test_a_send_is_scheduled_when_its_lane_became_free() -> None:
    pacer = ClosedLoopPacer(POOL, LoopSettings(concurrency=1, requests=2))
    pacer.begin(5)
    (first,) = pacer.advance(9).sends
    assert (first.scheduled_ns, first.key, first.max_tokens, first.marker) == (5, TurnKey(0, 0), 5, "")
    pacer.completed(first.id, 20, Outcome.HTTP_ERROR)
    (second,) = pacer.advance(30).sends
    assert second.scheduled_ns == 20
    assert second.correlation_id != first.correlation_id


def test_a_closed_loop_ends_by_time_with_grace() -> None:
    pacer = ClosedLoopPacer(POOL, LoopSettings(concurrency=1, duration_ns=10 * SECOND, grace_ns=SECOND))
    run = drive(pacer, lambda send: 3.0)
    assert [seen.at for seen in run.seen] == [0, 3, 6, 9]
    assert run.cancels == [(11.0, "3:0")]


@pytest.mark.parametrize("kind", ["closed", "open"])
def test_warmup_obeys_the_cap_and_is_over_before_the_window_opens(kind: str) -> None:
    if kind == "closed":
        pacer = ClosedLoopPacer(POOL, LoopSettings(concurrency=4, requests=20, warmup_requests=16))
    else:
        pacer = OpenLoopPacer(
            POOL, ArrivalSettings(concurrency=4, requests=20, warmup_requests=16, requests_per_second=100)
        )
    run = drive(pacer, lambda send: 1.0 if send.id % 3 else 1.7)
    warm = [seen for seen in run.seen if seen.send.phase == "warmup"]
    assert len(warm) == 16 and most_in_flight(run, "warmup") == 4
    assert pacer.phases.profiling_start_ns == max(nanoseconds(seen.end or 0) for seen in warm)
    measured = [seen for seen in run.seen if seen.send.phase == "profiling"]
    assert len(measured) == 20
    assert min(nanoseconds(seen.at) for seen in measured) >= pacer.phases.profiling_start_ns
    assert [seen.send.session.id for seen in run.seen] == [str(index) for index in range(36)]


def test_the_pool_starts_over_when_it_runs_out() -> None:
    run = drive(ClosedLoopPacer(POOL[:2], LoopSettings(concurrency=1, requests=5)))
    assert run.names() == ["0:0", "1:0", "0:0", "1:0", "0:0"]


def test_too_many_failures_end_a_loop() -> None:
    pacer = ClosedLoopPacer(POOL, LoopSettings(concurrency=1, requests=100, failure_threshold=0.5))
    run = drive(pacer, outcome=lambda send: Outcome.CLIENT_ERROR)
    assert len(run.seen) == 10 and pacer.aborted is not None


def test_constant_arrivals_come_whatever_the_answers_do() -> None:
    settings = ArrivalSettings(concurrency=1, requests=5, requests_per_second=2, arrivals="constant")
    run = drive(OpenLoopPacer(POOL, settings), lambda send: 1.2)
    assert [seen.at for seen in run.seen] == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert [seen.send.lane for seen in run.seen] == [0, 1, 2, 0, 1]  # lowest free lane: three in flight at most


def test_arrivals_that_find_no_room_keep_their_scheduled_time() -> None:
    settings = ArrivalSettings(concurrency=1, requests=4, requests_per_second=2, arrivals="constant", max_in_flight=1)
    run = drive(OpenLoopPacer(POOL, settings), lambda send: 1.2)
    assert [seen.at for seen in run.seen] == [0.5, 1.7, pytest.approx(2.9), pytest.approx(4.1)]
    assert [seen.send.scheduled_ns for seen in run.seen] == [nanoseconds(at) for at in (0.5, 1.0, 1.5, 2.0)]


def test_random_arrivals_repeat_with_the_seed() -> None:
    def sends(seed: int) -> list[float]:
        settings = ArrivalSettings(concurrency=1, requests=50, requests_per_second=9, seed=seed)
        return [seen.at for seen in drive(OpenLoopPacer(POOL, settings)).seen]

    assert sends(1) == sends(1) != sends(2)


def test_an_infinite_rate_sends_everything_at_once() -> None:
    settings = ArrivalSettings(concurrency=1, requests=50, requests_per_second=float("inf"))
    run = drive(OpenLoopPacer(POOL, settings))
    assert {seen.at for seen in run.seen} == {0.0} and len(run.seen) == 50


def test_an_open_loop_ends_by_time() -> None:
    settings = ArrivalSettings(concurrency=1, duration_ns=3 * SECOND, requests_per_second=2, arrivals="constant")
    run = drive(OpenLoopPacer(POOL, settings))
    assert [seen.at for seen in run.seen] == [0.5, 1.0, 1.5, 2.0, 2.5]


def test_only_single_turns_are_taken() -> None:
    with pytest.raises(InputError, match="one turn each"):
        ClosedLoopPacer([line("t", 0, 1)], LoopSettings(concurrency=1, requests=1))
    with pytest.raises(InputError, match="at least one"):
        ClosedLoopPacer([], LoopSettings(concurrency=1, requests=1))
