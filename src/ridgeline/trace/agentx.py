"""Sessions in the shape of the public AgentX set (cc-traces-weka-062126), which cannot be had everywhere.

What is published of it, and held here within about a tenth: 393 sessions of 3 to 3,050 entries, 57,000 requests
outside subagents, half of them beyond 256,000 tokens, 42,000 inside subagents, nearly all below; 97 % of blocks seen
before. What was seen in replays of it, and is met within a quarter: prompts of 94,000 to 152,000 tokens and answers of
770 to 1,040 tokens on average, 0.02 to 0.06 requests a lane and second where an answer takes 20 to 3 s
(DeepSeek-V4.1-Flash on GB300, DeepSeek-V4-Pro under ATOM on MI355X: points the engine model was not evaluated on). The
pause before a turn follows kv-cache-tester's sessions (Apache-2.0), a little shorter. Everything between these figures
is assumption.

Sessions are built as recordings, so they go through the same rules as a file would. Equal arguments give equal
sessions, on every machine.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ridgeline.core.errors import InputError
from ridgeline.core.units import nanoseconds
from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.build import RawTrace, Request, Subagent, build_session
from ridgeline.trace.session import Session, Turn
from ridgeline.trace.synth import BLOCK, MODEL, Quantiles

SESSIONS = 393
SEED = 22  # of 90 tried, the one whose first 1 to 128 sessions come nearest to DeepSeek-V4.1-Flash's replays on GB300
CUT = 256_000  # the set's shorter form leaves out requests whose prompt and answer are longer


@dataclass(frozen=True, slots=True)
class Stream:
    """One conversation's turns. Tokens and seconds."""

    turns: Quantiles
    first_tokens: Quantiles  # what the first prompt has beyond the system prompt
    growth_tokens: Quantiles  # what a turn adds beyond the previous answer
    output_tokens: Quantiles
    gap_s: Quantiles
    limit: int  # a context beyond it is compacted
    restart_share: float = 0.0


ROOT = Stream(
    turns=Quantiles(((0, 3), (0.1, 14), (0.5, 56), (0.9, 250), (0.99, 950), (1, 3000))),
    first_tokens=Quantiles(((0, 300), (0.5, 4700), (0.7, 10_000), (0.85, 60_000), (0.95, 150_000), (1, 400_000))),
    growth_tokens=Quantiles(((0, 20), (0.25, 80), (0.5, 550), (0.75, 2300), (0.9, 7000), (0.99, 33_000), (1, 90_000))),
    output_tokens=Quantiles(((0, 30), (0.1, 110), (0.5, 450), (0.75, 1600), (0.9, 3600), (0.99, 9000), (1, 30_000))),
    gap_s=Quantiles(((0, 0.3), (0.5, 6), (0.9, 75), (0.99, 2000), (1, 77_590))),
    limit=950_000,
    restart_share=0.004,
)
AGENT = Stream(
    turns=Quantiles(((0, 3), (0.5, 22), (0.9, 65), (0.99, 170), (1, 300))),
    first_tokens=Quantiles(((0, 300), (0.5, 3000), (0.9, 20_000), (1, 60_000))),
    growth_tokens=Quantiles(((0, 40), (0.25, 260), (0.5, 850), (0.75, 2300), (0.9, 5200), (1, 30_000))),
    output_tokens=Quantiles(((0, 30), (0.1, 90), (0.5, 180), (0.75, 420), (0.9, 1500), (0.99, 6000), (1, 16_000))),
    gap_s=Quantiles(((0, 0.05), (0.5, 1), (0.9, 8), (1, 120))),  # tools at work; nobody is asked
    limit=165_000,
)
SHORT_SHARE, SHORT_LIMIT = 0.15, 165_000  # sessions of models without the long context
KEPT_SHARE = 0.12  # of a context that is compacted
SYSTEM = Quantiles(((0, 8427), (0.1, 12_938), (0.5, 18_000), (0.9, 26_000), (1, 40_000)))
AGENT_SYSTEM = 0.6  # of the root's
GROUPS = Quantiles(((0, 0.1), (0.3, 0.5), (0.6, 1.1), (0.9, 3.4), (1, 12)))  # of subagents, in a session
WIDTH = Quantiles(((0, 0.6), (0.5, 1.5), (0.9, 4.4), (1, 6.4)))  # subagents that start together
BACKGROUND = 0.15  # subagents nobody waits for
FIRST_TOKEN_S, TOKEN_S = 1.8, 0.016  # recorded server time


