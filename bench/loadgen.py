"""What the replay client costs: rates, CPU and memory on a server that does nothing.

    python bench/loadgen.py [--server PATH] [--only a,b,d16,d128,d512,f] [--repeat N] [--floors]

a: one-token answers, 64 streams. b: 256-token streams, 64. dN: first token after 50 ms, then one each 10 ms, 64
tokens, N streams. f: 400 kB bodies of 40 fragments, one token, 16 streams. The client runs on one core and keeps and
writes whole records; its CPU is that of load and finish together. Server on the other core, loopback, medians of
`--repeat`. `--floors` runs the bare protocol client that lies beside the server's source in turn with it, with one JSON
parse an event where orjson is installed, and gives the ratios: a machine's own speed differs by two times from one
quarter of an hour to the next, and they do not.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from parts.nullserver import NullServer, known, pinned_to_client_core


class Load(NamedTuple):
    concurrency: int
    requests: int
    tokens: int
    body: int
    first_us: int = 0
    gap_us: int = 0
    target: str = ""


LOADS = {
    "a": Load(64, 40_000, 1, 400, target="20,000 req/s, 0.05 CPU-s per 1,000, 150 MB"),
    "b": Load(64, 3_000, 256, 400, target="200,000 events/s"),
    "d16": Load(16, 96, 64, 400, 50_000, 10_000),
    "d128": Load(128, 512, 64, 400, 50_000, 10_000, target="3 CPU-s per 100k events"),
    "d512": Load(512, 1_536, 64, 400, 50_000, 10_000),
    "f": Load(16, 8_000, 1, 400_000, target="5,000 req/s"),
}


def client(url: str, load: Load) -> dict[str, float]:
    """The measured process: one replay, its records written."""
    started = time.process_time()
    from parts.closed import Bodies, closed_loop

    from ridgeline.replay.driver import ReplaySettings, run_replay
    from ridgeline.replay.endpoint import Endpoint
    from ridgeline.replay.sink import BackgroundSink
    from ridgeline.results.records import RecordWriter, replay_metadata

    prompts, pacer = Bodies(load.body), closed_loop(load.concurrency, load.requests, load.tokens)
    with tempfile.TemporaryDirectory() as folder:
        ready_cpu, ready = time.process_time(), time.monotonic()
        with RecordWriter(Path(folder) / "records.parquet") as writer:
            with BackgroundSink(writer.write_rows) as sink:
                result = run_replay(
                    pacer,
                    prompts,
                    Endpoint(url=url),
                    on_rows=sink.take,
                    settings=ReplaySettings(keep_records=False),
                )
            loaded_cpu, loaded = time.process_time(), time.monotonic()
            writer.finish(replay_metadata(result))
    cpu = time.process_time() - ready_cpu
    return {
        "start_cpu_s": ready_cpu - started,
        "wall_s": loaded - ready,
        "finish_s": time.monotonic() - loaded,
        "finish_cpu_s": time.process_time() - loaded_cpu,
        "cpu_s": cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "lag_p99_ms": result.health["send_lag_p99_s"] * 1e3,
        "loop_lag_p99_ms": result.health.get("loop_lag_p99_s", float("nan")) * 1e3,
    }


def run(server: NullServer, name: str, load: Load) -> dict[str, float]:
    server.configure(load.first_us, load.gap_us)
    command = [sys.executable, __file__, "--client", name, "--url", server.url]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, preexec_fn=pinned_to_client_core)
    seen: dict[str, float] = json.loads(done.stdout)
    stats = json.loads(server.ask("/_stats"))
    if stats["done"] != load.requests:
        raise RuntimeError(f"the server answered {stats['done']} of {load.requests} requests")
    return seen | {"events": stats["events"]}


def floor(server: NullServer, load: Load) -> dict[str, float] | None:
    script = known("loadgen/pyclient.py")
    if script is None:
        return None
    server.configure(load.first_us, load.gap_us)
    numbers = [server.port, load.concurrency, load.requests, load.tokens, load.body]
    command = [sys.executable, str(script), *map(str, numbers), *(["--json"] if find_spec("orjson") else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, preexec_fn=pinned_to_client_core)
    if done.returncode != 0:
        return None
    seen = json.loads(done.stdout)
    return {"wall_s": seen["wall"], "cpu_s": seen["cpu"], "events": seen["events"], "peak_mb": seen["rss_kb"] / 1024}


def medians(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(each[key] for each in runs) for key in runs[0]}


def row(label: str, load: Load, seen: dict[str, float]) -> str:
    requests, events = load.requests, seen["events"]
    return (
        f"{label:<28}{requests / seen['wall_s']:>10,.0f} req/s{seen['cpu_s'] / requests * 1e3:>8.3f} CPU-s/1k"
        f"{events / seen['wall_s']:>10,.0f} ev/s{seen['cpu_s'] / events * 1e5:>8.2f} CPU-s/100k"
        f"{seen['peak_mb']:>7.0f} MB"
        + "".join(f"  {key} {seen[key]:.3g}" for key in ("start_cpu_s", "finish_cpu_s", "lag_p99_ms") if key in seen)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--only", default=",".join(LOADS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--floors", action="store_true")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        print(json.dumps(client(options.url, LOADS[options.client])))
        return 0
    server = NullServer.find(options.server)
    if server is None:
        return 0
    with server:
        for name in options.only.split(","):
            load = LOADS[name]
            runs, bare = [], []
            for _ in range(options.repeat):
                runs.append(run(server, name, load))
                if options.floors and (one := floor(server, load)):
                    bare.append(one)
            seen = medians(runs)
            print(row(f"{name}: ridgeline", load, seen) + (f"   target: {load.target}" if load.target else ""))
            if bare:
                least = medians(bare)
                rate, cpu = least["wall_s"] / seen["wall_s"], seen["cpu_s"] / least["cpu_s"]
                print(row(f"{name}: bare client", load, least) + f"   rate {rate:.2f} of its, CPU {cpu:.1f} times its")
    return 0


if __name__ == "__main__":
    sys.exit(main())
