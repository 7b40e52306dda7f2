"""Do our numbers agree with the peers'? One server, one workload, medians side by side.

    python bench/peers.py --peer agentx=FOLDER/bin/aiperf --peer aiperf-0.13=FOLDER/bin/aiperf [--server PATH]

A closed loop of streams: the first token after 2 s, then one each 50 ms, 64 tokens, 2 at a time. The server is so slow
that a client's own lag should be well below one percent of what is measured; a difference above that is one of
definition or of stamps, and has to be explained. Each peer runs from an environment of its own, which the user installs
(PyPI: `agentx-harness`, AIPerf's fork that InferenceX runs, and `aiperf`); without its program nothing is measured.
Statistics are taken from `profile_export_aiperf.json`, which all three write.

The second table explains what is left: request by request the client's stamps against those of the server's log, on
the same clock. A TTFT is the server's own time, plus what the client waited after its start stamp until the server saw
the first byte, plus what it waited after the server sent the first token until it stamped it. Rates of a closed loop
part by how long a stream rests between an answer and the next request (the end of the phase counts, too).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from parts.nullserver import NullServer

TOKENS = 64
AGREE = 0.01  # relative difference of medians
COMPARED = (
    ("time_to_first_token", ["avg", "p50", "p90"]),
    ("inter_token_latency", ["avg", "p50", "p90"]),
    ("request_latency", ["avg", "p50", "p90"]),
    ("output_sequence_length", ["p50"]),
    ("output_token_throughput_per_user", ["p50"]),
    ("request_throughput", ["avg"]),
    ("output_token_throughput", ["avg"]),
)
# A tokenizer of single bytes, made with the peer's own library: it wants one, although the server counts.
TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
made = Tokenizer(models.BPE(vocab={letter: k for k, letter in enumerate(letters)}, merges=[]))
made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
from transformers import PreTrainedTokenizerFast
PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(sys.argv[1])
"""

Document = dict[str, dict[str, float]]


class Load(NamedTuple):
    """What is sent, and how slow the server is."""

    streams: int
    requests: int
    first_ms: int
    gap_ms: int


class Outcome(NamedTuple):
    """What a client reports: its summary, and its rows."""

    summary: Document
    rows: list[dict[str, Any]]


def outcome(folder: Path) -> Outcome:
    """The exports in a client's folder."""
    summary = json.loads(next(folder.rglob("profile_export_aiperf.json")).read_text())
    lines = next(folder.rglob("profile_export.jsonl")).read_text().splitlines()
    return Outcome(summary, [row for row in map(json.loads, lines) if row["metrics"]])


def ours(server: NullServer, folder: Path, load: Load) -> Outcome:
    """Our client, through its command."""
    out = folder / "ridgeline"
    sizes = ["--isl", 64, "--osl", TOKENS, "--concurrency", load.streams, "--requests", load.requests]
    command = [Path(sys.executable).parent / "ridgeline", "replay", "--url", server.url, "--model", "null", *sizes]
    subprocess.run(
        list(map(str, [*command, "--warmup", "0", "--out", out])),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return outcome(out)


def peer(program: Path, server: NullServer, folder: Path, load: Load) -> Outcome:
    """AIPerf, or its fork, with single turns from a file."""
    out = folder / f"peer-{len(list(folder.iterdir()))}"
    texts = folder / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"{k:03d} " + "the " * 60}) + "\n" for k in range(load.requests)))
    tokenizer = folder / "tokenizer"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([str(program.parent / "python"), "-c", TOKENIZER, str(tokenizer)], **quiet)
    sizes = ["--concurrency", load.streams, "--request-count", load.requests, "--osl", TOKENS, "--input-file", texts]
    still = ["--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--output-artifact-dir", out]
    what = ["--model", "null", "--url", server.url, "--endpoint-type", "chat", "--streaming", "--tokenizer", tokenizer]
    command = [program, "profile", *what, *sizes, "--custom-dataset-type", "single_turn", "--use-server-token-count"]
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    subprocess.run(list(map(str, [*command, *still])), env=environment, **quiet)
    return outcome(out)


class Lag(NamedTuple):
    """Milliseconds, one request."""

    server_ttft: float  # first byte seen until first token sent
    start: float  # client's start stamp until the server saw the first byte
    first: float  # first token sent until the client's stamp of it
    last: float


