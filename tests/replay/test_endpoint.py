from __future__ import annotations

import pytest

from ridgeline.core.errors import InputError
from ridgeline.replay.endpoint import Endpoint


@pytest.mark.parametrize(
    ("url", "path", "target"),
    [
        ("http://h:1", None, "/v1/chat/completions"),
        ("http://h:1/", None, "/v1/chat/completions"),
        ("http://h:1/v1", None, "/v1/chat/completions"),
        ("http://h:1/gateway/v1/", None, "/gateway/v1/chat/completions"),
        ("http://h:1/v1/chat/completions", None, "/v1/chat/completions"),
        ("http://h:1", "/generate", "/generate"),
    ],
)
def test_the_target_joins_url_and_path(url: str, path: str | None, target: str) -> None:
    assert Endpoint(url=url, path=path).target("/v1/chat/completions") == target


def lines(endpoint: Endpoint) -> list[str]:
    return endpoint.head("/v1/completions").decode().split("\r\n")


def test_the_head_names_host_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")
    endpoint = Endpoint(url="https://[::1]:8443", api_key_env="SOME_KEY", headers={"authorization": "x", "X-A": "b"})
    found = lines(endpoint)
    assert found[0] == "POST /v1/completions HTTP/1.1"
    assert "Host: [::1]:8443" in found and "Authorization: Bearer secret" in found and "X-A: b" in found
    assert not any(line.startswith("authorization: x") for line in found)
    assert "secret" not in repr(endpoint)
    assert "Host: example.org" in lines(Endpoint(url="https://example.org"))
    assert (endpoint.tls, endpoint.port, Endpoint(url="http://h").port) == (True, 8443, 80)


def test_derived_headers_win_over_a_callers_copy_in_any_spelling() -> None:
    endpoint = Endpoint(url="http://h", headers={"X-REQUEST-ID": "mine", "content-LENGTH": "9", "User-Agent": "me"})
    found = "\n".join(lines(endpoint)).lower()
    assert "mine" not in found and "content-length" not in found and found.count("user-agent") == 1


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "http://", "http://h:port", "http://h/a b", "", "http://h\r\nX: y"])
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="as a URL"):
        Endpoint(url=url)


def test_all_problems_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(InputError) as caught:
        Endpoint(url="x", api_key_env="NO_SUCH_KEY", headers={"A": "b\r\nC: d", "E F": "g"})
    assert [problem.key for problem in caught.value.problems] == ["url", "headers", "headers", "api_key_env"]


@pytest.mark.parametrize("name", ["", "a b", "X:Y", "Host", "x-request-id", "Authorization", "X\r\nA"])
def test_a_header_that_means_something_else_cannot_carry_the_session(name: str) -> None:
    with pytest.raises(InputError, match="cannot carry the session"):
        Endpoint(url="http://h", session_header=name)


def test_which_headers_a_router_gets() -> None:
    assert Endpoint(url="http://h").routing_headers == (None, None)
    assert Endpoint(url="http://h", session_header="X-Session-ID").routing_headers == (None, None)
    assert Endpoint(url="http://h", session_header="X-SMG-Routing-Key").routing_headers == ("X-SMG-Routing-Key", None)
