"""Properties of the decoder on bytes nobody wrote by hand: it never raises, splits change nothing, and the quick reader
agrees with the general one. The long runs are marked `fuzz` and share RIDGELINE_FUZZ_SECONDS (default 600), half of it
for fixtures broken at random and hypothesis's streams in turn, half for coverage-guided bytes; the smoke in every run
takes RIDGELINE_FUZZ_SMOKE_SECONDS (default 20).
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from decoder_promises import check, decode, general_only, told
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_cases import CASES, data, used

from ridgeline.replay.openai_stream import Ending

SECONDS = float(os.environ.get("RIDGELINE_FUZZ_SECONDS", "600")) / 2
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
    check(body, [rng.randint(0, len(body)) for _ in range(rng.randint(0, 5))], ending, status)


@given(STREAMS, st.lists(st.integers(0, 900), max_size=5))
@settings(max_examples=20, deadline=None)
def test_the_quick_reader_says_what_the_general_one_says(body: bytes, cuts: list[int]) -> None:
    assert decode(body, cuts) == general_only(body, cuts)
    assert told(decode(body, cuts)) == told(decode(body, []))


@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_broken_bytes_never_raise_and_splits_change_nothing(rng: random.Random) -> None:
    holds(mutated(rng), rng)


@given(st.binary(max_size=200), st.sampled_from(list(Ending)))
@settings(max_examples=25, deadline=None)
def test_any_bytes_have_an_outcome(body: bytes, ending: Ending) -> None:
    assert decode(body, [], ending).outcome is not None


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    answer = decode(b"data: " + b"[" * 100_000 + b"\n\n", [])
    assert answer.error and "not JSON" in answer.error


def fuzz(seconds: float) -> None:
    """Fixtures broken at random, and hypothesis's streams from random bytes, in turn."""
    until = time.monotonic() + seconds
    seed = random.SystemRandom().randrange(1 << 32)
    streams = test_the_quick_reader_says_what_the_general_one_says.hypothesis.fuzz_one_input
    rounds = 0
    while time.monotonic() < until:
        seed += 1
        rounds += 1
        rng = random.Random(seed)
        if rounds % 4 == 0:
            streams(rng.randbytes(rng.randint(16, 2000)))  # hypothesis tells the failing stream itself
            continue
        body = mutated(rng)
        try:
            holds(body, rng)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {body!r}") from error
    assert rounds


def test_fuzzing_for_twenty_seconds_finds_nothing() -> None:
    fuzz(float(os.environ.get("RIDGELINE_FUZZ_SMOKE_SECONDS", "20")))


@pytest.mark.fuzz
def test_fuzzing_finds_nothing() -> None:
    fuzz(SECONDS)


@pytest.mark.fuzz
def test_coverage_guided_fuzzing_finds_nothing(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed (pip install atheris)")
    program = Path(__file__).with_name("fuzz_decoder.py")
    command = [sys.executable, str(program), str(tmp_path), f"-max_total_time={SECONDS:.0f}", "-max_len=4096"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
