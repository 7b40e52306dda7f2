"""Hand-made sessions, prompts and pacing machines for tests of the transport."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ridgeline.core.record import Outcome, Phases
from ridgeline.trace.pacing.api import Actions, Send
from ridgeline.trace.prompts.api import Layout
from ridgeline.trace.session import Conversation, Session, Turn, TurnKey


def session(turns: int = 1, output_tokens: int = 4) -> Session:
    turn = Turn(
        at_ns=None,
        delay_ns=None,
        api_ns=None,
        input_tokens=7,
        output_tokens=output_tokens,
        model="m",
        hash_ids=(1, 2),
        hit_blocks=1,
        outer=0,
        source_kind="weka_main",
    )
    return Session(id="s", conversations=(Conversation(id="s", scope="s", turns=(turn,) * turns),))


class Prompts:
    """Bodies of `fragments` pieces that name the send."""

    mode = "bytes"
    endpoint = "/v1/chat/completions"

    def __init__(self, fragments: Sequence[bytes] = ()) -> None:
        self._fragments = list(fragments)

    def layout(self, send: Send) -> Layout:
        return Layout(())

    def body(self, send: Send) -> list[bytes]:
        head = json.dumps({"id": send.id, "max_tokens": send.max_tokens, "stream": True})[:-1].encode()
        return [head, b',"messages":["', *self._fragments, b'"]}']


class ClosedLoop:
    """`lanes` lanes that each send `per_lane` requests, `delay_ns` after the answer before.

    `cancel_when` is asked every 2 ms; once it says yes, everything in flight is cancelled and nothing more is sent.
    """

    def __init__(
        self, lanes: int, per_lane: int, delay_ns: int = 0, cancel_when: Callable[[], bool] | None = None
    ) -> None:
        self._lanes, self._per_lane, self._delay = lanes, per_lane, delay_ns
        self._cancel_when = cancel_when
        self._now = 0
        self._session = session(per_lane)
        self._due: list[tuple[int, int, int]] = []  # at, lane, turn
        self._flying: dict[int, tuple[int, int]] = {}
        self._next_id = 0
        self._cancelled = False
        self._phases = Phases()
        self.sent_at: dict[int, int] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.aborted: str | None = None

    def begin(self, now_ns: int) -> None:
        self._phases = Phases(start_ns=now_ns, profiling_start_ns=now_ns)
        self._due = [(now_ns, lane, 0) for lane in range(self._lanes)]

    def advance(self, now_ns: int) -> Actions:
        self._now = now_ns
        if self._cancel_when is not None and not self._cancelled and self._cancel_when():
            self._cancelled = True
            self._due = []
            return Actions([], list(self._flying))
        due = [entry for entry in self._due if entry[0] <= now_ns]
        self._due = [entry for entry in self._due if entry[0] > now_ns]
        return Actions([self._make(*entry) for entry in due], [])

    def next_at(self) -> int | None:
        times = [at for at, _, _ in self._due]
        if self._cancel_when is not None and not self._cancelled:
            times.append(self._now + 2_000_000)
        return min(times, default=None)

    def sent(self, send_id: int, at_ns: int) -> None:
        self.sent_at[send_id] = at_ns

    def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None:
        lane, turn = self._flying.pop(send_id)
        self.outcomes[send_id] = outcome
        if turn + 1 < self._per_lane and not self._cancelled:
            self._due.append((at_ns + self._delay, lane, turn + 1))

    @property
    def finished(self) -> bool:
        return not self._due and not self._flying

    @property
    def phases(self) -> Phases:
        return self._phases

    def _make(self, at: int, lane: int, turn: int) -> Send:
        number = self._next_id
        self._next_id += 1
        self._flying[number] = (lane, turn)
        return Send(
            id=number,
            phase="profiling",
            lane=lane,
            tree=lane,
            session=self._session,
            key=TurnKey(0, turn),
            max_tokens=4,
            scheduled_ns=at,
            correlation_id=f"stream-{lane}",
            parent_correlation_id=None,
            marker="",
        )
