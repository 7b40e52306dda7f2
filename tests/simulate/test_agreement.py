"""The emulated engine and the simulator give the same cache hits for the same arrivals: same prompts, one as bytes over
HTTP and hashed from tokens, the other as spans in virtual time and hashed from identities."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from tests.golden import golden
from tests.simulate.serving import Served, against, options

from ridgeline.core.record import Outcome, Phases
from ridgeline.core.topology import Topology
from ridgeline.simulate.virtual import simulate
from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.pacing.api import Actions, Send
from ridgeline.trace.prompts.api import PromptSource
from ridgeline.trace.prompts.make import make_prompts
from ridgeline.trace.session import Conversation, Session, Turn, TurnKey


@dataclass
class OneByOne:
    """Sends a list of turns, each when the one before has been answered."""

    order: list[tuple[Session, TurnKey]]
    max_tokens: int
    next: int = 0
    due: int | None = None
    aborted: str | None = None
    sends: list[Send] = field(default_factory=list)

    def begin(self, now_ns: int) -> None:
        self.due = now_ns

    def advance(self, now_ns: int) -> Actions:
        if self.due is None or self.due > now_ns or self.next == len(self.order):
            return Actions([], [])
        session, key = self.order[self.next]
        name = f"{session.id}-{key.conversation}"
        send = Send(
            self.next, "profiling", 0, 0, session, key, self.max_tokens, now_ns, name, None, f"[run {session.id}] "
        )
        self.next, self.due = self.next + 1, None
        self.sends.append(send)
        return Actions([send], [])

    def next_at(self) -> int | None:
        return self.due

    def sent(self, send_id: int, at_ns: int) -> None:
        assert send_id == self.next - 1

    def completed(self, send_id: int, at_ns: int, outcome: Outcome) -> None:
        assert outcome is Outcome.OK
        self.due = at_ns

    @property
    def finished(self) -> bool:
        return self.next == len(self.order) and self.due is not None

    @property
    def phases(self) -> Phases:
        return Phases(profiling_start_ns=0)


def made_up(count: int, turns: int, seed: int) -> list[Session]:
    """Sessions that share a beginning, grow, and sometimes rewrite their end."""
    chance = random.Random(seed)
    sessions = []
    for number in range(count):
        ids, made = list(range(5)), []
        for turn in range(turns):
            if turn and chance.random() < 0.3:
                ids = ids[: chance.randint(1, len(ids))]
            ids = ids + [1000 * number + 100 * turn + i for i in range(chance.randint(1, 6))]
            loose = chance.randint(0, 63)
            made.append(
                Turn(
                    at_ns=None, delay_ns=None, api_ns=None, input_tokens=64 * len(ids) + loose, output_tokens=8,
                    model="m", hash_ids=BlockIds.of(tuple(ids)),
                )
            )  # fmt: skip
        sessions.append(Session(id=f"s{number}", conversations=(Conversation(id="c", scope="s", turns=tuple(made)),)))
    return sessions


def _hits(order: list[tuple[Session, TurnKey]], prompts: PromptSource, **more: object) -> tuple[list[int], list[int]]:
    """Cached tokens of every turn, by the simulator and by the server; prompt tokens must agree too."""
    given = options(**more)
    pacer = OneByOne(order, 8)
    replay = simulate(pacer, prompts, given)

    async def scenario(server: Served) -> list[dict]:
        client, found = await server.client(), []
        for send in pacer.sends:
            body = b"".join(prompts.body(send)).replace(b'"stream":true', b'"stream":false')
            body = body.replace(b',"stream_options":{"include_usage":true}', b"")
            reply = await client.call("POST", prompts.endpoint, body, x_session_id=send.correlation_id)
            assert reply.status == 200, reply.body
            found.append(reply.json["usage"])
        return found

    usages = against(scenario, given, speed=2000)
    assert [record.prompt_tokens for record in replay.records] == [usage["prompt_tokens"] for usage in usages]
    assert [record.completion_tokens for record in replay.records] == [usage["completion_tokens"] for usage in usages]
    return (
        [record.cached_tokens or 0 for record in replay.records],
        [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages],
    )


@pytest.mark.parametrize("mode", ["bytes", "token-ids"])
@pytest.mark.parametrize("kv_tokens", [4000, 100_000])
def test_same_arrivals_same_hits(mode: str, kv_tokens: int) -> None:
    sessions = made_up(4, 6, seed=3)
    prompts = make_prompts(sessions, mode, model="m")
    order = [(session, TurnKey(0, turn)) for turn in range(6) for session in sessions]
    simulated, served = _hits(order, prompts, kv_tokens=kv_tokens, max_model_len=3500)
    assert simulated == served
    assert sum(simulated) > 0
    if kv_tokens == 4000:
        roomy, _ = _hits(order, prompts, kv_tokens=100_000, max_model_len=3500)
        assert sum(simulated) < sum(roomy)  # the small pool did lose something


def test_same_ranks_for_the_same_sessions() -> None:
    sessions = made_up(5, 4, seed=8)
    order = [(session, TurnKey(0, turn)) for turn in range(4) for session in sessions]
    ranks = Topology(3, dp_attn=True)
    simulated, served = _hits(order, make_prompts(sessions, "bytes", model="m"), topology=ranks, kv_tokens=5000)
    assert simulated == served


def test_recorded_sessions_too() -> None:
    from ridgeline.trace.formats.load import load

    corpus = load(golden("traces/weka/files"), limit=6)
    sessions = list(corpus.sessions)
    order = [
        (session, TurnKey(number, turn))
        for session in sessions
        for number, conversation in enumerate(session.conversations[:3])
        for turn in range(min(6, len(conversation.turns)))
        if conversation.turns[turn].input_tokens < 60_000
    ][:40]
    limits = {"max_model_len": 131072, "kv_tokens": 150_000}
    simulated, served = _hits(order, make_prompts(sessions, "bytes", model="m"), **limits)
    assert simulated == served
    assert sum(simulated) > 0
