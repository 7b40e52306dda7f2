"""A scripted OpenAI-like service for the supervisor's tests: `service.py PORT BEHAVIOUR`.

BEHAVIOUR: good | sick (healthy page, request fails) | nameless (model not listed) | dies (exits with 9 at once) |
raises (an exception, then a page of last words) | mortal (answers, then exits with 5 on the first GET /die) |
stubborn (ignores SIGTERM).
"""

import json
import os
import signal
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, behaviour = int(sys.argv[1]), sys.argv[2]
print(f"{behaviour} service on {port}", flush=True)
if behaviour == "dies":
    print("out of memory", flush=True)
    sys.exit(9)
if behaviour == "raises":
    try:
        raise LookupError("no such kernel")
    except LookupError:
        traceback.print_exc()
    print("shutting down\n" * 40, flush=True)
    sys.exit(0)
if behaviour == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/die":
            print("asked to die", flush=True)
            os._exit(5)
        if self.path == "/v1/models":
            return self.answer(200, {"data": [] if behaviour == "nameless" else [{"id": "m"}]})
        return self.answer(200, {"order": os.environ.get("ORDER", "")})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(500 if behaviour == "sick" else 200, {"usage": {"completion_tokens": 1}})


ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
