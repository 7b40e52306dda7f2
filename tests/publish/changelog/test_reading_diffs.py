"""The loose reading of a diff, and git's diff itself."""

from __future__ import annotations

import pytest
from tests.publish.changelog.texts import HISTORY, URL, entry

from ridgeline.publish.changelog.diffing import Diff, Line, read_diff
from ridgeline.publish.changelog.gate import added_entries
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.repository import diff

UNIFIED = b"""\
diff --git a/base b/head
--- a/base
+++ b/head
@@ -2,2 +2,3 @@ context
 same
--- removed
+++ added
+more
@@ -9 +11 @@
-old
\\ No newline at end of file
+new
"""


def test_lines_keep_their_numbers_and_their_dashes() -> None:
    assert read_diff(UNIFIED) == Diff(
        (Line(3, b"-- removed"), Line(9, b"old")), (Line(3, b"++ added"), Line(4, b"more"), Line(11, b"new"))
    )
    assert read_diff(b"") == read_diff(b"Binary files base and head differ\n") == Diff((), ())


def test_git_finds_what_was_appended() -> None:
    head = HISTORY + b"\n" + entry("new").encode()
    found = diff(HISTORY, head)
    assert found.removed == ()
    assert b"".join(line.text + b"\n" for line in found.added) == head[len(HISTORY) :]
    assert found.added[0].number == 12


def test_the_users_diff_settings_do_not_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    before = diff(HISTORY, HISTORY.replace(b"note", b"no", 1))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=9")
    assert diff(HISTORY, HISTORY.replace(b"note", b"no", 1)) == before


def said(head: bytes) -> str:
    with pytest.raises(ChangelogRefused) as caught:
        added_entries(head, diff(HISTORY, head), "log.yaml")
    return str(caught.value)


def test_entries_are_read_at_their_lines_in_head() -> None:
    head = HISTORY.replace(b"\n\n", b"\n\n# note\n\n", 1) + b"\n" + entry("new", "anything goes").encode()
    [one] = added_entries(head, diff(HISTORY, head))
    assert (one.config_keys, one.pr_link, one.line, one.link_line, one.key_lines) == (
        ("new",),
        "anything goes",
        15,
        19,
        (16,),
    )


def test_the_last_duplicate_wins_and_separators_do_not_matter() -> None:
    head = HISTORY + entry("new", "XXX", "evals-only: true", "evals-only: false").encode()
    [one] = added_entries(head, diff(HISTORY, head))
    assert not one.evals_only


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (HISTORY, "log.yaml: no entry was added"),
        (HISTORY + b"\n\n", "log.yaml: no entry was added"),
        (HISTORY + b"# why\n", "log.yaml:12: the added lines hold no entry"),
        (HISTORY + b"\n" + entry("new").encode()[:-1], "log.yaml:17: the last line has no newline"),
        (HISTORY + b"\n" + entry("new", "XXX", "owner: me").encode(), "log.yaml:18: `owner`: entry 1: unknown field"),
        (HISTORY + b"\nnew: 1\n", "log.yaml: the changelog is a list"),
        (HISTORY + b"\n- *\n", "log.yaml:13: not valid YAML"),
        (HISTORY + b"\n- \xff\n", "log.yaml:12: the added lines are not UTF-8"),
        (HISTORY[: HISTORY.index(b"\n\n") + 1], "log.yaml:7: removed from the base (its line 7): `- config-keys:`"),
        (
            HISTORY.replace(f"{URL}1".encode(), b"XXX"),
            f"log.yaml:5: removed from the base (its line 5): `pr-link: {URL}1`",
        ),
    ],
)
def test_refusals(head: bytes, reason: str) -> None:
    assert reason in said(head)


def test_removed_blank_lines_are_tolerated() -> None:
    head = HISTORY.replace(b"\n\n", b"\n", 1) + b"\n" + entry("new").encode()
    assert len(added_entries(head, diff(HISTORY, head))) == 1
