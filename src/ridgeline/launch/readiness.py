"""A service is ready when it has answered: health, the served model's name, and a real one-token request.

A green health page proves little: engines are known to report healthy and to die on the first request.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from ridgeline.core.deployment import Readiness
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.ports import LOOPBACK

POLL_S = 0.05
REQUEST_TIMEOUT_S = 60.0
SESSION = "X-Session-ID"


def wait_ready(
    readiness: Readiness,
    port: int,
    *,
    endpoint: str,
    address: str = LOOPBACK,
    alive: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Wait until the service at `port` of `address` is ready. Returns the seconds it took.

    `alive` is asked between tries and raises when the process has ended. Raises EnvironmentFailed after
    `readiness.timeout_s`, saying which of the three proofs was missing.
    """
    began = clock()
    missing = "no answer on its port"
    while clock() - began < readiness.timeout_s:
        alive()
        missing = _missing_proof(readiness, port, endpoint, address)
        if not missing:
            return clock() - began
        sleep(POLL_S)
    raise EnvironmentFailed(
        f"the service was not ready after {readiness.timeout_s:g} s: {missing}", hint="its log shows how far it came"
    )


def _missing_proof(readiness: Readiness, port: int, endpoint: str, address: str = LOOPBACK) -> str:
    """What is still missing; empty when ready."""
    try:
        status, _ = request(port, "GET", readiness.path, address=address)
        if status != 200:
            return f"`{readiness.path}` answered {status}"
        if not readiness.answers:
            return ""
        model = readiness.served_model
        status, body = (
            request(port, "GET", "/v1/models", address=address) if readiness.lists is not False else (200, None)
        )
        names = [entry.get("id") for entry in body.get("data", [])] if status == 200 and isinstance(body, dict) else []
        if readiness.lists is not False and model not in names:
            return f"`/v1/models` answered {status} and does not list `{model}`"
        body = one_token(endpoint, model)
        status, body = request(port, "POST", endpoint, body, {SESSION: "ridgeline-ready"}, address=address)
        return "" if status == 200 else f"a one-token request answered {status}: {str(body)[:200]}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"no answer on its port ({type(error).__name__})"


def one_token(endpoint: str, model: str | None) -> dict[str, Any]:
    """The body of a one-token request for this path."""
    body: dict[str, Any] = {"model": model, "max_tokens": 1, "stream": False}
    if endpoint.endswith("/chat/completions"):
        return body | {"messages": [{"role": "user", "content": "ready?"}]}
    return body | {"prompt": "ready?"}


def request(
    port: int,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    address: str = LOOPBACK,
) -> tuple[int, Any]:
    """Status and content (JSON where it is some, else text). Raises OSError and HTTPException."""
    connection = http.client.HTTPConnection(address, port, timeout=REQUEST_TIMEOUT_S)
    try:
        data = json.dumps(body).encode() if body is not None else None
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if data else {})}
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, (
            json.loads(text) if text.strip().startswith((b"{", b"[")) else text.decode("utf-8", "replace")
        )
    finally:
        connection.close()
