"""Where requests go and how patiently: a value. Timeouts are in real seconds, whatever the replay's speed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ridgeline import __version__
from ridgeline.core.errors import InputError, Problem

# Set by us on every request; a caller's copy under any spelling is dropped.
DERIVED_HEADERS = (
    "host", "content-length", "content-type", "transfer-encoding", "connection", "accept",
    "x-request-id", "x-correlation-id", "x-session-id",
)  # fmt: skip
ALWAYS = ("x-correlation-id", "x-session-id")  # carry the stream on every request
# Dynamo's router is told a child's parent, too.
PARENT_HEADERS = {"x-dynamo-session-id": "X-Dynamo-Parent-Session-ID"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An OpenAI-compatible server. Raises InputError when the URL or a header cannot be used.

    `path` None: the path the prompts are made for. `api_key_env` names an environment variable; the key itself is
    never stored. `idle_reuse_s`: a connection idle for longer is closed, not reused, because servers close theirs
    (uvicorn after 5 s) and a request that meets the closing is lost. `session_header`: one more header to carry the
    stream, for a router that reads neither X-Session-ID nor X-Correlation-ID.
    """

    url: str
    model: str = ""
    path: str | None = None
    api_key_env: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    session_header: str | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 900.0  # longest silence in an answer, the wait for its first byte included
    total_timeout_s: float = 6 * 3600.0
    idle_reuse_s: float = 4.0
    ca_file: str | None = None
    verify_tls: bool = True

    def __post_init__(self) -> None:
        problems = []
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or any(character <= " " for character in self.url):
            problems.append(
                Problem(f"cannot use `{self.url}` as a URL", key="url", hint="write http://HOST:PORT or https://HOST")
            )
        for name, value in self.headers.items():
            if not _TOKEN.fullmatch(name) or any(c in "\r\n\0" for c in value):
                problems.append(Problem(f"cannot send the header `{name!r}`", key="headers"))
        own = self.session_header
        taken = {*DERIVED_HEADERS, "authorization"} - {*ALWAYS}
        if own is not None and (not _TOKEN.fullmatch(own) or own.lower() in taken):
            hint = "name the header by which the router tells sessions apart, e.g. X-SMG-Routing-Key"
            problems.append(Problem(f"`{own}` cannot carry the session", key="session_header", hint=hint))
        if self.api_key_env is not None and not os.environ.get(self.api_key_env):
            problems.append(
                Problem(
                    f"the environment variable {self.api_key_env} is not set",
                    key="api_key_env",
                    hint="export it, or leave the option out for a server without keys",
                )
            )
        if problems:
            raise InputError(problems)

    @property
    def tls(self) -> bool:
        return urlsplit(self.url).scheme == "https"

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (443 if self.tls else 80)

    def target(self, path: str) -> str:
        """The request target: the URL's own path, then `path`; a `/v1` that both have appears once."""
        base = urlsplit(self.url).path.rstrip("/")
        path = self.path or path
        if base.endswith(path):
            return base
        if base.endswith("/v1") and path.startswith("/v1/"):
            base = base.removesuffix("/v1")
        return base + path

    @property
    def routing_headers(self) -> tuple[str | None, str | None]:
        """Names of the headers, beside those on every request, that carry the stream and, of a child, its parent."""
        name = self.session_header
        if name is None or name.lower() in ALWAYS:
            return None, None
        return name, PARENT_HEADERS.get(name.lower())

    def head(self, path: str) -> bytes:
        """The part of a request's head that is the same for all: the request line and the constant headers."""
        ours = {*DERIVED_HEADERS, *(name.lower() for name in self.routing_headers if name)}
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ours}
        if not any(name.lower() == "user-agent" for name in headers):
            headers["User-Agent"] = f"ridgeline/{__version__}"
        if self.api_key_env is not None:
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {os.environ[self.api_key_env]}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        default_port = 443 if self.tls else 80
        lines = [
            f"POST {self.target(path)} HTTP/1.1",
            f"Host: {host}" if self.port == default_port else f"Host: {host}:{self.port}",
            "Content-Type: application/json",
            "Accept: text/event-stream",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return "".join(f"{line}\r\n" for line in lines).encode("latin-1", errors="replace")