def lags(server: NullServer, found: Outcome) -> list[Lag]:
    """What the client's stamps are late by, for every request that the server's log has."""
    log, made = server.sends(), []
    offset = time.time_ns() - time.monotonic_ns()
    for row in found.rows:
        about, values = row["metadata"], row["metrics"]
        arrived, sends = log.get(about["x_request_id"], (0, []))
        if len(sends) != TOKENS:
            continue
        start = about["request_start_ns"] - offset
        first = start + values["time_to_first_token"]["value"] * 1e6
        last = start + values["request_latency"]["value"] * 1e6
        stamps = (sends[0] - arrived, arrived - start, first - sends[0], last - sends[-1])
        made.append(Lag(*(ns / 1e6 for ns in stamps)))
    return made


def explain(found: dict[str, list[Lag]], load: Load) -> None:
    """The second table."""
    print(f"\n{'medians, ms (p90)':<44}" + "".join(f"{name:>18}" for name in found))
    names = {
        "server_ttft": "server: first byte to first token",
        "start": "+ start stamp to first byte at the server",
        "first": "+ first token sent to first token stamped",
        "last": "last token sent to last token stamped",
    }
    for part, text in names.items():
        cells = []
        for rows in found.values():
            values = sorted(getattr(row, part) for row in rows)
            high = values[int(0.9 * (len(values) - 1))] if values else math.nan
            cells.append(f"{statistics.median(values):.2f} ({high:.2f})".rjust(18) if values else "-".rjust(18))
        print(text.ljust(44) + "".join(cells))
    span = load.gap_ms * (TOKENS - 1)
    for name, rows in found.items():
        if rows:
            ttft = 100 * statistics.median(row.start + row.first for row in rows) / load.first_ms
            itl = 100 * statistics.median(row.last - row.first for row in rows) / span
            print(f"{name}: its own lag moves TTFT by {ttft:+.2f} % and ITL by {itl:+.2f} % ({len(rows)} requests)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--first-ms", type=int, default=2000)
    parser.add_argument("--gap-ms", type=int, default=50)
    options = parser.parse_args()
    peers = {name: Path(path).absolute() for name, _, path in (text.partition("=") for text in options.peer)}
    if absent := [name for name, program in peers.items() if not program.exists()] or (not peers and ["any peer"]):
        print(f"skipped: {', '.join(absent)} (see --help for how to give one)")
        return 0
    server = NullServer.find(options.server)
    if server is None:
        return 0
    load = Load(options.streams, options.requests, options.first_ms, options.gap_ms)
    found: dict[str, Outcome] = {}
    late: dict[str, list[Lag]] = {}
    with tempfile.TemporaryDirectory() as text, server:
        folder = Path(text)
        for name in ("ridgeline", *peers):
            server.configure(load.first_ms * 1000, load.gap_ms * 1000, log=True)
            run = ours if name == "ridgeline" else partial(peer, peers[name])
            found[name] = run(server, folder, load)
            late[name] = lags(server, found[name])
    print(
        f"{load.streams} streams, first token after {load.first_ms} ms, then one each {load.gap_ms} ms, {TOKENS} tokens"
    )
    print(f"{'':<44}" + "".join(f"{name:>18}" for name in found))
    differing = 0
    for tag, parts in COMPARED:
        for part in parts:
            values = [one.summary.get(tag, {}).get(part) for one in found.values()]
            base = values[0]
            cells = []
            for value in values:
                apart = value is not None and base is not None and abs(value - base) > AGREE * abs(base)
                differing += apart
                cells.append(f"{'-' if value is None else f'{value:,.3f}'}{' *' if apart else '  '}".rjust(18))
            print(f"{tag} {part}".ljust(44) + "".join(cells))
    print(f"* differs from ours by more than {AGREE:.0%}" if differing else f"all within {AGREE:.0%}")
    explain(late, load)
    for name, one in found.items():
        each, whole = one.summary["request_latency"]["avg"], one.summary["request_throughput"]["avg"]
        gap = 1000 * load.streams / whole - each
        print(f"{name}: a stream rests {gap:.1f} ms ({100 * gap / each:.2f} %) between an answer and the next request")
    return 0


if __name__ == "__main__":
    sys.exit(main())
