"""Do our numbers agree with the peers'? One server, one workload, medians side by side.

    python bench/peers.py --peer agentx=FOLDER/bin/aiperf --peer aiperf-0.13=FOLDER/bin/aiperf [--server PATH]

A closed loop of streams: the first token after 500 ms, then one each 20 ms, 64 tokens, 8 at a time. The server is so
slow that a client's own lag is well below one percent of what is measured; a difference above that is one of definition
or of stamps, and has to be explained. Each peer runs from an environment of its own, which the user installs (PyPI:
`agentx-harness`, AIPerf's fork that InferenceX runs, and `aiperf`); without its program nothing is measured. Medians
are taken from `profile_export_aiperf.json`, which all three write; beside them stands the truth of the server's log.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from parts.nullserver import NullServer

STREAMS, REQUESTS, TOKENS, FIRST_MS, GAP_MS = 8, 96, 64, 500, 20
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


def ours(server: NullServer, folder: Path) -> Document:
    """Our client, through its command."""
    out = folder / "ridgeline"
    load = ["--isl", "64", "--osl", str(TOKENS), "--concurrency", str(STREAMS), "--requests", str(REQUESTS)]
    command = [str(Path(sys.executable).parent / "ridgeline"), "replay", "--url", server.url, "--model", "nullm", *load]
    subprocess.run([*command, "--warmup", "0", "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    document: Document = json.loads((out / "profile_export_aiperf.json").read_text())
    return document


def peer(program: Path, server: NullServer, folder: Path) -> Document:
    """AIPerf, or its fork, with single turns from a file."""
    out = folder / f"peer-{len(list(folder.iterdir()))}"
    texts = folder / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"{k:03d} " + "the " * 60}) + "\n" for k in range(REQUESTS)))
    tokenizer = folder / "tokenizer"
    subprocess.run([str(program.parent / "python"), "-c", TOKENIZER, str(tokenizer)], check=True)
    load = ["--concurrency", STREAMS, "--request-count", REQUESTS, "--osl", TOKENS, "--input-file", texts]
    quiet = ["--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--output-artifact-dir", out]
    what = ["--model", "nullm", "--url", server.url, "--endpoint-type", "chat", "--streaming", "--tokenizer", tokenizer]
    command = [program, "profile", *what, *load, "--custom-dataset-type", "single_turn", "--use-server-token-count"]
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    subprocess.run(list(map(str, [*command, *quiet])), check=True, stdout=subprocess.DEVNULL, env=environment)
    document: Document = json.loads(next(out.rglob("profile_export_aiperf.json")).read_text())
    return document


def truth(server: NullServer) -> str:
    """What the server did in the run before: medians of its own log."""
    rows = [row for row in server.sends().values() if len(row[1]) == TOKENS]
    first = statistics.median((sends[0] - arrived) / 1e6 for arrived, sends in rows)
    gap = statistics.median((sends[-1] - sends[0]) / (TOKENS - 1) / 1e6 for _, sends in rows)
    return f"{len(rows)} requests, first token {first:.2f} ms after the request, then one each {gap:.3f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PROGRAM")
    options = parser.parse_args()
    peers = {name: Path(path).absolute() for name, _, path in (text.partition("=") for text in options.peer)}
    if absent := [name for name, program in peers.items() if not program.exists()] or (not peers and ["any peer"]):
        print(f"skipped: {', '.join(absent)} (see --help for how to give one)")
        return 0
    server = NullServer.find(options.server)
    if server is None:
        return 0
    found: dict[str, Document] = {}
    with tempfile.TemporaryDirectory() as text, server:
        folder = Path(text)
        for name in ("ridgeline", *peers):
            server.configure(FIRST_MS * 1000, GAP_MS * 1000, log=True)
            found[name] = ours(server, folder) if name == "ridgeline" else peer(peers[name], server, folder)
            print(f"{name}: the server's log has {truth(server)}")
    print(f"{'':<44}" + "".join(f"{name:>16}" for name in found))
    differing = 0
    for tag, parts in COMPARED:
        for part in parts:
            values = [document.get(tag, {}).get(part) for document in found.values()]
            base = values[0]
            cells = []
            for value in values:
                apart = value is not None and base is not None and abs(value - base) > AGREE * abs(base)
                differing += apart
                cells.append(f"{'-' if value is None else f'{value:,.3f}'}{' *' if apart else '  '}".rjust(16))
            print(f"{tag} {part}".ljust(44) + "".join(cells))
    print(f"* differs from ours by more than {AGREE:.0%}" if differing else f"all within {AGREE:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
