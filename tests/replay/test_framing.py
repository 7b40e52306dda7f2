"""HTTP's framing: what is taken at once is what httptools would have said, whatever the split of the bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ridgeline.replay.framing import Framing, Head, KnownHead

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"


def chunk(body: bytes, size: bytes | None = None) -> bytes:
    return (b"%x" % len(body) if size is None else size) + b"\r\n" + body + b"\r\n"


def seen(data: bytes, cuts: list[int], known: KnownHead | None = None) -> tuple[Head | None, bytes, bool, bool]:
    """What comes of these bytes as one answer, read in pieces."""
    framing = Framing(known or KnownHead())
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    body = b"".join(framing.take(data[start:end]) for start, end in pairwise(edges))
    return framing.head, body, framing.complete, framing.error is not None


def by_httptools(data: bytes) -> tuple[Head | None, bytes, bool, bool]:
    """The same with nothing taken at once: a byte at a time is never a whole chunk."""
    return seen(data, list(range(len(data))))


BODIES = st.lists(
    st.binary(min_size=1, max_size=12) | st.sampled_from([b"a\r\nb", b"\r\n", b"0\r\n\r\n", b"data: x\n\n", b"x" * 17]),
    max_size=5,
)
ENDS = st.sampled_from(
    [b"0\r\n\r\n", b"000\r\n\r\n", b"0;last\r\n\r\n", b"0\r\nx-trailer: y\r\n\r\n", b"", b"zz\r\n", b"-1\r\n\r\n"]
)


@given(BODIES, ENDS, st.lists(st.integers(0, 220), max_size=4), st.booleans(), st.booleans())
@example([b"a"], b"0\r\n\r\n", [], True, False)
@example([b"a\r\nb", b"b"], b"0\r\n\r\n", [83, 90], True, True)
@settings(max_examples=150, deadline=None)
def test_whole_chunks_are_what_httptools_says(
    bodies: list[bytes], end: bytes, cuts: list[int], head_known: bool, interim: bool
) -> None:
    data = (INTERIM if interim else b"") + CHUNKED + b"".join(map(chunk, bodies)) + end
    known = KnownHead()
    if head_known:
        seen(CHUNKED + chunk(b"before") + b"0\r\n\r\n", [], known)
        assert known.raw == CHUNKED
    assert seen(data, cuts, known) == by_httptools(data)


@pytest.mark.parametrize("size", [b"0x3", b"+3", b" 3", b"3 ", b"1_0", b"03", b"3;x=y", b"4", b"2", b""])
def test_a_size_line_is_read_as_httptools_reads_it(size: bytes) -> None:
    data = CHUNKED + chunk(b"abc", size) + b"0\r\n\r\n"
    assert seen(data, [len(CHUNKED)]) == by_httptools(data)


@pytest.mark.parametrize("cuts", [[], [60], [len(CHUNKED)], [len(CHUNKED) + 4], [len(CHUNKED) + 6, len(CHUNKED) + 9]])
def test_many_answers_on_one_connection_stay_in_step(cuts: list[int]) -> None:
    """However the ones before were read, the next one begins at its first byte."""
    framing = Framing(KnownHead())
    for number in range(4):
        body = b"%d" % number * 3
        data = LENGTH if number == 2 else CHUNKED + chunk(body) + b"0\r\n\r\n"
        edges = [0, *(cut for cut in cuts if cut < len(data)), len(data)]
        got = b"".join(framing.take(data[start:end]) for start, end in pairwise(edges))
        assert framing.complete and framing.error is None and not framing.surplus
        assert got == (b"abcd" if number == 2 else body)
        framing.next()


def test_several_reads_at_once_are_whole_chunks_or_nothing() -> None:
    framing = Framing(KnownHead())
    assert framing.middle(chunk(b"a")) is None, "no head yet"
    framing.take(CHUNKED)
    assert framing.middle(chunk(b"a") + chunk(b"bc")) == b"abc"
    for refused in (chunk(b"a")[:-1], chunk(b"a") + b"0\r\n\r\n", chunk(b"a", b"2"), b"0\r\n\r\n"):
        assert framing.middle(refused) is None
    assert framing.take(chunk(b"d") + b"0\r\n\r\n") == b"d" and framing.complete


def test_what_follows_an_answer_and_what_is_no_answer() -> None:
    framing = Framing(KnownHead())
    framing.take(CHUNKED + b"0\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert framing.complete and framing.surplus and framing.error is None
    for data, reason in ((b"SSH-2.0-x\r\n", "not HTTP"), (b"HTTP/1.1 101 Go\r\nupgrade: x\r\n\r\n", "Upgrade")):
        framing = Framing(KnownHead())
        framing.take(data)
        assert framing.error is not None and reason in framing.error and not framing.complete


def test_an_answer_that_may_not_be_followed_says_so() -> None:
    close = CHUNKED.replace(b"content-type", b"connection: close\r\ncontent-type")
    for head, keeps, bounded in (
        (CHUNKED, True, True),
        (close, False, True),
        (b"HTTP/1.1 200 OK\r\n\r\n", False, False),
    ):
        framing = Framing(KnownHead())
        framing.take(head)
        assert framing.head is not None and (framing.head.keep_alive, framing.head.bounded) == (keeps, bounded)
