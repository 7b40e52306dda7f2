"""Canonical links and the conflict rule on small files: what is written, and when nobody but a person may decide."""

from __future__ import annotations

import pytest
from tests.publish.changelog.texts import HISTORY, REPOSITORY, URL, entry, file

from ridgeline.core.errors import InputError
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.merging import canonicalize, resolve
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.sides import Main, Sides, sides

PULL = Links.of(42, REPOSITORY)
OLD = "https://github.com/acme/old/pull/3"


def with_entries(*entries: str) -> bytes:
    return HISTORY + b"\n" + file(*entries)


def test_placeholders_of_history_and_other_bytes_stay() -> None:
    base = file(entry("one", "XXX"))
    head = base + b"\n" + entry("two", "'XXX'  # soon", "evals-only: yes   # odd").encode()
    result = canonicalize(base, head, PULL)
    assert result == base + b"\n" + entry("two", URL + "42", "evals-only: yes   # odd").encode()


def test_a_link_over_two_lines_is_refused_rather_than_mangled() -> None:
    head = HISTORY + b"\n" + entry("new").replace("XXX", "\n    XXX").encode()
    with pytest.raises(ChangelogRefused, match="may not stand here"):
        canonicalize(HISTORY, head, PULL)


def test_a_number_is_needed_to_write_links() -> None:
    with pytest.raises(InputError, match="number"):
        canonicalize(HISTORY, with_entries(entry("new")), Links.unnumbered(REPOSITORY))


def test_the_rest_of_a_contribution_follows_when_part_of_it_is_on_main() -> None:
    pull = with_entries(entry("both"), entry("mine", '"XXX"'))
    main = with_entries(entry("both", URL + "40"), entry("yours", URL + "41"))
    assert resolve(HISTORY, pull, main, PULL) == main + b"\n" + entry("mine", URL + "42").encode()


def test_a_spelled_out_default_is_the_same_contribution() -> None:
    main = with_entries(entry("new", URL + "40", "all-evals: false"))
    with pytest.raises(ChangelogRefused, match="already stands on main"):
        resolve(HISTORY, with_entries(entry("new")), main, PULL)


def test_main_may_have_edited_history_and_is_not_undone() -> None:
    main = HISTORY.replace(b"- note", b"- rewritten", 1)
    result = resolve(HISTORY, with_entries(entry("new")), main, PULL)
    assert result == main + b"\n" + entry("new", URL + "42").encode()


def test_without_a_number_links_stay_as_written() -> None:
    main = with_entries(entry("yours", URL + "41"))
    result = resolve(HISTORY, with_entries(entry("new", "'XXX'")), main, Links.unnumbered(REPOSITORY))
    assert result == main + b"\n" + entry("new", "'XXX'").encode()


def test_trailing_blanks_of_a_block_are_trimmed() -> None:
    pull = with_entries(entry("new") + "  \n", entry("more") + "  \n")
    result = resolve(HISTORY, pull, HISTORY + b"\n", PULL)
    assert result == HISTORY + b"\n" + file(entry("new", URL + "42"), entry("more", URL + "42"))


def test_corrections_are_replayed_where_main_has_the_old_link() -> None:
    base = file(entry("one", OLD), entry("two", OLD))
    pull = base.replace(OLD.encode(), f"{URL}3".encode())
    main = file(entry("one", URL + "3"), entry("two", OLD), entry("three", URL + "41"))
    assert resolve(base, pull, main, PULL) == file(
        entry("one", URL + "3"), entry("two", URL + "3"), entry("three", URL + "41")
    )


@pytest.mark.parametrize(
    ("main", "reason"),
    [
        (file(entry("one", URL + "9")), "main corrected this link to"),
        (file(entry("one", URL + "3")), "nothing is left to correct"),
        (file(entry("other", OLD)), "entry 1 differs on main"),
        (b"[]\n", "entry 1 differs on main"),
        (b"<<<<<<< ours\n", "not valid YAML|list of entries"),
    ],
)
def test_corrections_that_a_person_must_decide(main: bytes, reason: str) -> None:
    base = file(entry("one", OLD))
    with pytest.raises(ChangelogRefused, match=reason):
        resolve(base, base.replace(OLD.encode(), f"{URL}3".encode()), main, PULL)


OPEN, OWN, MERGED = (with_entries(entry("new", link)) for link in ("XXX", URL + "42", URL + "41"))


@pytest.mark.parametrize(
    ("ours", "theirs", "main", "pull_is_ours"),
    [
        (OPEN, MERGED, "auto", True),
        (MERGED, OPEN, "auto", False),
        (MERGED, OWN, "auto", False),
        (MERGED, MERGED + b"\n" + entry("x", URL + "5").encode(), "auto", True),
        (OPEN, OWN, "auto", True),
        (MERGED, b"broken", "auto", True),
        (OPEN, MERGED, "ours", False),
        (MERGED, OPEN, "theirs", True),
    ],
)
def test_sides_are_told_apart_by_their_links(ours: bytes, theirs: bytes, main: Main, pull_is_ours: bool) -> None:
    wanted = Sides(ours, theirs) if pull_is_ours else Sides(theirs, ours)
    assert sides(HISTORY, ours, theirs, PULL, main) == wanted
