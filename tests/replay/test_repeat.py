"""Events that repeat the last one: taken without parsing only when parsing would have said the same."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ridgeline.replay import openai_stream
from ridgeline.replay.openai_stream import Answer, ResponseDecoder
from ridgeline.replay.repeat import learn

FIELDS = ("content", "text", "reasoning_content", "reasoning")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(
    [" the", '"', "\\", "a\nb", "\x7f", "é", "", '"}']
)


def event(text: str, field: str = "content", **more: object) -> bytes:
    choice = {"index": 0, "text": text} if field == "text" else {"index": 0, "delta": {field: text}}
    value = {"id": "c", "model": "modèle", "choices": [choice | {"finish_reason": None}], **more}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def stream(events: list[bytes]) -> bytes:
    return b"".join(b"data: " + each + b"\n\n" for each in events)


def decode(reads: list[bytes], repeats: bool = True) -> Answer:
    """The answer to reads at 0, 1, 2, ...; without `repeats` every event is parsed."""
    quick = openai_stream.learn
    if not repeats:
        openai_stream.learn = lambda event: None
    try:
        decoder = ResponseDecoder(200)
        for at, read in enumerate(reads):
            decoder.feed(read, at)
        return decoder.close()
    finally:
        openai_stream.learn = quick


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=8), st.sampled_from(FIELDS))
@example([["a"], ["b"], ["c"], ['"'], ["\\"], ["a\nb"], [""], ["é", "\x7f"]], "content")
@settings(max_examples=100, deadline=None)
def test_it_is_what_parsing_says(texts: list[list[str]], field: str) -> None:
    reads = [stream([event(text, field) for text in read]) for read in ([["x"], ["y"], ["z"], *texts])]
    assert decode(reads) == decode(reads, repeats=False)


@given(st.binary(max_size=6))
@example(b"\xff")
@example(b'"},"usage":{"completion_tokens":9}},{"x":"')
@settings(max_examples=100, deadline=None)
def test_any_bytes_in_place_of_the_text(raw: bytes) -> None:
    whole = event("x")
    start = whole.index(b'"x"') + 1
    reads = [stream([whole])] * 3 + [b"data: " + whole[:start] + raw + whole[start + 1 :] + b"\n\n", stream([whole])]
    assert decode(reads) == decode(reads, repeats=False)


@given(
    st.lists(TEXTS, max_size=30),
    st.lists(st.integers(0, 3000), max_size=4),
    st.sampled_from([b"", b"data: {}\n", b": x\n", b"event: error\n"]),
)
@example(["a"] * 30, [], b"")
@example(["a"] * 9, [1100], b"data: {}\n")
@settings(max_examples=100, deadline=None)
def test_however_many_events_a_read_holds(texts: list[str], cuts: list[int], before: bytes) -> None:
    """Also when a line of an event came in the read before."""
    body = stream([event("", role="assistant"), *map(event, texts)]) + before
    body += stream([event("z"), event("z"), event("", usage={"completion_tokens": 3}), b"[DONE]", event("late")])
    edges = sorted(
        {0, len(body), *(cut for cut in cuts if cut < len(body)), body.index(before or body[:1]) + len(before)}
    )
    reads = [body[start:end] for start, end in pairwise(edges)]
    assert decode(reads) == decode(reads, repeats=False)


def test_what_can_be_learnt() -> None:
    shape = learn(event("a"))
    assert shape is not None and not shape.hidden
    assert shape.run(stream([event("b"), event(" c")])) == (["b", " c"], b"")
    other = stream([event("c", "text"), b"[DONE]"])
    assert shape.run(stream([event("b"), event("c")]) + other) == (["b", "c"], other)
    for none in (
        stream([event("b")])[:-1],
        other + stream([event("b")]),
        stream([event("b")]) + other + stream([event("b")]),
    ):
        assert shape.run(none) == ([], none)
    hidden = learn(event("a", "reasoning_content"))
    assert hidden is not None and hidden.hidden


@pytest.mark.parametrize(
    "other",
    [
        event(""),
        event("a").replace(b"null", b'"stop"'),
        event("a").replace(b'"index":0', b'"index":1'),
        event("a", usage={"completion_tokens": 1}),
        event("a").replace(b'"content":"a"', b'"content":"a","reasoning":"b"'),
        event("a").replace(b'"content":"a"', b'"tool_calls":[{"function":{"arguments":"a"}}]'),
        event("a").replace(b'"content":"a"', b'"content":"a","content":"b"'),
        b'{"content":"a","choices":[{"index":0,"delta":{"content" :"a"}}]}',
        event("a", error={"message": "x"}),
        b"[DONE]",
        b'{"content":"a"',
    ],
)
def test_what_cannot(other: bytes) -> None:
    assert learn(other) is None


def test_reads_that_came_together_keep_their_stamps() -> None:
    decoder = ResponseDecoder(200)
    for at in range(3):
        decoder.feed(stream([event("x")]), at)
    assert decoder.repeats
    body = stream([event(text) for text in "abcd"])
    assert not decoder.feed_many(body, [1, 2], [7, 8]), "an event more than ended"
    assert not decoder.feed_many(body, [2, 2], [7, 8, 9]), "a read that ended inside an event"
    assert not decoder.feed_many(body[:-1], [2, 2], [7, 8])
    assert decoder.feed_many(body, [1, 3], [7, 8]) and decoder.feed_many(stream([event("e")]), [1], [9])
    answer = decoder.close()
    assert answer.chunk_ns == [0, 1, 2, 7, 8, 8, 8, 9] and answer.text() == "xxxabcde" and "coalesced" in answer.flags
