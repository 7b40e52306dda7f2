"""The line rules of event streams, against the standard written down naively on whole input."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.replay.sse import Event, EventStream

PIECES = st.sampled_from(
    [
        *(b"data: ", b"data:", b"data", b"event: e", b"event:", b": c", b"id: 1", b"x", b" ", b"{}", b"data: y\n\n"),
        *(b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"\xc2\x85"),
    ]
)
STREAMS = st.lists(PIECES, max_size=14).map(b"".join)


def by_the_book(stream: bytes) -> list[Event]:
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]
    events, data, name = [], [], b""
    for line in lines:
        if not line:
            if b"\n".join(data):
                events.append((name, b"\n".join(data)))
            data, name = [], b""
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return events


@given(STREAMS, st.lists(st.integers(0, 80), max_size=6))
@settings(max_examples=30, deadline=None)
def test_any_split_gives_the_events_of_the_book(stream: bytes, cuts: list[int]) -> None:
    # A CR at the very end has ended its line; the book's split needs to see it so.
    decoder, seen, start = EventStream(), [], 0
    for cut in [*sorted(cuts), len(stream)]:
        seen += decoder.feed(stream[start:cut])
        start = max(start, cut)
    assert seen == by_the_book(stream)


def test_an_event_is_there_with_the_byte_that_ends_it() -> None:
    decoder = EventStream()
    assert decoder.feed(b"data: a\r\n\r") == [(b"", b"a")]
    assert decoder.feed(b"\ndata: b\n\n") == [(b"", b"b")]


def test_what_is_pending_is_known() -> None:
    decoder = EventStream()
    assert decoder.pending is None
    decoder.feed(b"data: a\ndata: b")
    assert decoder.pending == b"a\nb"
    decoder.feed(b"\n\n")
    assert decoder.pending is None
    decoder.feed(b": com")
    assert decoder.pending == b": com"
