"""The client against a server on loopback: pages, retries, rate limits, and a token that nobody gets to see."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from tests.publish.forge.server import Fault, Hub

from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.publish.forge.github import GitHub
from ridgeline.publish.forge.http import GitHubApi, Token

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

SECRET = "ghs_secretsecretsecret"
NOW = 1_000_000.0


class Client:
    """A client whose waiting is only noted."""

    def __init__(self, hub: Hub, patience: float = 120.0) -> None:
        self.waited: list[float] = []
        self.api = GitHubApi(
            Token(SECRET), hub.address, patience=patience, sleep=self.waited.append, now=lambda: NOW + sum(self.waited)
        )
        self.github = GitHub(self.api, "acme/bench")


@pytest.fixture
def hub() -> Iterator[Hub]:
    one = Hub()
    stop = one.start()
    yield one
    stop()


@pytest.fixture
def client(hub: Hub) -> Iterator[Client]:
    one = Client(hub)
    yield one
    one.api.close()


COMMITS = "repos/acme/bench/pulls/7/commits"
SHAS = [f"{number:040x}" for number in range(5)]


def test_all_pages_are_read(hub: Hub, client: Client) -> None:
    hub.answers[COMMITS] = [{"sha": sha} for sha in SHAS]
    assert client.github.commits(7) == tuple(SHAS)
    assert len(hub.seen) == 3 and client.waited == []


def test_lists_inside_objects_are_paged_too(hub: Hub, client: Client) -> None:
    found = [{"id": n + 1, "name": f"a{n}", "expired": n == 4} for n in range(5)]
    hub.answers["repos/acme/bench/actions/runs/9/artifacts"] = {"artifacts": found}
    read = client.github.artifacts(9)
    assert [one.name for one in read] == ["a0", "a1", "a2", "a3", "a4"] and read[4].expired


def test_what_is_not_there_is_none(hub: Hub, client: Client) -> None:
    assert client.github.pull(7) is None and client.github.commits(7) == ()
    assert client.github.permission("ghost") == "none"


def test_server_errors_are_tried_again(hub: Hub, client: Client) -> None:
    hub.answers[COMMITS] = [{"sha": SHAS[1]}]
    hub.faults[COMMITS] = [Fault(502), Fault(503), Fault(500)]
    assert client.github.commits(7) == (SHAS[1],)
    assert client.waited == [1.0, 2.0, 4.0]


def test_a_server_that_stays_broken_ends_in_words(hub: Hub, client: Client) -> None:
    hub.faults[COMMITS] = [Fault(502, body=b"<html>")] * 9
    with pytest.raises(EnvironmentFailed, match="502"):
        client.github.commits(7)
    assert len(hub.seen) == 5


def test_a_rate_limit_is_waited_for(hub: Hub, client: Client) -> None:
    hub.answers[COMMITS] = [{"sha": SHAS[1]}]
    hub.faults[COMMITS] = [
        Fault(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 30)}),
        Fault(429, {"retry-after": "7"}),
    ]
    assert client.github.commits(7) == (SHAS[1],)
    assert client.waited == [31.0, 7.0]


def test_a_long_rate_limit_is_told_instead(hub: Hub, client: Client) -> None:
    hub.faults[COMMITS] = [Fault(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 3000)})]
    with pytest.raises(EnvironmentFailed, match="rate limit") as caught:
        client.github.commits(7)
    assert "3001 s" in (caught.value.hint or "") and client.waited == []


def test_a_forbidden_call_is_no_rate_limit(hub: Hub, client: Client) -> None:
    hub.faults[COMMITS] = [Fault(403, {"x-ratelimit-remaining": "50"}, b'{"message": "Resource not accessible"}')]
    with pytest.raises(EnvironmentFailed, match="Resource not accessible") as caught:
        client.github.commits(7)
    assert "permissions" in (caught.value.hint or "") and client.waited == []


def test_a_comment_is_not_written_twice(hub: Hub, client: Client) -> None:
    path = "repos/acme/bench/issues/7/comments"
    hub.faults[path] = [Fault(502)]
    with pytest.raises(EnvironmentFailed):
        client.github.post_comment(7, "hello")
    assert len(hub.seen) == 1
    hub.faults[path] = [Fault(429, {"retry-after": "1"})]  # a refusal: nothing was written
    client.github.post_comment(7, "hello")
    assert [one[3] for one in hub.seen[1:]] == [{"body": "hello"}] * 2


def test_the_token_goes_to_one_place_only(hub: Hub, client: Client) -> None:
    hub.answers[COMMITS] = [{"sha": sha} for sha in SHAS]
    hub.next_host = "http://127.0.0.1:9"
    with pytest.raises(EnvironmentFailed, match="another host"):
        client.github.commits(7)
    assert len(hub.seen) == 1 and hub.seen[0][2]["authorization"] == f"Bearer {SECRET}"


def test_redirects_are_not_followed(hub: Hub, client: Client) -> None:
    hub.faults[COMMITS] = [Fault(302, {"location": f"{hub.address}/elsewhere"})]
    with pytest.raises(EnvironmentFailed, match="302"):
        client.github.commits(7)
    assert [one[1] for one in hub.seen] == [COMMITS]


def test_the_secret_shows_nowhere(hub: Hub, client: Client) -> None:
    assert SECRET not in repr(Token(SECRET)) + str(Token(SECRET)) + repr(client.api.__dict__["_token"])
    hub.faults[COMMITS] = [Fault(401, body=f'{{"message": "bad {SECRET}"}}'.encode())]
    with pytest.raises(EnvironmentFailed) as caught:
        client.github.commits(7)
    assert SECRET not in str(caught.value) and "•••" in str(caught.value)


def test_nobody_listens(client: Client, hub: Hub) -> None:
    api = GitHubApi(Token(SECRET), "http://127.0.0.1:9", sleep=client.waited.append)
    with pytest.raises(EnvironmentFailed, match="ConnectError"):
        api.one("rate_limit")
    api.close()
    assert client.waited == [1.0, 2.0, 4.0, 8.0]


def test_plain_http_is_refused_elsewhere() -> None:
    with pytest.raises(InputError, match="https"):
        GitHubApi(None, "http://api.example.org")


@pytest.mark.parametrize("body", [b"[1, 2]", b'{"sha": 5}', b"not json", b"[" * 100_000, b'[{"sha": "../../x"}]'])
def test_an_answer_that_does_not_fit_is_a_failure(hub: Hub, client: Client, body: bytes) -> None:
    hub.faults[COMMITS] = [Fault(200, {}, body)]
    with pytest.raises(EnvironmentFailed):
        client.github.commits(7)


def test_one_comment_is_kept(hub: Hub, client: Client) -> None:
    path = "repos/acme/bench/issues/7/comments"
    bot = {"id": 5, "body": "<!-- m --> old", "user": {"login": "ci[bot]"}, "author_association": "NONE"}
    forged = {"id": 6, "body": "<!-- m --> forged", "user": {"login": "mallory"}, "author_association": "NONE"}
    hub.answers[path] = [bot, forged]
    client.github.keep_comment(7, "<!-- m -->", "<!-- m --> new")
    assert hub.seen[-1][:2] == ("PATCH", "repos/acme/bench/issues/comments/5")
    hub.answers[path] = [forged]
    client.github.keep_comment(7, "<!-- m -->", "<!-- m --> new")
    assert hub.seen[-1][:2] == ("POST", path)


# What a sign-off asks


def review(body: str, **more: Any) -> dict[str, Any]:
    return {"id": 5, "body": body, "user": {"login": "boss"}, "author_association": "MEMBER", **more}


def test_reviews_and_their_line_comments(hub: Hub, client: Client) -> None:
    hub.answers["repos/acme/bench/pulls/7/reviews"] = [review("one", submitted_at="2026-08-01T00:00:00Z")]
    hub.answers["repos/acme/bench/pulls/7/comments"] = [review("two", created_at="2026-08-02T00:00:00Z")]
    assert [(one.body, one.at[:10]) for one in client.github.reviews(7)] == [
        ("one", "2026-08-01"),
        ("two", "2026-08-02"),
    ]


@pytest.mark.parametrize(
    ("mark", "path"),
    [
        ("issuecomment-12", "issues/comments/12"),
        ("pullrequestreview-12", "pulls/7/reviews/12"),
        ("discussion_r12", "pulls/comments/12"),
    ],
)
def test_a_comment_by_its_address(hub: Hub, client: Client, mark: str, path: str) -> None:
    hub.answers[f"repos/acme/bench/{path}"] = review("signed")
    found = client.github.comment_at(f"https://github.com/Acme/bench/pull/7#{mark}")
    assert found is not None and (found[0], found[1].body) == (7, "signed")
    assert client.github.comment_at(f"https://github.com/acme/bench/pull/8#{mark}3") is None
    for address in (
        f"https://github.com/other/bench/pull/7#{mark}",
        "https://github.com/acme/bench/pull/7",
        f"x#{mark}",
    ):
        with pytest.raises(InputError, match="comment's address"):
            client.github.comment_at(address)


def test_members_of_teams(hub: Hub, client: Client) -> None:
    hub.answers["orgs/acme/teams/perf"] = {"id": 1}
    hub.answers["orgs/acme/teams/perf/memberships/boss"] = {"state": "active"}
    hub.answers["orgs/acme/teams/perf/memberships/new"] = {"state": "pending"}
    hub.faults["orgs/acme/teams/closed/memberships/boss"] = [Fault(403, body=b'{"message": "not accessible"}')]
    said = {name: client.github.member("acme/perf", name) for name in ("boss", "new", "stranger", "../x", "a/b")}
    assert said == {"boss": True, "new": False, "stranger": False, "../x": None, "a/b": None}
    assert client.github.member("acme/hidden", "boss") is None  # a team that the token does not see
    assert client.github.member("acme/closed", "boss") is None


def contents(text: str) -> dict[str, str]:
    return {"encoding": "base64", "content": base64.b64encode(text.encode()).decode()}


def test_documents_behind_links(hub: Hub, client: Client) -> None:
    hub.answers["repos/vllm-project/recipes/contents/a/x.md"] = contents("vllm serve m")
    hub.answers["repos/up/stream/pulls/9"] = PULL | {"merged": True, "merge_commit_sha": "c" * 40}
    hub.answers["repos/up/stream/pulls/9/files"] = [{"filename": "y.md"}, {"filename": "gone.md"}]
    hub.answers["repos/up/stream/contents/y.md"] = contents("sglang serve m")
    hub.answers["repos/up/stream/pulls/8"] = PULL | {"merge_commit_sha": "c" * 40}
    read = client.github.document
    assert read("https://github.com/vllm-project/recipes/blob/main/a/x.md") == "vllm serve m"
    assert read("https://github.com/up/stream/pull/9") == "sglang serve m"
    assert read("https://github.com/up/stream/pull/8") is None  # proposed, not merged
    for address in (
        "https://recipes.vllm.ai/x",
        "https://github.com/a/b/blob/main/../../x",
        "https://evil/a/b/blob/c/d",
    ):
        assert read(address) is None
    assert all(not path.startswith("repos/a/") for _, path, *_ in hub.seen)


PULL = {
    "number": 9,
    "title": "t",
    "state": "closed",
    "base": {"ref": "main", "sha": "a" * 40, "repo": {"full_name": "up/stream"}},
    "head": {"ref": "b", "sha": "b" * 40, "repo": None},
}


def test_a_file_is_added_to_a_branch_once(hub: Hub, client: Client) -> None:
    """A branch that is not there begins with the file; later ones follow on what it holds."""
    place = "repos/acme/bench/git"
    hub.made = {f"{place}/trees": {"sha": "a" * 40}, f"{place}/commits": {"sha": "b" * 40}}
    client.github.keep_file("pictures", "7/x.svg", "<svg/>", "first")
    assert [(method, path.removeprefix(f"{place}/")) for method, path, *_ in hub.seen] == [
        ("GET", "ref/heads/pictures"),
        ("POST", "trees"),
        ("POST", "commits"),
        ("POST", "refs"),
    ]
    hub.answers = {f"{place}/ref/heads/pictures": {"object": {"sha": "b" * 40}}}
    hub.answers[f"{place}/commits/{'b' * 40}"] = {"tree": {"sha": "c" * 40}}
    hub.seen.clear()
    client.github.keep_file("pictures", "8/y.svg", "<svg/>", "second")
    (tree, commit, moved) = (body for method, _, _, body in hub.seen if method != "GET")
    assert tree["base_tree"] == "c" * 40 and commit["parents"] == ["b" * 40] and moved == {"sha": "b" * 40}
    hub.answers[f"{place}/commits/{'b' * 40}"] = {"tree": {"sha": "a" * 40}}  # what it would become
    hub.seen.clear()
    client.github.keep_file("pictures", "8/y.svg", "<svg/>", "again")
    assert [method for method, *_ in hub.seen] == ["GET", "GET", "POST"]
