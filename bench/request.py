"""What one request costs the client without sockets: everything from the pacing machine to the finished row.

    python bench/request.py [--requests 4000] [--tokens 1] [--instructions | --profile]

CPU microseconds a request, the least of five. `--instructions`: instead, the instructions a request takes, counted by
valgrind (where it is installed), which no other work on the machine changes. `--profile`: each module's share of the
time (cProfile, which makes many small calls look dearer than they are; C functions count for who calls them).
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from typing import Any

from parts.closed import Bodies, closed_loop

STREAMS = 64
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def answer(number: int, tokens: int) -> bytes:
    """A whole answer as vLLM sends it."""
    start = (
        b'data: {"id":"chatcmpl-%016x","object":"chat.completion.chunk","created":1,"model":"null","choices":[' % number
    )
    delta = b'{"index":0,"delta":{"content":" tok"},"logprobs":null,"finish_reason":%s}]}\n\n'
    events = [start + delta % (b'"stop"' if token == tokens - 1 else b"null") for token in range(tokens)]
    events.append(start + b'],"usage":{"prompt_tokens":64,"total_tokens":65,"completion_tokens":%d}}\n\n' % tokens)
    events.append(b"data: [DONE]\n\n")
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"


class Transport:
    """Takes everything at once and sends it nowhere."""

    connection: Any = None

    def write(self, data: bytes) -> None: ...

    def writelines(self, parts: list[bytes]) -> None: ...

    def get_extra_info(self, name: str) -> None: ...

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        self.connection.connection_lost(None)


async def replay(requests: int, tokens: int) -> float:
    """CPU seconds of so many requests."""
    from ridgeline.core.clock import ScaledClock
    from ridgeline.replay import exchanges
    from ridgeline.replay.collector import quiet_collector
    from ridgeline.replay.connection import Connection
    from ridgeline.replay.driver import ReplaySettings, _Drive
    from ridgeline.replay.endpoint import Endpoint

    exchanges._STREAMING_NS = exchanges._WHOLE_NS = 1 << 60  # how much goes into a slice must not depend on speed
    pacer = closed_loop(STREAMS, requests, tokens)
    settings = ReplaySettings(keep_records=False)
    drive = _Drive(pacer, Bodies(400), Endpoint(url="http://127.0.0.1:9"), ScaledClock.start(), settings, None)
    drive.on_rows = lambda rows: None
    link: Any = drive._link
    link._slice_ns = 1 << 60
    connections = []
    for _ in range(STREAMS):
        connection, transport = Connection(link._client), Transport()
        transport.connection = connection
        connection.connection_made(transport)  # type: ignore[arg-type]
        connection.idle_since = time.monotonic_ns()
        link._client._idle.append(connection)
        link._client._open.add(connection)
        connections.append(connection)
    answers = [answer(number, tokens) for number in range(STREAMS)]
    pacer.begin(drive._clock.now_ns())
    began = time.process_time()
    with quiet_collector():
        drive._step()
        while not drive._over.done():
            for number, connection in enumerate(connections):
                if connection._exchange is not None:
                    connection.data_received(answers[number])
            while link._called:
                link._work()
            drive.turn()
            drive._settle()
    return time.process_time() - began


def instructions(requests: int, tokens: int) -> int:
    """Of a process with so many requests."""
    env = os.environ | {"PYTHONHASHSEED": "0"}
    with tempfile.NamedTemporaryFile() as out:
        counted = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={out.name}"]
        command = [*counted, sys.executable, __file__, "--once", "--requests", str(requests), "--tokens", str(tokens)]
        said = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stderr
    return int(re.findall(r"I\s+refs:\s+([\d,]+)", said)[0].replace(",", ""))


def profile(requests: int, tokens: int) -> dict[str, float]:
    """Share of the time by module of ours, largest first."""
    import uvloop

    seen = cProfile.Profile()
    seen.runcall(uvloop.run, replay(requests, tokens))
    shares: dict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own, _, callers) in pstats.Stats(seen).stats.items():  # type: ignore[attr-defined]
        if "ridgeline" in file:
            shares[file.rpartition("ridgeline/")[2]] += own
        else:
            for (caller, _, _), (_, _, spent, _) in callers.items():
                if "ridgeline/" in caller:
                    shares[caller.rpartition("ridgeline/")[2]] += spent
    whole = sum(shares.values())
    return {name: share / whole for name, share in sorted(shares.items(), key=lambda item: -item[1])}


def main() -> int:
    import uvloop

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--tokens", type=int, default=1)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.profile:
        for name, share in profile(options.requests, options.tokens).items():
            print(f"{share:6.1%}  {name}")
        return 0
    if options.instructions:
        if shutil.which("valgrind") is None:
            print("skipped: no valgrind")
            return 0
        few, many = (instructions(count, options.tokens) for count in (200, 1200))
        print(f"{(many - few) / 1000:,.0f} instructions a request of {options.tokens} tokens")
        return 0
    repeats = 1 if options.once else 5
    least = min(uvloop.run(replay(options.requests, options.tokens)) for _ in range(repeats))
    print(f"{least / options.requests * 1e6:.1f} us a request of {options.tokens} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
