"""The promise of layouts: two prompts share as many tokens in spans as in what is sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.making import send, session, turn

from ridgeline.trace.prompts import Layout, PromptSource, byte_model, make_prompts
from ridgeline.trace.session import Session


class Letters:
    """A tokenizer whose tokens are single characters of a tiny alphabet, so that texts often begin alike."""

    def encode(self, text: str) -> Sequence[int]:
        return [ord(letter) % 5 for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join("abcde"[token] for token in ids)


def sources(sessions: Sequence[Session]) -> dict[str, PromptSource]:
    return {
        "bytes": make_prompts(sessions, "bytes", model="m", seed=1),
        "token-ids": make_prompts(sessions, "token-ids", model="m", seed=1, vocabulary=512),
    }


def sent_tokens(source: PromptSource, body: Sequence[bytes]) -> np.ndarray:
    data: dict[str, Any] = json.loads(b"".join(body))
    if "prompt" in data:
        return np.array(data["prompt"])
    return byte_model.chat_tokens((message["role"], message["content"]) for message in data["messages"])


def shared_tokens(left: np.ndarray, right: np.ndarray) -> int:
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    return int(differs.argmax()) if differs.any() else size


def shared_spans(left: Layout, right: Layout) -> int:
    shared = 0
    for ours, theirs in zip(left.spans, right.spans, strict=False):
        if ours.key != theirs.key:
            break
        shared += min(ours.tokens, theirs.tokens)
        if ours.tokens != theirs.tokens:
            break
    return shared


@st.composite
def trees(draw: st.DrawFn) -> list[Session]:
    size = draw(st.sampled_from([2, 3, 8]))
    made = []
    for name in ("s1", "s2"):
        conversations = []
        for _ in range(draw(st.integers(1, 3))):
            turns = []
            for k in range(draw(st.integers(1, 4))):
                ids = draw(st.lists(st.integers(0, 2), max_size=5))
                tokens = max(1, size * len(ids) + draw(st.sampled_from([0, 0, 1, -1, 9])))
                declared = draw(st.sampled_from([0, size, 2 * size])) if k == 0 else 0
                turns.append(turn(ids, tokens, output_tokens=draw(st.integers(0, 9)), declared_prefix_tokens=declared))
            conversations.append(turns)
        made.append(session(*conversations, name=name, size=size, scope=draw(st.sampled_from(["local", "global"]))))
    return made


@settings(max_examples=10)
@given(trees(), st.data())
def test_spans_share_what_the_sent_tokens_share(sessions: list[Session], data: st.DataObject) -> None:
    markers = ["", "[rid:000000000000]\n\n", "[rid:0000000000ff]\n\n"]
    sends = [
        send(made, conversation, k, marker=marker)
        for made in sessions
        for conversation, conv in enumerate(made.conversations)
        for k in range(len(conv.turns))
        for marker in markers
    ]
    chosen = data.draw(st.lists(st.sampled_from(sends), min_size=2, max_size=8))
    for mode, source in sources(sessions).items():
        prompts = []
        for one in chosen:
            layout, tokens = source.layout(one), sent_tokens(source, source.body(one))
            assert layout.tokens == len(tokens), mode
            assert all(span.tokens > 0 for span in layout.spans)
            prompts.append((layout, tokens))
        for a, (left, ours) in enumerate(prompts):
            for right, theirs in prompts[:a]:
                assert shared_spans(left, right) == shared_tokens(ours, theirs), mode
        again = sources(sessions)[mode]  # another order of sending, the same bytes
        for one, (_, tokens) in reversed(list(zip(chosen, prompts, strict=True))):
            assert sent_tokens(again, again.body(one)).tolist() == tokens.tolist()


@settings(max_examples=8)
@given(
    st.lists(
        st.lists(st.sampled_from(["ab", "abcd", "abcde", "b", ""]), min_size=1, max_size=4), min_size=2, max_size=5
    )
)
def test_recorded_texts_share_what_they_share(conversations: list[list[str]]) -> None:
    made = session(
        *(
            [turn([], messages=tuple(("user" if i % 2 == 0 else "assistant", text) for i, text in enumerate(texts)))]
            for texts in conversations
        )
    )
    for source in sources([made]).values():
        prompts = []
        for conversation in range(len(conversations)):
            one = send(made, conversation, marker="[rid:000000000000]\n\n")
            prompts.append((source.layout(one), sent_tokens(source, source.body(one))))
            assert prompts[-1][0].tokens == len(prompts[-1][1])
        for left, ours in prompts:
            for right, theirs in prompts:
                assert shared_spans(left, right) == shared_tokens(ours, theirs)


@pytest.mark.parametrize("mode", ["bytes", "token-ids", "tokenizer"])
def test_blocks_share_as_their_ids_do_and_trees_do_not(mode: str) -> None:
    made = session([turn(range(6)), turn([0, 1, 2, 9, 10, 11])], [turn([0, 1, 2, 3, 12])])
    source = make_prompts([made], mode, model="m", tokenizer=Letters() if mode == "tokenizer" else None)
    ours = source.layout(send(made, marker="[rid:aaaaaaaaaaaa]\n\n"))
    fork = source.layout(send(made, 0, 1, marker="[rid:aaaaaaaaaaaa]\n\n"))
    child = source.layout(send(made, 1, marker="[rid:aaaaaaaaaaaa]\n\n"))
    other = source.layout(send(made, marker="[rid:bbbbbbbbbbbb]\n\n"))
    assert 3 * 64 <= shared_spans(ours, fork) < 4 * 64
    assert 4 * 64 <= shared_spans(ours, child) < 5 * 64
    assert shared_spans(ours, other) < 16


def test_a_later_turn_begins_with_the_spans_of_the_earlier() -> None:
    made = session([turn(range(3 * k + 3), tokens=64 * (3 * k + 3) + 5) for k in range(6)])
    source = make_prompts([made], "bytes", model="m")
    before: tuple = ()
    for k in range(6):
        spans = source.layout(send(made, 0, k, marker="[rid:aaaaaaaaaaaa]\n\n")).spans
        assert spans[: len(before)] == before
        before = spans[:-1]  # all but the loose tokens and the header of the answer
    assert len(before) < 20
