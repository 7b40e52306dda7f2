"""The API over HTTP: pages, retries, rate limits, and a token that nobody gets to see.

Reads are repeated after 5xx and broken connections; writes are not, since a comment could stand twice, except where the
server says that it refused to do anything (a rate limit). Waiting is bounded: beyond `patience` the caller is told when
to come back. Redirects are not followed, and pages are only fetched from the same origin: a token goes nowhere else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.publish.forge.event import read_json

if TYPE_CHECKING:
    import httpx

API = "https://api.github.com"
TRIES = 5
MAX_PAGES = 100  # of 100 items
_PER_PAGE = "100"


@dataclass(frozen=True, slots=True)
class Token:
    """A secret. It shows as dots everywhere but in the one header it is for."""

    secret: str = field(repr=False)

    @classmethod
    def from_environment(cls) -> Token | None:
        """GITHUB_TOKEN, else GH_TOKEN; None when neither is set."""
        for name in ("GITHUB_TOKEN", "GH_TOKEN"):
            value = os.environ.get(name, "").strip()
            if value:
                return cls(value)
        return None

    def __str__(self) -> str:
        return "•••"

    def hide(self, text: str) -> str:
        """The text without the secret in it."""
        return text.replace(self.secret, "•••") if self.secret else text


class GitHubApi:
    """A transport over HTTP. `sleep` and `now` (seconds since 1970) are given by tests; `patience`: the longest wait in
    seconds for a rate limit."""

    def __init__(
        self,
        token: Token | None = None,
        root: str = API,
        *,
        patience: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        import httpx

        parts = urlsplit(root)
        loopback = parts.hostname in ("127.0.0.1", "localhost", "::1")
        if parts.scheme != "https" and not loopback:
            raise InputError([Problem("must begin with https://", key="--api", hint=f"the usual one is {API}")])
        headers = {
            "accept": "application/vnd.github+json",
            "x-github-api-version": "2022-11-28",
            "user-agent": "ridgeline",
        }
        if token:
            headers["authorization"] = f"Bearer {token.secret}"
        self._root = root.rstrip("/")
        self._token = token
        self._patience, self._sleep, self._now = patience, sleep, now
        self._client = httpx.Client(headers=headers, timeout=30.0, follow_redirects=False, trust_env=not loopback)

    def close(self) -> None:
        self._client.close()

    def one(self, path: str, **query: str) -> Any | None:
        response = self._ask("GET", self._address(path), query, None)
        return None if response.status_code == 404 else self._json(response)

    def pages(self, path: str, inside: str | None = None, **query: str) -> Iterator[Any]:
        address, asked = self._address(path), {**query, "per_page": _PER_PAGE}
        for _ in range(MAX_PAGES):
            response = self._ask("GET", address, asked, None)
            if response.status_code == 404:
                return
            answer = self._json(response)
            items = answer.get(inside) if inside and isinstance(answer, dict) else answer
            if not isinstance(items, list):
                raise EnvironmentFailed(f"GitHub's answer to {path} holds no list")
            yield from items
            following = response.links.get("next", {}).get("url")
            if not following:
                return
            if _origin(following) != _origin(self._root):
                raise EnvironmentFailed("a page's link leads to another host; it was not followed")
            address, asked = following.partition("?")[0], dict(parse_qsl(urlsplit(following).query))

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        return self._json(self._ask(method, self._address(path), {}, body))

    def _address(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _ask(
        self, method: str, address: str, query: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> httpx.Response:
        import httpx

        what = f"{method} {urlsplit(address).path}"
        reads = method == "GET"
        for attempt in range(1, TRIES + 1):
            last = attempt == TRIES
            try:
                response = self._client.request(method, address, params=dict(query), json=body)
            except httpx.TransportError as error:
                if last or not reads:
                    raise self._failed(f"{what}: {type(error).__name__}: {error}") from None
                self._sleep(_pause(attempt))
                continue
            wait = self._limited(response)
            if wait is not None:
                if wait > self._patience or last:
                    hint = f"come back in {round(wait)} s" + ("" if self._token else ", or set GITHUB_TOKEN")
                    raise EnvironmentFailed(f"{what}: GitHub's rate limit is used up", hint=hint)
                self._sleep(wait)
                continue
            if response.status_code >= 500 and reads and not last:
                self._sleep(_pause(attempt))
                continue
            if response.status_code >= 300 and response.status_code != 404:
                raise self._refused(what, response)
            if response.status_code == 404 and not reads:
                raise self._refused(what, response)
            return response
        raise AssertionError("the last attempt returns or raises")

    def _limited(self, response: httpx.Response) -> float | None:
        """Seconds to wait when this is a rate limit, primary or secondary."""
        if response.status_code not in (403, 429):
            return None
        after = _number(response.headers.get("retry-after"))
        if after is not None:
            return max(1.0, after)
        reset = _number(response.headers.get("x-ratelimit-reset"))
        if response.headers.get("x-ratelimit-remaining") == "0" and reset is not None:
            return max(1.0, reset - self._now() + 1.0)
        return 60.0 if response.status_code == 429 else None

    def _json(self, response: httpx.Response) -> Any:
        if response.status_code == 204:
            return None
        try:
            return read_json(response.content, "GitHub's answer")
        except InputError as error:
            raise self._failed(f"{urlsplit(str(response.url)).path}: {error}") from None

    def _refused(self, what: str, response: httpx.Response) -> EnvironmentFailed:
        try:
            answer = read_json(response.content, "answer")
            said = str(answer.get("message", "")) if isinstance(answer, dict) else ""
        except InputError:
            said = ""
        hints = {
            401: "the token is not valid",
            403: "the token may not do this; a workflow needs the permission in its `permissions:` block",
            404: "not there, or the token may not see it",
        }
        return self._failed(f"{what}: {response.status_code} {said[:300]}".rstrip(), hints.get(response.status_code))

    def _failed(self, message: str, hint: str | None = None) -> EnvironmentFailed:
        return EnvironmentFailed(self._token.hide(message) if self._token else message, hint=hint)


def _pause(attempt: int) -> float:
    """Seconds before the next try: 1, 2, 4, 8."""
    return float(2 ** (attempt - 1))


def _number(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 15 else None


def _origin(address: str) -> tuple[str, str, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname or "", parts.port
