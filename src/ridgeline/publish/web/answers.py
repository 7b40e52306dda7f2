"""Answers of the interface: JSON with an ETag made from what the answer depends on, and a small memory of answers.

An answer belongs to (dataset version, query): as long as neither changes it may be given again, and it cannot go stale.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ridgeline import __version__

KEPT_BYTES = 64_000_000


class Memory:
    """Encoded answers by key, the least recently used ones forgotten first. Threads may share it."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most = most
        self._held: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        """The answer kept under `key`, or a new one. Two threads may make one twice; both are right."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found
        made = make()
        with self._lock:
            if key not in self._held and len(made) <= self._most:
                self._held[key] = made
                self._size += len(made)
                while self._size > self._most:
                    _, gone = self._held.popitem(last=False)
                    self._size -= len(gone)
        return made


def etag(*parts: str) -> str:
    """A validator that follows from the code and everything named."""
    return f'"{hashlib.sha256(chr(0).join([__version__, *parts]).encode()).hexdigest()[:24]}"'


def matches(request: Request, tag: str) -> bool:
    """Whether the asker has this answer already."""
    given = request.headers.get("if-none-match", "")
    return tag in [part.strip().removeprefix("W/") for part in given.split(",")]


def answer(request: Request, tag: str, make: Callable[[], bytes], *, kind: str = "application/json") -> Response:
    """200 with the body, or 304 without one. Browsers ask again each time, and are told "the same" in a header."""
    headers = {"etag": tag, "cache-control": "private, max-age=0, must-revalidate", "vary": "authorization, cookie"}
    if matches(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(make(), media_type=kind, headers=headers)


def told(request: Request, data: Any) -> Response:
    """An answer that is quickly made, with a validator of its content."""
    body = encode(data)
    return answer(request, etag(hashlib.sha256(body).hexdigest()), lambda: body)


def encode(data: Any) -> bytes:
    """JSON bytes. What is no finite number becomes null."""
    return msgspec.json.encode(data)
