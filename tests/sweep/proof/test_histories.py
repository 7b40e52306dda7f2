"""Tokens that sessions under way hold at once."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.core.record import Outcome, Record
from ridgeline.sweep.proof.histories import live_histories


def turn(tree: int, stream: str, sent: int, end: int, prompt: int, answer: int = 10) -> Record:
    return Record(
        request_id=sent, phase="profiling", lane=tree % 2, tree=tree, session_id=f"s{tree}", conversation_id=stream,
        turn_index=0, correlation_id=stream, sent_ns=sent, end_ns=end, outcome=Outcome.OK, prompt_tokens=prompt,
        completion_tokens=answer,
    )  # fmt: skip


def test_a_stream_holds_its_last_prompt_and_answer() -> None:
    assert live_histories([turn(1, "a", 0, 5, 100), turn(1, "a", 6, 9, 150, 20)]) == 170


def test_streams_of_a_tree_and_trees_add_up_while_they_are_under_way() -> None:
    parent, child = turn(1, "a", 0, 5, 100), turn(1, "b", 6, 8, 40)
    back, other = turn(1, "a", 9, 20, 200), turn(2, "c", 10, 30, 300)
    assert live_histories([parent, child, back, other]) == 210 + 50 + 310


def test_a_session_that_has_ended_holds_nothing() -> None:
    assert live_histories([turn(1, "a", 0, 10, 500), turn(2, "b", 10, 20, 100)]) == 510
    assert live_histories([turn(1, "a", 0, 11, 500), turn(2, "b", 10, 20, 100)]) == 620


def test_requests_that_failed_or_tell_nothing_do_not_count() -> None:
    failed = replace(turn(1, "a", 0, 10, 500), outcome=Outcome.HTTP_ERROR)
    silent = replace(turn(1, "a", 0, 10, 500), prompt_tokens=None)
    assert live_histories([failed, silent]) is None
    assert live_histories([failed, turn(2, "b", 10, 20, 100)]) == 110
