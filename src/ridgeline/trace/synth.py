"""Sessions made up from distributions, in the shape of recorded ones and in the weka format.

A distribution is a few quantiles; between them the logarithm is linear. The "agentic" shape follows 419 sessions of
kv-cache-tester (Apache-2.0) and the figures published for its 739. Growth and restarts were measured on the former.
Equal arguments give equal sessions, on every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ridgeline.core.errors import InputError
from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.session import Conversation, Session, Turn

BLOCK = 64
MODEL = "synthetic"


@dataclass(frozen=True, slots=True)
class Quantiles:
    """(share, value) from share 0 to 1, values above 0."""

    points: tuple[tuple[float, float], ...]

    def draw(self, uniform: random.Random) -> float:
        """One value: the inverse of the distribution at a uniform number."""
        return self.at(uniform.random())

    def at(self, share: float) -> float:
        """The value below which `share` of all lie."""
        for (low, left), (high, right) in zip(self.points, self.points[1:], strict=False):
            if share <= high:
                place = (share - low) / (high - low)
                return math.exp(math.log(left) + place * (math.log(right) - math.log(left)))
        return self.points[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What sessions look like. Tokens, seconds and shares."""

    turns: Quantiles
    system_tokens: Quantiles  # declared tool and system prompt
    first_tokens: Quantiles  # what the first prompt has beyond that
    growth_tokens: Quantiles  # what a turn adds beyond the previous answer
    output_tokens: Quantiles
    gap_s: Quantiles  # from an answer's end to the next request
    context_limit: int  # a prompt that would exceed it is compacted first
    restart_share: float = 0.008  # turns that keep only the system prompt and begin anew
    compacted_share: float = 0.15  # what remains of the context then
    subagents: float = 0.09  # per session
    background_share: float = 0.08  # subagents nobody waits for
    subagent_turns: Quantiles = Quantiles(((0, 3), (0.5, 10), (0.9, 16), (1, 24)))
    first_token_s: float = 1.8  # recorded server time: this and `token_s` a token (median 6.1 s, mean 9.8 s)
    token_s: float = 0.02


AGENTIC = Shape(
    turns=Quantiles(((0, 3), (0.5, 45), (0.9, 155), (0.99, 330), (1, 514))),
    system_tokens=Quantiles(((0, 8427), (0.1, 12938), (0.5, 15464), (0.9, 20871), (1, 23081))),
    first_tokens=Quantiles(((0, 300), (0.5, 4700), (0.7, 10_000), (0.8, 80_000), (0.9, 150_000), (1, 500_000))),
    growth_tokens=Quantiles(((0, 20), (0.25, 50), (0.5, 350), (0.75, 1000), (0.9, 2900), (0.99, 15_500), (1, 90_000))),
    output_tokens=Quantiles(((0, 30), (0.1, 105), (0.5, 216), (0.9, 898), (0.99, 3686), (1, 18_195))),
    gap_s=Quantiles(((0, 0.3), (0.5, 9.7), (0.9, 120), (0.99, 2182), (1, 77_590))),
    context_limit=895_000,
)

QUICKSTART = Shape(
    turns=Quantiles(((0, 8), (0.5, 12), (1, 20))),
    system_tokens=Quantiles(((0, 2000), (1, 3500))),
    first_tokens=Quantiles(((0, 2000), (0.5, 4000), (1, 12_000))),
    growth_tokens=Quantiles(((0, 60), (0.5, 500), (0.9, 1800), (1, 4000))),
    output_tokens=Quantiles(((0, 50), (0.5, 180), (0.9, 420), (1, 600))),
    gap_s=Quantiles(((0, 1), (0.5, 3), (0.9, 10), (1, 20))),
    context_limit=40_000,
    subagents=0.25,
    subagent_turns=Quantiles(((0, 2), (0.5, 4), (1, 6))),
)

SHAPES = {"agentic": AGENTIC, "quickstart": QUICKSTART}