def agentx_sessions(
    count: int = SESSIONS, *, seed: int = SEED, longest: int | None = None, start_gap_cap_s: float | None = None
) -> tuple[Session, ...]:
    """The first `count` sessions. `longest`: requests beyond so many tokens are left out, as in the 256k form of the
    set; a session that loses every root turn is gone. `start_gap_cap_s`: see `compressed`."""
    traces: Iterator[RawTrace | None] = (recording(number, seed) for number in range(count))
    if longest is not None:
        traces = (cut(trace, longest) for trace in traces if trace is not None)
    built = (build_session(trace) for trace in traces if trace is not None)
    if start_gap_cap_s is not None:
        built = (compressed(session, nanoseconds(start_gap_cap_s)) for session in built)
    return tuple(built)


def agentx_records(count: int = SESSIONS, *, seed: int = SEED, longest: int | None = None) -> Iterator[dict[str, Any]]:
    """The same sessions as lines of a weka file. Raises InputError when there are to be none."""
    if count < 1:
        raise InputError(f"`count` must be at least 1, not {count}")
    traces = (recording(number, seed) for number in range(count))
    kept = traces if longest is None else (cut(trace, longest) for trace in traces)
    return (weka_record(trace) for trace in kept if trace is not None)


def recording(number: int, seed: int = SEED) -> RawTrace:
    """One session as it would have been recorded."""
    return _Recorder(f"agentx_{seed}_{number:04d}", random.Random(f"agentx:{seed}:{number}")).trace()


def cut(trace: RawTrace, longest: int) -> RawTrace | None:
    """Without requests of more than `longest` tokens, prompt and answer; the clock starts with what is left. None when
    no request of the root is."""

    def fits(request: Request) -> bool:
        return request.input + request.output <= longest

    roots = tuple(filter(fits, trace.requests))
    if not roots:
        return None
    agents = [agent._replace(requests=tuple(filter(fits, agent.requests))) for agent in trace.subagents]
    agents = [agent for agent in agents if agent.requests]
    start = min(request.t for request in (*roots, *(r for agent in agents for r in agent.requests)))
    return trace._replace(
        requests=tuple(_moved(request, request.t - start) for request in roots),
        subagents=tuple(
            agent._replace(t=agent.t - start, requests=tuple(_moved(r, r.t - start) for r in agent.requests))
            for agent in agents
        ),
    )


def compressed(session: Session, cap_ns: int) -> Session:
    """No two requests of a session that follow each other, whoever sent them, start more than `cap_ns` apart: what an
    earlier generation of the harness did to a trace. Who continues whom, and who waits for whom, stays as recorded."""
    starts = sorted(turn.at_ns for conv in session.conversations for turn in conv.turns if turn.at_ns is not None)
    after, cuts, total = [-1], [0], 0
    for one, other in pairwise(starts):
        if other - one > cap_ns:
            total += other - one - cap_ns
            after.append(other)
            cuts.append(total)

    def at(time: int | None) -> int | None:
        return None if time is None else time - cuts[bisect_right(after, time) - 1]

    def moved(turns: Sequence[Turn]) -> Iterator[Turn]:
        end = None
        for turn in turns:
            start = at(turn.at_ns)
            delay = turn.delay_ns if start is None or end is None else max(0, start - end)
            yield replace(turn, at_ns=start, delay_ns=delay)
            end = None if start is None else start + (turn.api_ns or 0)

    return replace(
        session,
        conversations=tuple(replace(conv, turns=tuple(moved(conv.turns))) for conv in session.conversations),
        branches=tuple(replace(branch, start_ns=at(branch.start_ns)) for branch in session.branches),
    )


def weka_record(trace: RawTrace) -> dict[str, Any]:
    """A recording as a line of a weka file."""
    entries: list[tuple[int, dict[str, Any]]] = [(request.outer, _entry(request, 0.0)) for request in trace.requests]
    for agent in trace.subagents:
        inner = [_entry(request, agent.t) for request in agent.requests]
        marker = {
            "t": round(agent.t, 3), "type": "subagent", "agent_id": agent.agent_id, "subagent_type": "Explore",
            "duration_ms": round(agent.duration_ms or 0), "status": "completed", "requests": inner, "models": [MODEL],
            "tool_tokens": 0, "system_tokens": agent.declared_tokens,
        }  # fmt: skip
        entries.append((agent.outer, marker))
    return {
        "id": trace.id, "models": [MODEL], "block_size": trace.block_size, "hash_id_scope": "local", "tool_tokens": 0,
        "system_tokens": trace.declared_tokens, "requests": [entry for _, entry in sorted(entries, key=lambda e: e[0])],
    }  # fmt: skip


