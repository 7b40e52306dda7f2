"""Who may ask what, and what a browser may do with the answer.

Loopback without a token: everybody on this machine may read. With a token, every request must carry it: in a header
(`Authorization: Bearer`), or in the cookie that the sign-in page sets. What writes needs the token everywhere. A page
that another site opens cannot read us (the Host header must name us) and cannot make us act (same-origin only).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from ridgeline.core.errors import InputError, Problem

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
COOKIE = "ridgeline"
SHORTEST = 16  # characters of a token
OPEN = ("/sign-in", "/static/", "/api/v1/health")  # what a visitor without a token may see
COMPUTES = ("/api/v1/check", "/sign-in")  # take a body, write nothing
BODY_BYTES = 2_000_000

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """`token` None: whoever reaches the loopback address may read and nobody may write. `names`: Host headers that
    mean us, beside the loopback's; empty: any, which a token has to make up for."""

    token: str | None = None
    names: tuple[str, ...] = ()
    anywhere: bool = False  # listens beyond this machine

    @property
    def stamp(self) -> str:
        """What the cookie holds: proof of the token, not the token."""
        return hmac.new((self.token or "").encode(), b"ridgeline dashboard", hashlib.sha256).hexdigest()

    def knows(self, token: str) -> bool:
        """Whether this is the token; takes as long for a wrong one."""
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def admits(self, authorization: str, cookie: str) -> bool:
        """Whether a request carries the token."""
        if self.token is None:
            return False
        kind, _, given = authorization.partition(" ")
        if kind.lower() == "bearer" and self.knows(given.strip()):
            return True
        return hmac.compare_digest(cookie.encode(), self.stamp.encode())


def access(host: str, token: str | None, names: tuple[str, ...] = ()) -> Access:
    """The rules for listening on `host`. Raises InputError when they are too weak for it."""
    outside = not is_loopback(host)
    if outside and not token:
        raise InputError(
            [
                Problem(
                    f"{host} can be reached from other machines, and no token is set",
                    key="--host",
                    hint="set RIDGELINE_TOKEN (or --token-file), or stay on 127.0.0.1",
                )
            ]
        )
    if token is not None and len(token) < SHORTEST:
        raise InputError([Problem(f"a token needs {SHORTEST} characters or more", key="--token-file")])
    return Access(token, names, outside)


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], scope["path"], headers)
        if refusal is not None:
            await _answer(send, *refusal)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                have = {name.lower() for name, _ in message["headers"]}
                extra = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in have]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        await self.app(scope, receive, with_headers)

    def _refusal(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str, str] | None:
        """(status, what to say, where to go instead) of a request that may not pass."""
        if not self._named(headers.get("host", "")):
            return 421, "This server does not go by the name in the Host header; --name adds one.", ""
        if int(headers.get("content-length") or 0) > BODY_BYTES:
            return 413, f"A body may have {BODY_BYTES:,} bytes.", ""
        admitted = self.access.admits(headers.get("authorization", ""), _cookie(headers.get("cookie", "")))
        changes = method not in ("GET", "HEAD")
        if changes:
            if "transfer-encoding" in headers:
                return 411, "A body must say its length.", ""
            if not _same_origin(headers):
                return 403, "Only this server's own pages may send that.", ""
            if path not in COMPUTES and not admitted:
                return 403, "What changes something needs the token the server was started with.", ""
        if self.access.token is not None and not admitted and not path.startswith(OPEN):
            browser = "text/html" in headers.get("accept", "") and method == "GET"
            return 401, "Send the token: Authorization: Bearer ...", f"/sign-in?to={quote(path)}" if browser else ""
        return None

    def _named(self, host: str) -> bool:
        name = urlsplit(f"//{host}").hostname or ""
        if is_loopback(name) or name in self.access.names:
            return True
        return self.access.anywhere and not self.access.names


def _cookie(text: str) -> str:
    for part in text.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _same_origin(headers: dict[str, str]) -> bool:
    """Browsers name the page that sends; other clients need not."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


async def _answer(send: Send, status: int, text: str, to: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    if to:
        status, headers = 303, [*headers, (b"location", to.encode())]
    elif status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