def synthesise(
    count: int, *, seed: int = 42, shape: str | Shape = "agentic", max_context: int | None = None
) -> Iterator[dict[str, Any]]:
    """Weka records of `count` sessions. `max_context` (tokens, output included) lowers the shape's own limit.

    Raises InputError: an unknown shape, or a limit below what a first prompt needs.
    """
    if isinstance(shape, str):
        if shape not in SHAPES:
            raise InputError(f"unknown shape {shape!r}", hint=f"one of {', '.join(SHAPES)}, agentx")
        shape = SHAPES[shape]
    if count < 1:
        raise InputError(f"`count` must be at least 1, not {count}")
    limit = shape.context_limit if max_context is None else min(shape.context_limit, max_context)
    needed = int(shape.system_tokens.at(1) + shape.first_tokens.at(0.5))
    if limit < needed:
        raise InputError(f"a context of {limit} tokens is too short for this shape", hint=f"at least {needed}")
    shape = replace(shape, context_limit=limit)
    for number in range(count):
        yield _Writer(random.Random(f"{seed}:{number}"), shape).session(f"synth_{seed}_{number:04d}")


def quickstart_trace() -> Path:
    """The small trace that comes with the package: 24 sessions for trying things out."""
    return Path(__file__).parent / "data" / "quickstart.jsonl.gz"


