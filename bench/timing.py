"""Timing truth: what the replay client reports against when the server's process handed each event to the kernel.

    python bench/timing.py [--server PATH | --scripted] [--streams 16,128,512] [--floor]

First token after 50 ms, then one every 10 ms, 64 tokens; a closed loop on one core, the server on another. Both
processes stamp the same monotonic clock, and the server's log is the truth, so a late server does not enter:
TTFT error = reported TTFT - (first send - first byte of the request seen); gap error = |reported gap - gap between the
two sends|. The null server in C is used where it can be built, else the tests' scripted server, whose own scheduling
falls behind at many streams (that shows in its lateness, not in the errors). `--floor`: the bare protocol client that
lies beside the null server's source does the same right after, on the same core: what is possible on this machine now.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from parts.nullserver import NullServer, known, pinned_to_client_core
from parts.scripted import Scripted

TOKENS, FIRST_MS, GAP_MS = 64, 50, 10
TARGETS = {16: 1.0, 128: 3.0, 512: 5.0}  # ms of TTFT error at p99
REQUESTS = {16: 96, 128: 512, 512: 1536}

Sends = dict[str, tuple[int, list[int]]]


def client(url: str, streams: int, requests: int) -> list[dict[str, object]]:
    """The measured process: what the client says about each request, absolute monotonic times."""
    from parts.closed import Bodies, closed_loop

    from ridgeline.replay.driver import run_replay
    from ridgeline.replay.endpoint import Endpoint
    from ridgeline.replay.sink import BackgroundSink
    from ridgeline.results.records import RecordWriter

    with (
        tempfile.TemporaryDirectory() as folder,
        RecordWriter(Path(folder) / "records.parquet") as writer,
        BackgroundSink(writer.write_rows) as sink,  # as in a real run, for what it does to the stamps
    ):
        result = run_replay(closed_loop(streams, requests, TOKENS), Bodies(400), Endpoint(url=url), on_rows=sink.take)
    prefix = result.settings["request_id_prefix"]
    return [
        {
            "id": f"{prefix}{record.request_id:012x}",
            "sent": record.sent_ns,
            "lag": (record.sent_ns or 0) - record.scheduled_ns,
            "chunks": record.chunk_ns,
        }
        for record in result.records
    ]


def errors(
    rows: Sequence[dict[str, object]], sends: Sends
) -> tuple[list[float], list[float], list[float], list[float]]:
    """TTFT errors, absolute gap errors, send lags, the server's own lateness; milliseconds."""
    ttft, gaps, lags, late = [], [], [], []
    for row in rows:
        arrived, sent = sends[str(row["id"])]
        chunks = row["chunks"]
        assert isinstance(chunks, list) and isinstance(row["sent"], int) and isinstance(row["lag"], int)
        if len(chunks) != len(sent):
            raise RuntimeError(f"{row['id']}: {len(chunks)} content events of {len(sent)} sent")
        ttft.append(((chunks[0] - row["sent"]) - (sent[0] - arrived)) / 1e6)
        gaps += [abs((b - a) - (d - c)) / 1e6 for a, b, c, d in zip(chunks, chunks[1:], sent, sent[1:], strict=False)]
        lags.append(row["lag"] / 1e6)
        late.append((sent[0] - arrived) / 1e6 - FIRST_MS)
    return ttft, gaps, lags, late


def spread(values: list[float]) -> str:
    ordered = sorted(values)
    at = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99, 1)]
    return " / ".join(f"{value:.3f}" for value in at)


def measure(url: str, streams: int) -> list[dict[str, object]]:
    command = [sys.executable, __file__, "--client", str(streams), "--url", url]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, preexec_fn=pinned_to_client_core)
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def floor(server: NullServer, streams: int) -> list[dict[str, object]]:
    """The same of the bare client, which sends at once: its lag is nought."""
    script = known("loadgen/pyclient.py")
    if script is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seen.jsonl"
        numbers = [server.port, streams, REQUESTS.get(streams, streams * 4), TOKENS, 400]
        command = [sys.executable, str(script), *map(str, numbers), str(out)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, preexec_fn=pinned_to_client_core)
        rows = map(json.loads, out.read_text().splitlines())
        return [{"id": row["xrid"], "sent": row["start"], "lag": 0, "chunks": row["ev"]} for row in rows]


def line(streams: int, who: str, rows: Sequence[dict[str, object]], sends: Sends) -> str:
    ttft, gaps, lags, late = errors(rows, sends)
    return (
        f"{streams:>4} streams, {who} (ms, p50 / p99 / max): TTFT error {spread(ttft)}; gap error {spread(gaps)}; "
        f"send lag {spread(lags)}; server late {spread(late)}; target TTFT p99 < {TARGETS.get(streams, '-')}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, help="null server binary")
    parser.add_argument("--scripted", action="store_true", help="use the tests' server")
    parser.add_argument("--streams", default="16,128,512")
    parser.add_argument("--floor", action="store_true", help="beside it, the bare client")
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        print(json.dumps(client(options.url, options.client, REQUESTS.get(options.client, options.client * 4))))
        return 0
    null = None if options.scripted else NullServer.find(options.server)
    for streams in map(int, options.streams.split(",")):
        if null is not None:
            with null as server:
                server.configure(FIRST_MS * 1000, GAP_MS * 1000, log=True)
                print(line(streams, "ridgeline", measure(server.url, streams), server.sends()))
                if options.floor:
                    server.configure(FIRST_MS * 1000, GAP_MS * 1000, log=True)
                    if rows := floor(server, streams):
                        print(line(streams, "bare uvloop + httptools", rows, server.sends()))
        else:
            with Scripted(FIRST_MS, GAP_MS, TOKENS) as scripted:
                rows = measure(scripted.url, streams)
            print(line(streams, "ridgeline", rows, scripted.sends()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
