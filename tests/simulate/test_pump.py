"""The real-time driver under a clock that the test moves: lateness, order, and what became of a request."""

from dataclasses import dataclass, field

import pytest
from tests.simulate.test_engine import LIMITS, MS, PerToken

from ridgeline.core.clock import ManualClock
from ridgeline.simulate.engine import Engine
from ridgeline.simulate.request import Request
from ridgeline.simulate.server import pump
from ridgeline.simulate.server.pump import Pump


@dataclass
class Ear:
    """Hears tokens at the clock's time; counts flushes."""

    clock: ManualClock
    rank: int | None = None
    key: str | None = None
    heard: list[int] = field(default_factory=list)
    flushes: int = 0

    def token(self, request: Request, last: bool) -> None:
        self.heard.append(self.clock.at_ns // MS)

    def flush(self) -> None:
        self.flushes += 1


class Stage:
    """A pump whose alarm is a number and whose clock the test moves."""

    def __init__(self, ranks: int = 1, router: str = "session") -> None:
        self.clock = ManualClock()
        self.wake: int | None = None
        self.engine = Engine(LIMITS, ranks, PerToken(frontend=0.005))
        self.pump = Pump(self.engine, self.clock, self._set, router=router)

    def _set(self, at_ns: int | None) -> None:
        self.wake = at_ns

    def ask(self, prompt: int, out: int, **more: object) -> tuple[Request, Ear]:
        ear = Ear(self.clock, **more)  # type: ignore[arg-type]
        return self.pump.submit(lambda key: Request(key, prompt, out, ()), ear), ear

    def play(self) -> None:
        """Ring exactly when asked to, until nothing is left."""
        while self.wake is not None:
            self.clock.advance_to(self.wake)
            self.pump.ring()


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not cut a ring short: the slice is real time."""
    monkeypatch.setattr(pump, "_SLICE_NS", 10**12)


def test_on_time_every_token_comes_at_its_own_moment() -> None:
    stage = Stage()
    _, ear = stage.ask(10, 3)
    stage.play()
    assert ear.heard == [15, 16, 17]  # 5 ms in front of the engine, a millisecond per token
    assert ear.flushes == 3
    assert stage.pump.worst_lag_s == 0


def test_late_the_engine_lives_through_the_same_and_only_bytes_are_late() -> None:
    punctual, late = Stage(), Stage()
    one, _ = punctual.ask(10, 3)
    punctual.play()
    two, ear = late.ask(10, 3)
    late.clock.advance_to(100 * MS)
    late.pump.ring()
    assert ear.heard == [100, 100, 100]
    assert ear.flushes == 1  # one write for all three
    assert (two.first_ns, two.last_ns) == (one.first_ns, one.last_ns) == (15 * MS, 17 * MS)
    assert late.pump.worst_lag_s == 0.085
    assert round(late.pump.total_lag_s, 9) == 0.085 + 0.084 + 0.083


def test_arrivals_that_were_due_earlier_share_the_step_they_would_have_shared() -> None:
    stage = Stage()
    _, first = stage.ask(50, 2)
    stage.clock.advance_to(1 * MS)
    _, second = stage.ask(20, 1)
    stage.clock.advance_to(200 * MS)
    stage.pump.ring()
    # The first step ran from 5 to 55 ms with a second one planned; the other request joined the third.
    assert [metrics.histograms["iteration_tokens_total"].total for metrics in stage.engine.metrics] == [71.0]
    assert stage.engine.steps == 3
    assert (len(first.heard), len(second.heard)) == (2, 1)


def test_an_abort_at_every_stage_leaves_nothing_behind() -> None:
    for at_ms in (0, 4, 5, 10, 15, 16, 30):
        stage = Stage()
        request, ear = stage.ask(10, 3)
        while stage.wake is not None and stage.wake <= at_ms * MS:
            stage.clock.advance_to(stage.wake)
            stage.pump.ring()
        stage.clock.advance_to(at_ms * MS)
        stage.pump.abort(request)
        stage.pump.abort(request)
        heard = len(ear.heard)
        stage.play()
        assert len(ear.heard) == heard
        assert not stage.pump._listeners
        assert not stage.pump._arrivals
        assert stage.engine.ranks[0].pool.used == 0


def test_a_rank_asked_for_is_the_rank_taken() -> None:
    stage = Stage(ranks=3)
    _, asked = stage.ask(4, 1, rank=2, key="someone")
    _, keyed = stage.ask(4, 1, key="someone")
    stage.play()
    assert asked.rank == 2
    assert keyed.rank is not None
    assert stage.engine.ranks[2].generated >= 1
