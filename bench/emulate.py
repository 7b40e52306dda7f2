"""How many streamed token events per second the emulated engine sustains on one core.

    python bench/emulate.py [--streams 256] [--tokens 400]

A server process is pinned to one core, a raw client to another. Every stream asks for the same number of tokens, all at
once, so that steps are as full as a busy engine's. The client counts event bytes, it does not parse. Prints one JSON
line; what counts is events per second of server CPU, which other load on the machine hardly moves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

TARGET = 20_000


async def _stream(port: int, index: int, tokens: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    text = f"request {index} says something long enough for a few blocks of the cache " * 4
    body = json.dumps(
        {
            "model": "m",
            "messages": [{"role": "user", "content": text}],
            "max_tokens": tokens,
            "stream": True,
            "ignore_eos": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    writer.write(head + body)
    events, tail = 0, b""
    while not tail.endswith(b"0\r\n\r\n"):
        data = await reader.read(1 << 18)
        if not data:
            raise SystemExit("the server closed a stream")
        events += data.count(b'"content":"') - data.count(b'"content":""')
        tail = (tail + data)[-8:]
    writer.close()
    return events


async def _run(port: int, streams: int, tokens: int) -> int:
    return sum(await asyncio.gather(*(_stream(port, index, tokens) for index in range(streams))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--speed", type=float, default=1.0)
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        command = [sys.executable, "-m", "ridgeline.cli.main", "emulate", "--model", "Qwen3-0.6B", "--gpu", "h200"]
        command += [
            "--port",
            "0",
            "--port-file",
            str(port_file),
            "--served-model-name",
            "m",
            "--speed",
            str(given.speed),
        ]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            os.sched_setaffinity(server.pid, {cores[0]})
            os.sched_setaffinity(0, {cores[-1]})
            deadline = time.monotonic() + 60
            while not port_file.exists():
                if server.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("the server did not start")
                time.sleep(0.02)
            port = int(port_file.read_text())
            process = psutil.Process(server.pid)
            asyncio.run(_run(port, 8, 16))  # warm
            used, started = sum(process.cpu_times()[:2]), time.perf_counter()
            events = asyncio.run(_run(port, given.streams, given.tokens))
            wall = time.perf_counter() - started
            used = sum(process.cpu_times()[:2]) - used
        finally:
            server.terminate()
            server.wait(timeout=10)
    per_core = events / used
    print(
        json.dumps(
            {
                "bench": "emulate",
                "events": events,
                "streams": given.streams,
                "wall_s": round(wall, 3),
                "server_cpu_s": round(used, 3),
                "events_per_wall_second": round(events / wall),
                "events_per_core_second": round(per_core),
                "target": TARGET,
                "met": per_core >= TARGET,
            }
        )
    )
    return 0 if events == given.streams * given.tokens else 1


if __name__ == "__main__":
    sys.exit(main())
