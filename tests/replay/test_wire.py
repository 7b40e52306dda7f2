"""Every byte fixture of tests/wire, in every split."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from wire_cases import CASES, Case

from ridgeline.replay.openai_stream import Answer, ResponseDecoder

MS = 1_000_000


def decode(case: Case, reads: Iterable[bytes], at_ms: Iterable[int] | None = None) -> Answer:
    decoder = ResponseDecoder(case.status, case.content_type)
    times = iter(at_ms) if at_ms is not None else None
    for number, read in enumerate(reads, 1):
        decoder.feed(read, (100 * number if times is None else next(times)) * MS)
    return decoder.close(case.ending)


def check(case: Case, answer: Answer) -> None:
    assert answer.outcome is case.outcome, answer
    assert case.error in (answer.error or "")
    assert {choice: answer.text(choice) for choice in answer.visible if answer.text(choice)} == case.texts
    hidden = {choice: "".join(texts) for choice, texts in answer.hidden.items()}
    assert {choice: text for choice, text in hidden.items() if text} == case.hidden
    assert answer.usage == case.usage
    assert answer.finish_reasons == case.finish
    assert set(answer.flags) - {"coalesced"} == case.flags
    assert answer.chunk_tokens == case.chunk_tokens
    if case.chunks is not None:
        assert len(answer.chunk_ns) == case.chunks


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_it_came(case: Case) -> None:
    answer = decode(case, case.reads, case.at_ms)
    check(case, answer)
    assert ("coalesced" in answer.flags) == case.coalesced
    for told, seen in (
        (case.first_byte_ms, answer.first_byte_ns),
        (case.first_ms, answer.first_token_ns),
        (case.visible_ms, answer.first_visible_ns),
        (case.last_ms, answer.last_token_ns),
    ):
        assert told is None or seen == told * MS
    if case.chunks == 0:
        assert answer.first_token_ns is answer.first_visible_ns is answer.last_token_ns is None
    if case.choice_first_ms is not None:
        assert answer.choice_first_token_ns == {choice: at * MS for choice, at in case.choice_first_ms.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_whole_split_at_every_byte_and_one_by_one(case: Case) -> None:
    body = b"".join(case.reads)
    check(case, decode(case, [body]))
    check(case, decode(case, [body[at : at + 1] for at in range(len(body))]))
    for at in range(1, len(body)):
        check(case, decode(case, [body[:at], body[at:]]))


def test_the_fixtures_can_fail() -> None:
    case = CASES[0]
    with pytest.raises(AssertionError):
        check(case, decode(replace(case, status=500), case.reads))
