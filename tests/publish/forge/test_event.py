"""Payloads: what is read, and that anything else is refused with every field that is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.publish.forge.event import MAX_BYTES, event_of, read_event

PULL: dict[str, Any] = {
    "action": "synchronize",
    "pull_request": {
        "number": 7,
        "state": "open",
        "title": "t",
        "body": None,
        "draft": False,
        "merged": False,
        "labels": [{"name": "a"}],
        "merge_commit_sha": None,
        "user": {"login": "x"},
        "base": {"ref": "main", "sha": "a" * 40, "repo": {"full_name": "acme/bench"}},
        "head": {"ref": "b", "sha": "b" * 40, "repo": {"full_name": "Acme/Bench"}},
    },
    "repository": {"full_name": "acme/bench"},
    "sender": {"login": "x"},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(PULL))
    *parts, last = path.split(".")
    place = copy
    for part in parts:
        place = place[part]
    place[last] = value
    return copy


def test_a_pull_request_is_read() -> None:
    event = event_of(PULL)
    assert event.pull is not None and event.pull.body == "" and event.labels == ("a",)
    assert not event.pull.fork  # GitHub's names do not tell letters' cases apart
    assert event_of(changed("pull_request.head.repo", None)).pull.fork  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("pull_request.number", "7"),
        ("pull_request.number", True),
        ("pull_request.number", -1),
        ("pull_request.number", 2**70),
        ("pull_request.title", ["x"]),
        ("pull_request.title", "x" * 300_000),
        ("pull_request.draft", "false"),
        ("pull_request.labels", [{"name": 5}]),
        ("pull_request.labels", [{"name": "x"}] * 101),
        ("pull_request.base.sha", "HEAD"),
        ("pull_request.base.sha", "--output=/etc/passwd"),
        ("pull_request.head.sha", "a" * 39),
        ("pull_request.head.sha", "a" * 40 + "\n"),
        ("repository.full_name", "../../etc"),
        ("repository.full_name", "a/b/c"),
        ("repository.full_name", "a b/$(id)"),
        ("repository", None),
    ],
)
def test_wrong_fields_are_named(path: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        event_of(changed(path, value))
    assert any((problem.key or "").startswith(path.split(".")[0]) for problem in caught.value.problems)


def test_all_problems_come_at_once() -> None:
    wrong = changed("pull_request.number", None)
    wrong["pull_request"]["base"]["sha"] = "x"
    wrong["pull_request"]["labels"] = 3
    with pytest.raises(InputError) as caught:
        event_of(wrong)
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 200_000, b'{"a": NaN}', b"1" * 10_000, b'{"issue": {"number": 1}}'],
)
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        read_event(data)


def test_a_huge_payload_is_refused_unread() -> None:
    with pytest.raises(InputError, match="more than"):
        read_event(b" " * (MAX_BYTES + 1))


def test_lone_surrogates_become_writable() -> None:
    event = event_of(changed("pull_request.title", "a\ud800b"))
    assert event.pull is not None and event.pull.title.encode() == b"a?b"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["action", "pull_request", "repository", "sender", "issue", "comment", "before"]), _json)
def test_any_value_anywhere_is_read_or_refused(name: str, value: Any) -> None:
    try:
        event_of({**PULL, name: value})
    except InputError as error:
        assert error.problems
