"""The reference loader's output for recorded sessions, field by field: the few that have files of their own in every
run, all 47 with every message's hash in the integration run."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.golden import golden
from tests.trace.oracle import expected

from ridgeline.trace.build import build_session
from ridgeline.trace.formats import weka
from ridgeline.trace.formats.source import records
from ridgeline.trace.prompts.segments import plan
from ridgeline.trace.session import Session
from ridgeline.trace.show import describe

Pairs = list[tuple[dict[str, Any], Session]]


@cache
def _sessions(path: Path, wanted: frozenset[str]) -> dict[str, Session]:
    found = {}
    for record in records(path):
        name = re.search(rb'"id": ?"([^"]+)"', record.data[:200])
        if name and name[1].decode() in wanted:
            found[name[1].decode()] = build_session(weka.raw_trace(weka.parse(record), "each"))
    return found


@pytest.fixture(params=["few", pytest.param("all", marks=pytest.mark.integration)])
def pairs(request: pytest.FixtureRequest) -> Pairs:
    rows = expected()
    if request.param == "all":
        sessions = _sessions(golden("traces/weka/traces.jsonl.gz"), frozenset(rows))
        assert set(sessions) == set(rows) and len(rows) >= 47
    else:
        files = [path for path in golden("traces/weka/files").iterdir() if path.stem in rows]
        sessions = {name: found for path in files for name, found in _sessions(path, frozenset(rows)).items()}
        assert sessions, "some of the expected sessions have files of their own"
    return [(rows[name], session) for name, session in sessions.items()]


def test_conversations_branches_and_turns_are_the_reference_s(pairs: Pairs) -> None:
    for row, session in pairs:
        assert [(c["id"], c["scope"], len(c["turns"])) for c in row["conversations"]] == [
            (c.id, c.scope, len(c.turns)) for c in session.conversations
        ]
        names = [conversation.id for conversation in session.conversations]
        assert row["conversations"][0]["branches"] == [
            {
                "id": branch.id,
                "children": [names[child] for child in branch.children],
                "bg": branch.join_turn is None,
                "start_ms": pytest.approx((branch.start_ns or 0) / 1e6),
            }
            for branch in session.branches
        ]
        for theirs, ours in zip(row["conversations"], session.conversations, strict=True):
            for k, (wanted, turn) in enumerate(zip(theirs["turns"], ours.turns, strict=True)):
                where = f"{ours.id} turn {k}"
                assert turn.at_ns == pytest.approx(wanted["t_ms"] * 1e6), where
                assert (turn.delay_ns is None) == (wanted["delay_ms"] is None), where
                assert turn.delay_ns is None or abs(turn.delay_ns - wanted["delay_ms"] * 1e6) < 2, where
                assert turn.api_ns == (None if wanted["api_ms"] is None else pytest.approx(wanted["api_ms"] * 1e6)), (
                    where
                )
                assert [
                    turn.max_tokens,
                    turn.hit_blocks,
                    turn.total_blocks,
                    turn.kind,
                    [session.branches[branch].id for branch in turn.spawns],
                    [session.branches[branch].id for branch in turn.joins],
                    [[names[key.conversation], key.turn] for key in turn.predecessors],
                    [turn.outer, turn.inner, turn.source_kind],
                ] == [wanted[n] for n in ("max_tokens", "hit", "total", "kind", "spawns", "joins", "preds", "src")], (
                    where
                )


def test_messages_and_resets_are_the_reference_s(pairs: Pairs) -> None:
    differing_resets = 0
    for row, session in pairs:
        for theirs, ours in zip(row["conversations"], session.conversations, strict=True):
            prompts, fork = plan(session, ours, "aiperf-0.13"), plan(session, ours)
            for k, wanted in enumerate(theirs["turns"]):
                path = [prompts.segments[node] for node in prompts.path(k)]
                sizes = [64 * (segment.end - segment.start) for segment in path]
                sizes[-1] += prompts.endings[k].tail
                assert [[s.role, n] for s, n in zip(path, sizes, strict=True)] == [
                    [role, int(text.split(":")[0])] for role, text in wanted["msgs"]
                ], f"{ours.id} turn {k}"
                assert prompts.endings[k].reset == wanted["reset"], f"{ours.id} turn {k}"
                if fork.endings[k].reset != wanted["reset"]:
                    differing_resets += 1
                    assert ours.turns[k].hash_ids == ours.turns[k - 1].hash_ids
                assert fork.endings[k]._replace(reset=False) == prompts.endings[k]._replace(reset=False)
    assert differing_resets == 0  # none of the 47 sessions repeats a context


def test_message_hashes_are_the_reference_s(pairs: Pairs) -> None:
    for row, session in pairs:
        found = describe(session, "aiperf-0.13")
        for theirs, ours in zip(row["conversations"], found["conversations"], strict=True):
            assert [turn["msgs"] for turn in theirs["turns"]] == [turn["msgs"] for turn in ours["turns"]]
            assert [set(turn) for turn in theirs["turns"]] == [set(turn) for turn in ours["turns"]]
