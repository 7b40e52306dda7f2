"""Hand-made sessions, and a driver that answers every request after a scripted latency on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ridgeline.core.clock import ManualClock
from ridgeline.core.record import Outcome
from ridgeline.core.units import SECOND, nanoseconds
from ridgeline.trace.pacing import Pacer, PacingSettings, Send
from ridgeline.trace.session import Branch, Conversation, Session, Turn

API_S = 0.4


def stream(
    id: str,
    starts: Sequence[float | None],
    *,
    api: float = API_S,
    branch: int | None = None,
    scope: str = "s",
    more: Mapping[int, Mapping[str, Any]] | None = None,
) -> Conversation:
    """A conversation whose turns start at these seconds; delays are what the recording left between end and start."""
    turns = []
    for index, start in enumerate(starts):
        before = starts[index - 1] if index else None
        known = start is not None and before is not None
        delay = max(0, nanoseconds(start - before - api)) if known else (0 if index else None)  # type: ignore[operator]
        fields: dict[str, Any] = {
            "at_ns": None if start is None else nanoseconds(start),
            "delay_ns": delay,
            "api_ns": nanoseconds(api),
        }
        fields |= (more or {}).get(index, {})
        turns.append(Turn(input_tokens=64, output_tokens=5 + index, model="m", hash_ids=(index,), **fields))
    return Conversation(id=id, scope=scope, turns=tuple(turns), depth=int(branch is not None), branch=branch)


def line(id: str, *starts: float | None) -> Session:
    """A session without subagents."""
    return Session(id=id, conversations=(stream(id, starts),))


def family(id: str = "family") -> Session:
    """Root turns at 0, 2, 6, 8, 9 s; two children (2.6, 2.9 s) that turn 2 waits for; one in the background (6.6 s)."""
    return Session(
        id=id,
        conversations=(
            stream(id, (0, 2, 6, 8, 9), more={1: {"spawns": (0,)}, 2: {"joins": (0,), "spawns": (1,)}}),
            stream(f"{id}::sa:a", (2.6, 3.6), branch=0, scope="a"),
            stream(f"{id}::sa:b", (2.9, 3.9), branch=0, scope="b"),
            stream(f"{id}::sa:c", (6.6, 7.6), branch=1, scope="c"),
        ),
        branches=(
            Branch(id="0", children=(1, 2), spawn_turn=1, join_turn=2, start_ns=nanoseconds(2.6)),
            Branch(id="1", children=(3,), spawn_turn=2, join_turn=None, start_ns=nanoseconds(6.6)),
        ),
    )


def settings(**changes: Any) -> PacingSettings:
    """One lane from the first turn on, no warm-up, no idle caps, a window of 1000 s."""
    base: dict[str, Any] = {
        "concurrency": 1,
        "benchmark_id": "bench",
        "duration_ns": 1000 * SECOND,
        "start_min_ratio": 0.0,
        "start_max_ratio": 0.0,
        "warmup": False,
        "system_idle_cap_ns": None,
        "trace_idle_cap_ns": None,
    }
    return PacingSettings(**(base | changes))


class Seen(NamedTuple):
    """A request as the server would see it."""

    at: float  # s
    end: float | None  # s; None while it has not been answered
    name: str  # `conversation:turn`
    send: Send
    outcome: Outcome | None


class Run(NamedTuple):
    seen: list[Seen]
    cancels: list[tuple[float, str]]
    finished_at: float

    def at(self, name: str, nth: int = 0) -> float:
        """When `name` was sent for the nth time."""
        return [seen.at for seen in self.seen if seen.name == name][nth]

    def names(self, phase: str | None = None) -> list[str]:
        return [seen.name for seen in self.seen if phase in (None, seen.send.phase)]


def name_of(send: Send) -> str:
    return f"{send.session.conversations[send.key.conversation].id}:{send.key.turn}"


def drive(
    pacer: Pacer,
    latency: float | Callable[[Send], float] = API_S,
    outcome: Callable[[Send], Outcome] = lambda send: Outcome.OK,
    *,
    start: float = 0.0,
    stop_at: float = 1e6,
    answers_cancels: bool = True,
) -> Run:
    """Run a pacer to its end. `latency` in seconds (infinity: never answered), per request or the same for all."""
    clock = ManualClock(nanoseconds(start))
    pacer.begin(clock.now_ns())
    answers: list[tuple[int, int]] = []
    sends: dict[int, tuple[float, Send]] = {}
    ends: dict[int, tuple[float, Outcome]] = {}
    cancels: list[tuple[float, str]] = []
    asked = 0
    while True:
        actions = pacer.advance(clock.now_ns())
        for send in actions.sends:
            seconds = latency(send) if callable(latency) else latency
            sends[send.id] = (clock.now_ns() / SECOND, send)
            pacer.sent(send.id, clock.now_ns())
            if seconds != float("inf"):
                heappush(answers, (clock.now_ns() + nanoseconds(seconds), send.id))
        for send_id in actions.cancels:
            cancels.append((clock.now_ns() / SECOND, name_of(sends[send_id][1])))
            answers = [answer for answer in answers if answer[1] != send_id]
            if answers_cancels:
                ends[send_id] = (clock.now_ns() / SECOND, Outcome.CANCELLED)
                pacer.completed(send_id, clock.now_ns(), Outcome.CANCELLED)
        if pacer.finished:
            break
        moments = [moment for moment in (pacer.next_at(), answers[0][0] if answers else None) if moment is not None]
        assert moments, "the pacer waits for nothing"
        asked = asked + 1 if min(moments) <= clock.now_ns() and not actions.sends else 0
        assert asked < 100, "the pacer wants to be asked again at once, for ever"
        clock.advance_to(max(clock.now_ns(), min(moments)))
        if clock.now_ns() > nanoseconds(stop_at):
            break
        while answers and answers[0][0] <= clock.now_ns():
            at, send_id = heappop(answers)
            result = outcome(sends[send_id][1])
            ends[send_id] = (at / SECOND, result)
            pacer.completed(send_id, at, result)
    seen = [
        Seen(at, ends.get(send_id, (None, None))[0], name_of(send), send, ends.get(send_id, (None, None))[1])
        for send_id, (at, send) in sends.items()
    ]
    return Run(seen, cancels, clock.now_ns() / SECOND)
