"""The strict contract: what may be added or corrected, and the line that each refusal names."""

from __future__ import annotations

import pytest
from tests.publish.changelog.texts import HISTORY, REPOSITORY, URL, entry, file

from ridgeline.core.errors import InputError
from ridgeline.publish.changelog.contract import Change, strict
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.refusal import ChangelogRefused

PULL = Links.of(42, REPOSITORY)


def judge(head: bytes, base: bytes = HISTORY, links: Links = PULL) -> Change:
    return strict(base, head, links, "log.yaml")


def refused(head: bytes, base: bytes = HISTORY, links: Links = PULL) -> list[tuple[int, str]]:
    with pytest.raises(ChangelogRefused) as caught:
        judge(head, base, links)
    return [(one.where.line, one.message) for one in caught.value.problems if one.where]


def added(*entries: str) -> bytes:
    return HISTORY + b"\n" + file(*entries)


def test_entries_at_the_end_are_additions() -> None:
    change = judge(added(entry("three"), entry("four", URL + "XXX"), entry("five", URL + "42")))
    assert [(one.config_keys, one.line, one.link_line) for one in change.additions] == [
        (("three",), 13, 17),
        (("four",), 19, 23),
        (("five",), 25, 29),
    ]
    assert change.corrections == ()


def test_identical_bytes_change_nothing() -> None:
    assert judge(HISTORY) == Change(judge(HISTORY).base, judge(HISTORY).head, (), ())


@pytest.mark.parametrize("link", ["41", "042", "42/", "42 ", "yyy"])
def test_a_pull_request_links_only_to_itself(link: str) -> None:
    [(line, message)] = refused(added(entry("three", f'"{URL}{link}"')))
    assert (line, message) == (17, f"`{URL}{link}` may not stand here")


@pytest.mark.parametrize("links", [Links.of(None, REPOSITORY), Links.unnumbered(REPOSITORY)])
def test_any_canonical_link_passes_where_no_number_is_known(links: Links) -> None:
    assert len(judge(added(entry("three", URL + "777")), links=links).additions) == 1
    assert refused(added(entry("three", "https://github.com/other/bench/pull/7")), links=links)


def test_a_placeholder_is_for_branches_not_for_main() -> None:
    head = added(entry("three"))
    assert refused(head, links=Links.of(None, REPOSITORY)) == [(17, "`XXX` may not stand here")]
    assert judge(head, links=Links.unnumbered(REPOSITORY)).additions


@pytest.mark.parametrize(
    ("head", "line", "message"),
    [
        (HISTORY + entry("three").encode(), 12, "the first new entry must follow history"),
        (HISTORY + b"\n\n" + entry("three").encode(), 12, "the first new entry must follow history"),
        (HISTORY + b"\n# why\n" + entry("three").encode(), 12, "the first new entry must follow history"),
        (HISTORY + b"  \n" + entry("three").encode(), 12, "the first new entry must follow history"),
        (added(entry("three")) + entry("four").encode(), 18, "exactly one empty line"),
        (added(entry("three")) + b"\n\n" + entry("four").encode(), 20, "exactly one empty line"),
        (added(entry("three")) + b"\n# why\n" + entry("four").encode(), 20, "exactly one empty line"),
        (added(entry("three")) + b"\n", 18, "the file ends with an empty line"),
        (added(entry("three"))[:-1], 17, "the last line has no newline"),
    ],
)
def test_separators_are_exact(head: bytes, line: int, message: str) -> None:
    [(where, said)] = refused(head)
    assert where == line
    assert said.startswith(message)


def test_history_that_ends_in_an_empty_line_needs_no_second_one() -> None:
    base = HISTORY + b"\n"
    assert judge(base + entry("three").encode(), base).additions
    assert refused(base + b"\n" + entry("three").encode(), base)


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    head = added(entry("three", URL + "7"), entry("four", URL + "8")) + b"\n"
    assert [line for line, _ in refused(head)] == [17, 23, 24]


