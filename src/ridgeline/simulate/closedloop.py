"""A closed loop of growing conversations: the load that a benchmark of prefix caching makes, without a recorded trace.

Turn k of a lane is sent `think_ns` after turn k-1 was answered; its prompt is the previous prompt, the previous answer
and new text, or, with `quote` off, new text in place of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.core.record import Outcome, Phases
from ridgeline.simulate.virtual import answer_key
from ridgeline.trace.pacing.api import Actions, Send
from ridgeline.trace.prompts.api import Layout, Span
from ridgeline.trace.session import Conversation, Session, Turn, TurnKey


@dataclass
class ClosedLoop:
    """`lanes` conversations of `turns` turns, all started at once (or `stagger_ns` apart)."""

    lanes: int
    turns: int
    start: int
    grow: int
    out: int
    think_ns: int = 0
    stagger_ns: int = 0
    cancel: tuple[int, ...] = ()  # send ids to cancel when the next send is due
    due: list[tuple[int, int, int]] = field(default_factory=list)  # (at, lane, turn)
    lane_of: dict[int, tuple[int, int]] = field(default_factory=dict)
    ended: int = 0
    serial: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    aborted: str | None = None

    def __post_init__(self) -> None:
        turns = tuple(
            Turn(
                at_ns=None, delay_ns=None, api_ns=None, input_tokens=self.start + k * self.grow, output_tokens=self.out,
                model="m", hash_ids=(),
            )
            for k in range(self.turns)
        )  # fmt: skip
        self.session = Session(id="s", conversations=(Conversation(id="c", scope="s", turns=turns),))

    def begin(self, now_ns: int) -> None:
        self.due = [(now_ns + lane * self.stagger_ns, lane, 0) for lane in range(self.lanes)]

    def advance(self, now_ns: int) -> Actions:
        sends = []
        for at, lane, turn in [item for item in self.due if item[0] <= now_ns]:
            self.due.remove((at, lane, turn))
            self.lane_of[self.serial] = (lane, turn)
            send = Send(
                self.serial,
                "profiling",
                lane,
                lane,
                self.session,
                TurnKey(0, turn),
                self.out,
                at,
                f"lane-{lane}",
                None,
                "",
            )
            sends.append(send)
            self.serial += 1
        cancels = [i for i in self.cancel if i in self.lane_of and sends and i < sends[0].id]
        self.cancel = tuple(i for i in self.cancel if i not in cancels)
        return Actions(sends, cancels)

    def next_at(self) -> int | None:
        return min((at for at, _, _ in self.due), default=None)

    def sent(self, send_id: int, at_ns: int) -> None:
        assert send_id in self.lane_of

    def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None:
        lane, turn = self.lane_of[send_id]
        self.outcomes.append(outcome)
        if turn + 1 < self.turns:
            self.due.append((at_ns + self.think_ns, lane, turn + 1))
        else:
            self.ended += 1

    @property
    def finished(self) -> bool:
        return self.ended == self.lanes

    @property
    def phases(self) -> Phases:
        return Phases(start_ns=0, profiling_start_ns=0)


@dataclass
class GrowingPrompts:
    """Layouts for `ClosedLoop`: what was said before, what was answered, what is new."""

    pacer: ClosedLoop
    quote: bool = True
    mode: str = "token-ids"
    endpoint: str = "/v1/completions"

    def layout(self, send: Send) -> Layout:
        lane, turn = send.lane, send.key.turn
        ids = {key: send_id for send_id, key in self.pacer.lane_of.items()}
        spans = [Span(lane * 1000, self.pacer.start)]
        for k in range(1, turn + 1):
            answer = answer_key(ids[(lane, k - 1)]) if self.quote else lane * 1000 + 500 + k
            spans += [Span(answer, self.pacer.out), Span(lane * 1000 + k, self.pacer.grow - self.pacer.out)]
        return Layout(tuple(spans))

    def body(self, send: Send) -> list[bytes]:
        raise NotImplementedError("virtual time needs no bytes")
