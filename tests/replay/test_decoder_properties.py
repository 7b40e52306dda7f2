"""Properties of the decoder on bytes nobody wrote by hand: it never raises, splits change nothing, and the quick reader
agrees with the general one. The long run is marked `fuzz`; RIDGELINE_FUZZ_SECONDS bounds it (default 600).
"""

from __future__ import annotations

import json
import os
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_cases import CASES, data, used

from ridgeline.replay import openai_stream
from ridgeline.replay.openai_stream import Answer, Ending, ResponseDecoder

BODIES = [b"".join(case.reads) for case in CASES]

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['"', "\\", "}]}", "data: ", "\n\n", " the"]
)
FIELDS = st.sampled_from(["content", "content", "content", "reasoning_content", "refusal", "text"])


@st.composite
def chunks(draw: st.DrawFn) -> bytes:
    field, content = draw(FIELDS), draw(TEXTS)
    choice: dict[str, object] = {"index": draw(st.sampled_from([0, 0, 0, 1]))}
    if field == "text":
        choice["text"] = content
    else:
        choice["delta"] = {field: content}
    choice["finish_reason"] = draw(st.sampled_from([None, None, None, None, "stop"]))
    value: dict[str, object] = {"id": "c", "choices": [choice]}
    if draw(st.integers(0, 9)) == 0:
        value["usage"] = {"completion_tokens": draw(st.integers(0, 9))}
    if draw(st.integers(0, 19)) == 0:
        value["error"] = {"message": content}
    body = data(value)
    if draw(st.booleans()):
        body = b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
    return body


STREAMS = st.lists(chunks() | st.just(used(completion_tokens=3)), max_size=12).map(
    lambda events: b"".join(events) + b"data: [DONE]\n\n"
)


def decode(body: bytes, cuts: list[int], ending: Ending = Ending.COMPLETE, status: int = 200) -> Answer:
    decoder, start = ResponseDecoder(status), 0
    for at, cut in enumerate([*sorted(cuts), len(body)]):
        decoder.feed(body[start:cut], at)
        start = max(start, cut)
    return decoder.close(ending)


def told(answer: Answer) -> Answer:
    """What an answer says apart from times."""
    return answer._replace(
        flags=tuple(flag for flag in answer.flags if flag != "coalesced"),
        first_byte_ns=None,
        first_token_ns=None,
        first_visible_ns=None,
        last_token_ns=None,
        chunk_ns=[0] * len(answer.chunk_ns),
        choice_first_token_ns=dict.fromkeys(answer.choice_first_token_ns, 0),
    )


def mutated(rng: random.Random) -> bytes:
    """A fixture with bytes of itself and of another one moved, doubled, dropped or changed."""
    body = bytearray(rng.choice(BODIES))
    for _ in range(rng.randint(1, 6)):
        at = rng.randint(0, len(body))
        change = rng.randint(0, 3)
        if change == 0:
            body[at:at] = rng.choice(
                [b"\n", b"\r", b'"', b"\\", b"data: ", b"null", b"{", b"[", b"\xff", b"NaN", b"1e999"]
            )
        elif change == 1:
            del body[at : at + rng.randint(1, 9)]
        elif change == 2:
            other = rng.choice(BODIES)
            start = rng.randint(0, len(other))
            body[at:at] = other[start : start + rng.randint(1, 60)]
        elif at < len(body):
            body[at] = rng.randrange(256)
    return bytes(body)


def holds(body: bytes, rng: random.Random) -> None:
    """The decoder's promises on these bytes."""
    ending, status = rng.choice(list(Ending)), rng.choice([200, 200, 200, 500])
    whole = told(decode(body, [], ending, status))
    cuts = [rng.randint(0, len(body)) for _ in range(rng.randint(0, 5))]
    assert told(decode(body, cuts, ending, status)) == whole
    assert decode(body, cuts, ending, status) == general_only(body, cuts, ending, status)


def general_only(body: bytes, cuts: list[int], ending: Ending = Ending.COMPLETE, status: int = 200) -> Answer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_stream, "common_chunk", lambda data: None)
        return decode(body, cuts, ending, status)


@given(STREAMS, st.lists(st.integers(0, 900), max_size=5))
@settings(max_examples=40, deadline=None)
def test_the_quick_reader_says_what_the_general_one_says(body: bytes, cuts: list[int]) -> None:
    assert decode(body, cuts) == general_only(body, cuts)
    assert told(decode(body, cuts)) == told(decode(body, []))


@given(st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_broken_bytes_never_raise_and_splits_change_nothing(rng: random.Random) -> None:
    holds(mutated(rng), rng)


@given(st.binary(max_size=200), st.sampled_from(list(Ending)))
@settings(max_examples=50, deadline=None)
def test_any_bytes_have_an_outcome(body: bytes, ending: Ending) -> None:
    assert decode(body, [], ending).outcome is not None


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    answer = decode(b"data: " + b"[" * 100_000 + b"\n\n", [])
    assert answer.error and "not JSON" in answer.error


@pytest.mark.fuzz
def test_fuzz() -> None:
    until = time.monotonic() + float(os.environ.get("RIDGELINE_FUZZ_SECONDS", "600"))
    seed = random.SystemRandom().randrange(1 << 32)
    while time.monotonic() < until:
        seed += 1
        rng = random.Random(seed)
        body = mutated(rng)
        try:
            holds(body, rng)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {body!r}") from error
