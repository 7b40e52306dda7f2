"""A server on loopback that speaks the part of GitHub's API that we need: pages, 404, faults in a row, rate limits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Fault:
    """An answer given instead of the real one."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"


@dataclass
class Hub:
    """`answers`: path -> JSON, or a function of the call's number. `faults`: path -> answers to give first. `page`:
    items on a page."""

    answers: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    page: int = 2
    seen: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    address: str = ""
    next_host: str = ""
    made: dict[str, Any] = field(default_factory=dict)  # path -> answer to a write

    def start(self) -> Callable[[], None]:
        """Serve until the returned function is called."""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                parts = urlsplit(self.path)
                path, query = parts.path.lstrip("/"), parse_qs(parts.query)
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                hub.seen.append((self.command, path, {k.lower(): v for k, v in self.headers.items()}, body))
                if hub.faults.get(path):
                    fault = hub.faults[path].pop(0)
                    self._send(fault.status, fault.body, fault.headers)
                    return
                if self.command != "GET":
                    made = hub.made.get(path, {"id": 1})
                    self._send(201, json.dumps(made).encode(), {})
                    return
                if path not in hub.answers:
                    self._send(404, b'{"message": "Not Found"}', {})
                    return
                answer = hub.answers[path]
                if callable(answer):
                    answer = answer(sum(one[1] == path for one in hub.seen))
                self._page(path, answer, int((query.get("page") or ["1"])[0]))

            do_GET = do_POST = do_PATCH = _answer

            def _page(self, path: str, answer: Any, number: int) -> None:
                key = (
                    next((k for k, v in answer.items() if isinstance(v, list)), None)
                    if isinstance(answer, dict)
                    else ""
                )
                items = answer if isinstance(answer, list) else answer.get(key) if key and len(answer) == 1 else None
                headers = {}
                if items is not None:
                    part = items[(number - 1) * hub.page : number * hub.page]
                    if number * hub.page < len(items):
                        host = hub.next_host or hub.address
                        headers["Link"] = f'<{host}/{path}?page={number + 1}&per_page=100>; rel="next"'
                    answer = part if isinstance(answer, list) else {key: part}
                self._send(200, json.dumps(answer).encode(), headers)

            def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()

        def stop() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        return stop
