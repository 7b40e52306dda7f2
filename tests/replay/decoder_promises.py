"""What the decoder promises on any bytes: it never raises, splits change nothing but stamps, the quick reader agrees
with the general one. Shared by the property tests and the coverage-guided fuzzer.
"""

from __future__ import annotations

import msgspec

from ridgeline.replay import openai_stream
from ridgeline.replay.openai_stream import Answer, Ending, ResponseDecoder


def decode(body: bytes, cuts: list[int], ending: Ending = Ending.COMPLETE, status: int = 200) -> Answer:
    """The answer of a body fed in pieces; the n-th read arrives at n."""
    decoder, start = ResponseDecoder(status), 0
    for at, cut in enumerate([*sorted(cuts), len(body)]):
        decoder.feed(body[start:cut], at)
        start = max(start, cut)
    return decoder.close(ending)


def general_only(body: bytes, cuts: list[int], ending: Ending = Ending.COMPLETE, status: int = 200) -> Answer:
    """The same without the quick reader."""
    quick = openai_stream.common_chunk
    openai_stream.common_chunk = lambda data: None
    try:
        return decode(body, cuts, ending, status)
    finally:
        openai_stream.common_chunk = quick


def told(answer: Answer) -> Answer:
    """What an answer says apart from times."""
    return msgspec.structs.replace(
        answer,
        flags=tuple(flag for flag in answer.flags if flag != "coalesced"),
        first_byte_ns=None,
        first_token_ns=None,
        first_visible_ns=None,
        last_token_ns=None,
        chunk_ns=[0] * len(answer.chunk_ns),
        choice_first_token_ns=dict.fromkeys(answer.choice_first_token_ns, 0),
    )


def check(body: bytes, cuts: list[int], ending: Ending, status: int) -> None:
    """Raises AssertionError when a promise is broken, and whatever the decoder raises."""
    assert told(decode(body, cuts, ending, status)) == told(decode(body, [], ending, status))
    assert decode(body, cuts, ending, status) == general_only(body, cuts, ending, status)