def fixed_sessions(
    isl: int,
    osl: int,
    count: int,
    seed: int = 42,
    *,
    range_ratio: float = 1.0,
    repeated: bool = False,
    run: str = "",
) -> tuple[Session, ...]:
    """Sessions of one turn with exactly `isl` prompt tokens (content; a chat template comes on top) and `osl` to
    generate, sharing nothing.

    `range_ratio` below 1 draws both lengths uniformly between that share of them and the whole. `repeated`: all
    prompts are the same text, to measure with a warm prefix cache. `run`: another one gives other texts of the same
    lengths, so that a point does not find the one before it in the cache of a server that stays up. Raises InputError
    on lengths below 1.
    """
    for name, value in (("isl", isl), ("osl", osl), ("count", count)):
        if value < 1:
            raise InputError(f"`{name}` must be at least 1, not {value}")
    if not 0 < range_ratio <= 1:
        raise InputError(f"`range_ratio` must be above 0 and at most 1, not {range_ratio}")
    ids = BlockIds.of(range(-(-isl // BLOCK)))
    uniform = random.Random(f"fixed:{seed}:{isl}:{osl}")

    def size(whole: int) -> int:
        return whole if range_ratio == 1 else uniform.randint(max(1, int(whole * range_ratio)), whole)

    sessions = []
    for number in range(count):
        tokens, output = size(isl), size(osl)
        blocks = -(-tokens // BLOCK) if repeated else tokens // BLOCK
        turn = Turn(
            at_ns=None,
            delay_ns=None,
            api_ns=None,
            input_tokens=tokens,
            output_tokens=output,
            model=MODEL,
            hash_ids=BlockIds(ids.base, blocks),
            source_kind="fixed",
        )
        name = f"fixed_{seed}_{isl}_{osl}_{number:06d}{run and f'_{run}'}"
        root = Conversation(id=name, scope=name, turns=(turn,))
        scope = "global" if repeated else "local"
        sessions.append(Session(id=name, conversations=(root,), block_size=BLOCK, hash_scope=scope))
    return tuple(sessions)


class _Writer:
    """Writes one session. Block ids count up as blocks are first used."""

    def __init__(self, uniform: random.Random, shape: Shape) -> None:
        self.uniform = uniform
        self.shape = shape
        self.used = 0
        self.agents = 0
        self.agent_system: tuple[int, list[int]] | None = None  # all subagents of a session have one system prompt

    def session(self, name: str) -> dict[str, Any]:
        shape = self.shape
        turns = round(shape.turns.draw(self.uniform))
        spawning = self._spawning(turns)
        system = self._system(shape.system_tokens.draw(self.uniform))
        requests: list[dict[str, Any]] = []
        at = 0.0
        for request, gap in self._stream(turns, system, shape.first_tokens.draw(self.uniform)):
            at += gap
            requests.append({"t": round(at, 3), **request})
            at += request["api_time"]
            if len([r for r in requests if r["type"] != "subagent"]) in spawning:
                marker = self._subagent(at + 0.05)
                requests.append(marker)
                if self.uniform.random() >= shape.background_share:
                    at = marker["t"] + marker["duration_ms"] / 1000
        return {
            "id": name,
            "models": [MODEL],
            "block_size": BLOCK,
            "hash_id_scope": "local",
            "tool_tokens": 0,
            "system_tokens": system[0],
            "requests": requests,
        }

    def _spawning(self, turns: int) -> set[int]:
        """After which turns a subagent starts."""
        number = int(self.shape.subagents) + (self.uniform.random() < self.shape.subagents % 1)
        return {self.uniform.randint(1, max(1, turns - 2)) for _ in range(number)}

    def _subagent(self, at: float) -> dict[str, Any]:
        shape = self.shape
        self.agents += 1
        if self.agent_system is None:
            self.agent_system = self._system(0.6 * shape.system_tokens.draw(self.uniform))
        system = self.agent_system
        requests, now = [], 0.0
        turns = round(shape.subagent_turns.draw(self.uniform))
        for request, gap in self._stream(turns, system, 0.2 * shape.first_tokens.draw(self.uniform)):
            now += min(gap, 10.0)  # nobody is asked inside a subagent: its gaps are tools at work
            requests.append({"t": round(now, 3), **request})
            now += request["api_time"]
        return {
            "t": round(at, 3),
            "type": "subagent",
            "agent_id": f"agent_{self.agents:03d}",
            "subagent_type": "Explore",
            "duration_ms": round(now * 1000),
            "total_tokens": sum(request["in"] + request["out"] for request in requests),
            "tool_use_count": len(requests) - 1,
            "status": "completed",
            "requests": requests,
            "models": [MODEL],
            "tool_tokens": 0,
            "system_tokens": system[0],
        }

    def _stream(
        self, turns: int, system: tuple[int, list[int]], first: float
    ) -> Iterator[tuple[dict[str, Any], float]]:
        """Requests of one conversation and the gap before each."""
        shape, uniform = self.shape, self.uniform
        limit = shape.context_limit
        size, ids = system[0] + int(first), list(system[1])
        size = min(size, limit // 2)
        for turn in range(turns):
            output = max(1, min(round(shape.output_tokens.draw(uniform)), limit - size))
            ids += self._new(size // BLOCK - len(ids))
            last = turn == turns - 1
            yield (
                {
                    "type": "n",
                    "model": MODEL,
                    "in": size,
                    "out": output,
                    "hash_ids": list(ids),
                    "input_types": ["text"] if turn == 0 else ["tool_result"],
                    "output_types": ["text"] if last else ["tool_use"],
                    "stop": "end_turn" if last else "tool_use",
                    "api_time": round(shape.first_token_s + shape.token_s * output, 3),
                },
                0.0 if turn == 0 else round(shape.gap_s.draw(uniform), 3),
            )
            size += output + round(shape.growth_tokens.draw(uniform))
            longest = limit - round(shape.output_tokens.at(0.9))
            if size > longest or uniform.random() < shape.restart_share:
                kept = system[0] + round(shape.compacted_share * min(size, limit))
                size, ids = min(kept, longest), list(system[1])

    def _system(self, tokens: float) -> tuple[int, list[int]]:
        size = max(BLOCK, round(tokens))
        return size, self._new(-(-size // BLOCK))

    def _new(self, blocks: int) -> list[int]:
        if blocks <= 0:
            return []
        self.used += blocks
        return list(range(self.used - blocks + 1, self.used + 1))