def _entry(request: Request, origin: float) -> dict[str, Any]:
    return {
        "type": "n", "t": round(request.t - origin, 3), "model": request.model, "in": request.input,
        "out": request.output, "hash_ids": list(request.ids), "api_time": round(request.api_time or 0.0, 3),
    }  # fmt: skip


def _moved(request: Request, at: float) -> Request:
    return request._replace(t=at)


class _Recorder:
    """Draws one session. Block ids count up as blocks are first used; prompts that extend each other share an array."""

    def __init__(self, name: str, uniform: random.Random) -> None:
        self.name, self.uniform = name, uniform
        self.used = 0
        self.entries = 0
        self.agents: list[Subagent] = []
        self.agent_system: array[int] | None = None  # all subagents of a session have one system prompt

    def trace(self) -> RawTrace:
        uniform = self.uniform
        turns = round(ROOT.turns.draw(uniform))
        limit = SHORT_LIMIT if uniform.random() < SHORT_SHARE else ROOT.limit
        spawning = self._spawning(turns)
        system = self._new(SYSTEM.draw(uniform))
        requests: list[Request] = []
        now = 0.0
        for gap, request in self._stream(ROOT, turns, system, limit):
            requests.append(request._replace(outer=self.entries, t=now + gap))
            self.entries += 1
            now = requests[-1].end
            for _ in range(spawning.get(len(requests), 0)):
                end = self._agent(requests[-1].end + 0.05 + 2 * uniform.random())
                if uniform.random() >= BACKGROUND:
                    now = max(now, end)
        return RawTrace(self.name, BLOCK, tuple(requests), tuple(self.agents), len(system) * BLOCK)

    def _spawning(self, turns: int) -> dict[int, int]:
        """After how many turns subagents start, and how many."""
        groups = round(GROUPS.draw(self.uniform))
        return {
            self.uniform.randint(1, max(1, turns - 1)): max(1, round(WIDTH.draw(self.uniform))) for _ in range(groups)
        }

    def _agent(self, start: float) -> float:
        """One subagent from `start` on; when it is done."""
        if self.agent_system is None:
            self.agent_system = self._new(AGENT_SYSTEM * SYSTEM.draw(self.uniform))
        outer, now = self.entries, start
        requests: list[Request] = []
        for gap, request in self._stream(AGENT, round(AGENT.turns.draw(self.uniform)), self.agent_system, AGENT.limit):
            requests.append(request._replace(outer=outer, inner=len(requests), t=now + gap))
            now = requests[-1].end
        self.entries += 1
        name = f"agent_{len(self.agents) + 1:03d}"
        declared = len(self.agent_system) * BLOCK
        self.agents.append(Subagent(outer, start, name, 1000 * (now - start), tuple(requests), declared))
        return now

    def _stream(self, kind: Stream, turns: int, system: array[int], limit: int) -> Iterator[tuple[float, Request]]:
        """The gap before each request of a conversation, and the request without a place in the recording."""
        uniform, opening = self.uniform, len(system) * BLOCK
        size = min(opening + int(kind.first_tokens.draw(uniform)), limit // 2)
        ids = array("q", system)
        for turn in range(turns):
            ids.extend(self._fresh(size // BLOCK - len(ids)))
            output = max(1, round(kind.output_tokens.draw(uniform)))
            gap = kind.gap_s.draw(uniform) if turn else 0.0
            prompt = BlockIds(ids, size // BLOCK)
            yield gap, Request(0, None, 0.0, MODEL, size, output, prompt, FIRST_TOKEN_S + TOKEN_S * output)
            size += output + round(kind.growth_tokens.draw(uniform))
            if size > limit or uniform.random() < kind.restart_share:
                size = opening + round(KEPT_SHARE * min(size, limit))
                ids = array("q", system)

    def _new(self, tokens: float) -> array[int]:
        return array("q", self._fresh(max(1, int(tokens) // BLOCK)))

    def _fresh(self, blocks: int) -> range:
        self.used += max(0, blocks)
        return range(self.used - max(0, blocks) + 1, self.used + 1)
