"""What must hold for every changelog: history is never touched, nothing is lost or repeated, twice is once."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.publish.changelog.texts import HISTORY, REPOSITORY, URL, entry

from ridgeline.publish.changelog.contract import strict
from ridgeline.publish.changelog.document import read_document
from ridgeline.publish.changelog.gate import added_entries
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.merging import canonicalize, resolve
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.repository import diff

pytestmark = pytest.mark.integration  # takes seconds of processor time

PULL = Links.of(42, REPOSITORY)
MAIN = Links.of(None, REPOSITORY)
names = st.text("abcxyz019*-", min_size=1, max_size=6).map(lambda text: f'"{text}"')
extras = st.sampled_from(
    [(), ("evals-only: true",), ("scenario-type:\n    - agentic-coding",), ("all-evals: false  # why",)]
)
placeholders = st.sampled_from(["XXX", '"XXX"', f"'{URL}XXX'", f"{URL}42", "XXX  # later"])
numbers = st.integers(1, 41).map(lambda number: f"{URL}{number}")
tails = st.sampled_from(["", "\n", "  \n", "\n  \n"])


def additions(links: st.SearchStrategy[str], least: int = 1) -> st.SearchStrategy[list[str]]:
    one = st.builds(lambda name, link, more: entry(name, link, *more), names, links, extras)
    return st.lists(one, min_size=least, max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> bytes:
    return "\n".join(draw(additions(numbers))).encode() + draw(tails).encode()


def append(base: bytes, added: list[str]) -> bytes:
    separator = b"" if base.endswith(b"\n\n") or not added else b"\n"
    return base + separator + "\n".join(added).encode()


@settings(max_examples=25, deadline=None)
@given(base=histories(), added=additions(placeholders))
def test_canonical_twice_is_canonical_once(base: bytes, added: list[str]) -> None:
    once = canonicalize(base, append(base, added), PULL)
    assert once.startswith(base)
    assert canonicalize(base, once, PULL) == once
    assert {one.pr_link for one in strict(base, once, PULL).additions} == {URL + "42"}
    links = [line for line in once[len(base) :].split(b"\n") if line.startswith(b"  pr-link:")]
    rest = [line for line in append(base, added)[len(base) :].split(b"\n") if not line.startswith(b"  pr-link:")]
    assert [line for line in once[len(base) :].split(b"\n") if line not in links] == rest


@settings(max_examples=35, deadline=None)
@given(base=histories(), ours=additions(placeholders), theirs=additions(numbers), tail=tails)
def test_resolving_keeps_every_contribution_once_and_main_as_it_is(
    base: bytes, ours: list[str], theirs: list[str], tail: str
) -> None:
    main = append(base, theirs) + tail.encode()
    pull = append(base, ours)
    known = {one.content for one in read_document(main, "main").entries}
    wanted = [one.content for one in strict(base, pull, PULL).additions if one.content not in known]
    try:
        result = resolve(base, pull, main, PULL)
    except ChangelogRefused:
        assert not wanted
        return
    assert result.startswith(main)
    change = strict(main, result, PULL)
    assert [one.content for one in change.additions] == wanted
    assert {one.pr_link for one in change.additions} == {URL + "42"}
    with pytest.raises(ChangelogRefused):  # once it stands on main, there is nothing left to carry over
        resolve(base, pull, result, PULL)


@settings(max_examples=25, deadline=None)
@given(base=histories(), corrected=st.sets(st.integers(0, 2), min_size=1), theirs=additions(numbers, least=0))
def test_replayed_corrections_change_their_lines_only(base: bytes, corrected: set[int], theirs: list[str]) -> None:
    lines = base.split(b"\n")
    places = [number for number, line in enumerate(lines) if line.startswith(b"  pr-link:")]
    chosen = {places[index % len(places)] for index in corrected}
    pull = b"\n".join(b"  pr-link: " + (URL + "99").encode() if at in chosen else line for at, line in enumerate(lines))
    main = append(base, theirs)
    assume(main != base or not theirs)
    result = resolve(base, pull, main, PULL)
    was, now = main.split(b"\n"), result.split(b"\n")
    assert {number for number, pair in enumerate(zip(was, now, strict=True)) if pair[0] != pair[1]} == chosen


@pytest.mark.parametrize("appended", [False, True])
@pytest.mark.parametrize("byte", [b"\n", b"x"])
def test_every_single_byte_of_history_is_guarded(byte: bytes, appended: bool) -> None:
    for at in range(len(HISTORY)):
        head = HISTORY[:at] + byte + HISTORY[at + 1 :] + (b"\n" + entry("new").encode() if appended else b"")
        if HISTORY[at : at + 1] != byte:
            with pytest.raises(ChangelogRefused) as caught:
                strict(HISTORY, head, PULL)
            where = caught.value.problems[0].where
            assert where is not None
            assert where.line == HISTORY[:at].count(b"\n") + 1


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, len(HISTORY) - 1), byte=st.integers(0, 255), appended=st.booleans())
def test_an_edit_of_any_byte_of_history_is_refused_naming_its_line(at: int, byte: int, appended: bool) -> None:
    assume(HISTORY[at] != byte)
    line = HISTORY[:at].count(b"\n") + 1
    head = HISTORY[:at] + bytes([byte]) + HISTORY[at + 1 :]
    if appended:
        head += b"\n" + entry("new").encode()
    with pytest.raises(ChangelogRefused) as caught:
        change = strict(HISTORY, head, PULL)
        # the one edit that the contract knows: a link corrected to another number; the pull-request check refuses it
        assert [one.after.link_line for one in change.corrections] == [line]
        added_entries(head, diff(HISTORY, head))
    places = [problem.where.line for problem in caught.value.problems if problem.where]
    assert places[0] == line


@settings(max_examples=50, deadline=None)
@given(data=st.binary(max_size=60) | st.text("-: \nac[]{}*&!'\"#?|>%@`", max_size=60).map(str.encode))
def test_no_bytes_escape_as_anything_but_a_refusal(data: bytes) -> None:
    for head in (data, HISTORY + data, HISTORY + b"\n" + entry("new").encode() + data):
        try:
            change = strict(HISTORY, head, MAIN)
        except ChangelogRefused as refused:
            assert refused.problems
        else:
            assert change.head.data == head