def test_inserted_prepended_moved_and_removed_entries_are_named() -> None:
    first, second = (part.encode() for part in (entry("one", URL + "1"), entry("two", URL + "2")))
    assert refused(first + b"\n" + entry("new").encode() + b"\n" + second)[0][0] == 8
    prepended = refused(entry("new").encode() + b"\n" + HISTORY)
    assert prepended[0] == (2, "inserted into history: `    - new` and 5 more lines")  # line 1 is the same either way
    assert refused(second + b"\n" + first)[0][0] == 2
    [(line, message)] = refused(first)
    assert (line, message.split(":")[0]) == (6, "removed from history (line 6 before)")


@pytest.mark.parametrize("extra", [b"\n", b"# a comment\n", b"  \n"])
def test_bytes_without_an_entry_are_refused(extra: bytes) -> None:
    assert refused(HISTORY + extra)[0][0] == 12
    assert refused(extra + HISTORY)[0][0] == 1


def test_a_default_written_out_in_history_is_an_edit() -> None:
    head = HISTORY.replace(b"pull/1\n", b"pull/1\n  evals-only: false\n")
    assert refused(head)[0] == (6, "inserted into history: `  evals-only: false`")


def test_a_link_of_history_may_be_corrected_to_any_canonical_one() -> None:
    base = file(entry("one", "https://github.com/acme/old/pull/3"), entry("two", URL + "2"))
    change = judge(base.replace(b"old/pull/3", b"bench/pull/9"), base)
    assert [(one.position, one.after.pr_link) for one in change.corrections] == [(0, URL + "9")]
    assert refused(base.replace(b"acme/old/pull/3", b"acme/old/pull/4"), base)[0][0] == 5
    assert refused(base.replace(b"https://github.com/acme/old/pull/3", b"XXX"), base)[0][0] == 5


def test_a_correction_may_requote_its_own_line_only() -> None:
    head = HISTORY.replace(f"pr-link: {URL}1".encode(), f"pr-link: '{URL}9'".encode())
    assert len(judge(head).corrections) == 1
    both = head.replace(f"pr-link: {URL}2".encode(), f"pr-link: '{URL}2'".encode())
    assert refused(both) == [(11, "2 lines differ for 1 corrected links")]
    elsewhere = head.replace(b"- note", b"- 'note'", 1)
    assert refused(elsewhere) == [(4, "a link correction may only change `  pr-link:` lines")]


def test_corrections_and_additions_do_not_mix() -> None:
    problems = refused(added(entry("three")).replace(b"pull/1\n", b"pull/9\n"))
    assert [line for line, _ in problems] == [5, 13]


def test_a_malformed_base_is_the_callers_problem_not_the_heads() -> None:
    base = HISTORY.replace(b"- note", b"-\tnote", 1)
    with pytest.raises(InputError) as caught:
        judge(base, base)
    assert str(caught.value.problems[0].where) == "log.yaml (base):4"


def test_an_empty_list_is_a_changelog_that_nothing_can_follow() -> None:
    assert judge(b"[]\n", b"[]\n").additions == ()
    assert refused(b"[]\n\n" + entry("one").encode(), b"[]\n")


def test_the_url_in_a_message_is_the_one_to_use() -> None:
    with pytest.raises(ChangelogRefused) as caught:
        judge(added(entry("three", URL + "41")))
    assert caught.value.problems[0].hint == f"use `XXX`, `{URL}XXX` or `{URL}42`"


def test_edits_of_a_long_history_are_found_without_comparing_all_with_all() -> None:
    base = file(*[entry(f"key{number}", URL + str(number)) for number in range(200)])
    twice = base.replace(b"key50\n", b"kez50\n").replace(b"key150\n", b"kez150\n") + b"\n" + entry("new").encode()
    assert [line for line, _ in refused(twice, base)] == [302, 902]
    everywhere = base.replace(b"note", b"noot")
    assert refused(everywhere, base) == [
        (4, "history changed: was `    - note` and 1194 more lines, now `    - noot` and 1194 more lines")
    ]
