"""Messages of prompts: exact lengths, whole blocks, a user at the end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.making import session, turn

from ridgeline.trace.prompts.segments import Plan, plan
from ridgeline.trace.session import Session, Turn


def shown(session: Session, profile: str = "agentx") -> list[tuple[str, bool]]:
    """`s2u3+5`: a system message of two blocks, a user message of three and five loose tokens."""
    prompts = plan(session, session.root, profile)
    return [(_text(prompts, k), prompts.endings[k].reset) for k in range(len(session.root.turns))]


def _text(prompts: Plan, k: int) -> str:
    parts = [prompts.segments[node] for node in prompts.path(k)]
    text = " ".join(f"{part.role[0]}{part.end - part.start}" for part in parts)
    return text + (f"+{prompts.endings[k].tail}" if prompts.endings[k].tail else "")


def test_answers_then_user_text_are_added() -> None:
    turns = [turn(range(4), output_tokens=65), turn(range(9)), turn(range(12), output_tokens=0), turn(range(14))]
    assert shown(session(turns)) == [
        ("u4", False),
        ("u4 a2 u3", False),
        ("u4 a2 u3 a1 u2", False),
        ("u4 a2 u3 a1 u2 u2", False),
    ]


def test_a_declared_prompt_is_a_system_message_of_whole_blocks() -> None:
    assert shown(session([turn(range(4), declared_prefix_tokens=65)])) == [("s2 u2", False)]
    assert shown(session([turn(range(2), declared_prefix_tokens=128)])) == [("s2", False)]
    assert shown(session([turn(range(2), tokens=130, declared_prefix_tokens=128)])) == [("s2 u0+2", False)]


def test_loose_tokens_are_taken_back_and_the_list_sent_again() -> None:
    turns = [turn(range(2), tokens=130), turn(range(5), tokens=321), turn(range(5), tokens=330)]
    assert shown(session(turns)) == [("u2+2", False), ("u2 a1 u2+1", True), ("u2 a1 u2 u0+10", True)]


def test_a_prompt_that_forks_is_cut_at_the_block() -> None:
    turns = [turn(range(6)), turn([0, 1, 2, 8, 9]), turn([7])]
    assert shown(session(turns)) == [("u6", False), ("u3 a1 u1", True), ("u1", True)]  # nobody left to answer: all user


def test_an_answer_leaves_room_for_a_user_message() -> None:
    turns = [turn(range(2), output_tokens=640), turn(range(5))]
    assert shown(session(turns)) == [("u2", False), ("u2 a2 u1", False)]
    loose = [turn(range(2), output_tokens=640), turn(range(5), tokens=322)]
    assert shown(session(loose)) == [("u2", False), ("u2 a3 u0+2", False)]


def test_an_answer_is_cut_where_a_later_prompt_must_end() -> None:
    turns = [turn(range(2), output_tokens=192), turn(range(7), output_tokens=0), turn(range(4))]
    assert shown(session(turns))[1:] == [("u2 a1 u4", False), ("u2 a1 u1", True)]


def test_a_repeated_prompt_resets_only_in_agentx() -> None:
    turns = [turn(range(2)), turn(range(2))]
    assert shown(session(turns)) == [("u2", False), ("u2", True)]
    assert shown(session(turns), "aiperf-0.13") == [("u2", False), ("u2", False)]


def test_a_global_id_of_a_partial_block_gives_the_loose_tokens() -> None:
    turns = [turn([5, 6, 7], tokens=130)]
    ending = plan(session(turns, scope="global"), session(turns, scope="global").root).endings[0]
    assert (ending.tail, ending.tail_block) == (2, 7)
    assert plan(session(turns), session(turns).root).endings[0].tail_block is None


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    turns = []
    for k in range(draw(st.integers(1, 7))):
        ids = draw(st.lists(st.integers(0, 2), max_size=6))
        tokens = max(0, 4 * len(ids) + draw(st.integers(-5, 6)))
        declared = draw(st.integers(0, 8)) if k == 0 else 0
        turns.append(turn(ids, tokens, output_tokens=draw(st.integers(0, 20)), declared_prefix_tokens=declared))
    return turns


@settings(max_examples=20)
@given(conversations())
def test_every_prompt_has_its_recorded_length(turns: list[Turn]) -> None:
    made = session(turns, size=4)
    prompts = plan(made, made.root)
    for k, recorded in enumerate(turns):
        path = [prompts.segments[node] for node in prompts.path(k)]
        assert sum(4 * (part.end - part.start) for part in path) + prompts.endings[k].tail == recorded.input_tokens
        covered = 0
        for part in path:
            assert part.start == covered <= part.end
            covered = part.end
            # a shared segment stands for the very blocks this prompt recorded
            assert tuple(turns[part.turn].hash_ids[part.start : part.end]) == tuple(
                recorded.hash_ids[part.start : part.end]
            )
        assert path, "no prompt is without a message"
