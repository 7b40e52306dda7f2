from __future__ import annotations

import pytest
from tests.publish.web import sample
from tests.publish.web.client import Client, client

from ridgeline.core.errors import InputError
from ridgeline.publish.web.safety import POLICY, Access, access, is_loopback

TOKEN = "a token of some length"


@pytest.fixture
def plain() -> Client:
    return client(sample.every_state())


@pytest.fixture
def guarded() -> Client:
    return client(sample.every_state(), access=Access(TOKEN))


def test_other_addresses_need_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org"):
        with pytest.raises(InputError, match="no token is set"):
            access(host, None)
        assert access(host, TOKEN).anywhere
    for host in ("127.0.0.1", "127.8.9.1", "::1", "localhost"):
        assert not access(host, None).anywhere and is_loopback(host)


def test_a_short_token_is_refused() -> None:
    with pytest.raises(InputError, match="16 characters"):
        access("127.0.0.1", "short")


def test_every_answer_carries_the_policy(plain: Client) -> None:
    for path in ("/", "/runs", "/data", "/api/v1/frontier", "/static/icon.svg", "/nothing"):
        answer = plain.get(path)
        assert answer.headers["content-security-policy"] == POLICY, path
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY


def test_without_the_token_nothing_is_shown(guarded: Client) -> None:
    for path in ("/", "/runs", "/api/v1/frontier", "/api/openapi.json", "/points", "/data?q=SELECT 1"):
        assert guarded.get(path).status_code == 401, path
    page = guarded.get("/runs", headers={"accept": "text/html"})
    assert page.status_code == 303 and page.headers["location"] == "/sign-in?to=/runs"
    assert guarded.get("/api/v1/health").status_code == 200


def test_the_token_opens_by_header_and_by_signing_in(guarded: Client) -> None:
    assert guarded.get("/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert guarded.get("/runs", headers={"authorization": "Bearer wrong"}).status_code == 401
    wrong = guarded.post("/sign-in", data={"token": "wrong", "to": "/runs"})
    assert wrong.status_code == 403 and "set-cookie" not in wrong.headers
    right = guarded.post("/sign-in", data={"token": TOKEN, "to": "/runs"})
    assert right.status_code == 303 and right.headers["location"] == "/runs"
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and TOKEN not in cookie
    assert guarded.get("/runs", headers={"cookie": cookie.partition(";")[0]}).status_code == 200


@pytest.mark.parametrize("to", ["https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example"])
def test_signing_in_leads_nowhere_else(guarded: Client, to: str) -> None:
    assert guarded.post("/sign-in", data={"token": TOKEN, "to": to}).headers["location"] == "/"


def test_what_changes_something_needs_the_token_even_here(plain: Client, guarded: Client) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert plain.ask(method, "/api/v1/runs/main").status_code == 403
        assert guarded.ask(method, "/api/v1/runs/main").status_code == 403
    opened = guarded.ask("DELETE", "/api/v1/runs/main", headers={"authorization": f"Bearer {TOKEN}"})
    assert opened.status_code == 405  # nothing here can be changed yet


def test_other_sites_cannot_make_a_browser_send(plain: Client) -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert plain.post("/api/v1/check", headers=headers, data={"text": "a"}).status_code == 403


def test_a_foreign_host_name_is_refused(plain: Client) -> None:
    assert plain.get("/", headers={"host": "evil.example"}).status_code == 421
    assert plain.get("/", headers={"host": "localhost:8000"}).status_code == 200
    named = client(sample.every_state(), access=Access(TOKEN, ("bench.example",), anywhere=True))
    key = {"authorization": f"Bearer {TOKEN}"}
    assert named.get("/", headers={**key, "host": "bench.example"}).status_code == 200
    assert named.get("/", headers={**key, "host": "evil.example"}).status_code == 421


def test_bodies_are_bounded(plain: Client) -> None:
    assert plain.post("/api/v1/check", data={"text": "x" * 2_100_000}).status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/points/..%2f..%2fetc%2fpasswd",
        "/api/v1/points/main~000000000000/requests",
        "/api/v1/points/..%2f..%2fetc/logs/passwd",
        "/runs/%2fetc%2fpasswd",
        "/?run=/etc/passwd&overlay=/etc/passwd",
        "/plan?config=/etc/passwd",
        "/traces?trace=/etc/passwd",
        "/compare?a=/etc/passwd&b=../../etc",
    ],
)
def test_no_path_of_a_request_reaches_the_file_system(plain: Client, path: str) -> None:
    answer = plain.get(path)
    assert answer.status_code in (200, 404)
    assert "root:" not in answer.text and "def create_app" not in answer.text
