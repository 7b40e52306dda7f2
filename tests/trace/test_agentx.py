"""Sessions in the shape of the public agentic set: what is published of it, its shorter form, and the old pacing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.units import SECOND
from ridgeline.trace import load
from ridgeline.trace.agentx import CUT, agentx_records, agentx_sessions, compressed, cut, recording
from ridgeline.trace.formats.write import write_jsonl
from ridgeline.trace.session import Session


def starts(session: Session) -> list[int]:
    return sorted(turn.at_ns for conv in session.conversations for turn in conv.turns if turn.at_ns is not None)


def test_equal_arguments_give_equal_sessions() -> None:
    assert recording(3, seed=5) == recording(3, seed=5)
    assert recording(3, seed=5) != recording(3, seed=6) != recording(4, seed=6)


@pytest.mark.integration
def test_the_set_has_the_published_sizes() -> None:
    traces = [recording(number) for number in range(393)]
    roots = [request for trace in traces for request in trace.requests]
    inside = [request for trace in traces for agent in trace.subagents for request in agent.requests]
    assert len(roots) == pytest.approx(57_000, rel=0.1)
    assert len(inside) == pytest.approx(42_000, rel=0.1)
    assert sum(r.input + r.output > CUT for r in roots) / len(roots) == pytest.approx(0.51, abs=0.06)
    assert sum(r.input + r.output > CUT for r in inside) / len(inside) < 0.05
    assert max(r.input for r in roots) < 990_016


def test_nearly_all_blocks_have_been_seen_before_and_a_prompt_never_names_more_than_it_holds() -> None:
    sessions = agentx_sessions(12)
    turns = [turn for session in sessions for conv in session.conversations for turn in conv.turns]
    share = sum(turn.hit_blocks for turn in turns) / sum(turn.total_blocks for turn in turns)
    assert share == pytest.approx(0.968, abs=0.02)
    assert all(0 <= turn.input_tokens - 64 * turn.total_blocks < 64 for turn in turns)
    # a conversation stays one: nothing was taken for a worker of its own
    assert all("::" not in c.id or "::sa:" in c.id for session in sessions for c in session.conversations)


def test_the_shorter_form_leaves_out_long_requests_and_starts_at_zero() -> None:
    trace = next(t for t in map(recording, range(50)) if t.requests[-1].input > 100_000 and len(t.requests) > 20)
    short = cut(trace, 80_000)
    assert short is not None and 0 < len(short.requests) < len(trace.requests)
    kept = [*short.requests, *(r for agent in short.subagents for r in agent.requests)]
    assert max(r.input + r.output for r in kept) <= 80_000
    assert min(r.t for r in kept) == 0
    assert [r.outer for r in short.requests] == [r.outer for r in trace.requests if r.input + r.output <= 80_000]
    assert cut(trace, 100) is None


def test_the_old_pacing_cuts_gaps_between_starts_and_keeps_who_waits_for_whom() -> None:
    session = next(s for s in agentx_sessions(12) if s.branches and s.turns < 400)
    cap = 10 * SECOND
    quick = compressed(session, cap)
    before, after = starts(session), starts(quick)
    assert max(b - a for a, b in pairwise(before)) > cap >= max(b - a for a, b in pairwise(after))
    assert [min(cap, b - a) for a, b in pairwise(before)] == [b - a for a, b in pairwise(after)]
    for own, moved in zip(session.conversations, quick.conversations, strict=True):
        assert [t.predecessors for t in own.turns] == [t.predecessors for t in moved.turns]
        assert [t.hash_ids for t in own.turns] == [t.hash_ids for t in moved.turns]
        for one, other in pairwise(moved.turns):
            assert other.delay_ns == max(0, (other.at_ns or 0) - (one.at_ns or 0) - (one.api_ns or 0))
    assert starts(compressed(session, 10**18)) == before


def test_a_file_of_them_is_read_back_as_the_same_sessions(tmp_path: Path) -> None:
    assert write_jsonl(tmp_path / "t.jsonl.gz", agentx_records(3, longest=150_000)) == 3
    for made, read in zip(agentx_sessions(3, longest=150_000), load(tmp_path / "t.jsonl.gz").sessions, strict=True):
        assert made.id == read.id and len(made.conversations) == len(read.conversations)
        for one, other in zip(made.conversations, read.conversations, strict=True):
            for a, b in zip(one.turns, other.turns, strict=True):
                assert (a.input_tokens, a.output_tokens, a.spawns, a.joins) == (
                    b.input_tokens, b.output_tokens, b.spawns, b.joins,
                )  # fmt: skip
                assert list(a.hash_ids) == list(b.hash_ids) and abs((a.at_ns or 0) - (b.at_ns or 0)) < 10_000_000
    with pytest.raises(InputError, match="at least 1"):
        agentx_records(0)
