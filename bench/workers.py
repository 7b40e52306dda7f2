"""What more processes bring: `--workers` from one to N on a server that does nothing, and whether records are right.

    python bench/workers.py [--server PATH] [--counts 1,2,4] [--only a,b] [--repeat N]

a: one-token answers, 64 streams. b: 256-token streams, 64. Wall times need as many free cores as there are processes.
Where there are fewer, the figure to read is what the busiest process could do with a core of its own: requests (or
token events) over its CPU seconds. Checked for every count: each request of the server's log is recorded once, in the
order of sending, with every one of its events; and no first token is stamped before the server sent it, or (at the
99th percentile, b paced, 32 streams) more than a few milliseconds after: all processes read one clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from parts.nullserver import NullServer


class Load(NamedTuple):
    streams: int
    requests: int
    tokens: int
    first_us: int = 0
    gap_us: int = 0


LOADS = {"a": Load(64, 20_000, 1), "b": Load(64, 2_000, 256), "paced": Load(32, 128, 64, 50_000, 10_000)}


def client(url: str, load: Load, workers: int, rows_to: str) -> dict[str, float]:
    """The measured processes: one replay."""
    from contextlib import ExitStack

    from parts.closed import Bodies, closed_loop

    from ridgeline.core.record import FIELDS
    from ridgeline.replay.driver import run_replay
    from ridgeline.replay.endpoint import Endpoint
    from ridgeline.replay.workers import WorkerPool

    prompts, pacer = Bodies(400), closed_loop(load.streams, load.requests, load.tokens)
    endpoint = Endpoint(url=url)
    began, cpu = time.monotonic(), time.process_time()
    with ExitStack() as stack:
        pool = None if workers == 1 else stack.enter_context(WorkerPool(workers, pacer._sessions, prompts, endpoint))
        result = run_replay(pacer, prompts, endpoint, workers=pool)
        wall, driver = time.monotonic() - began, time.process_time() - cpu
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    fields = ("request_id", "sent_ns", "first_token_ns", "chunk_ns")
    assert set(fields) <= set(FIELDS)
    prefix, zero = result.settings["request_id_prefix"], result.settings["origin_unix_ns"]
    with Path(rows_to).open("w") as out:
        json.dump(
            [(f"{prefix}{r.request_id:012x}", zero + r.sent_ns, zero + r.first_token_ns, len(r.chunk_ns))
             for r in result.records if r.sent_ns is not None and r.first_token_ns is not None], out
        )  # fmt: skip
    ids = [record.request_id for record in result.records]
    if ids != list(range(load.requests)):
        raise RuntimeError("the records are not one a request, in the order of sending")
    shares = result.health["cpu_share"]
    return {
        "wall_s": wall,
        "driver_cpu_s": driver,
        "workers_cpu_s": 0.0 if workers == 1 else children.ru_utime + children.ru_stime,
        "busiest_cpu_s": max(driver, shares * wall),
        "lag_p99_ms": result.health["send_lag_p99_s"] * 1e3,
    }


def run(server: NullServer, name: str, workers: int, checked: bool) -> dict[str, float]:
    load = LOADS[name]
    server.configure(load.first_us, load.gap_us, log=checked)
    rows_to = server.log.with_name("rows.json")
    command = [sys.executable, __file__, "--client", name, "--workers", str(workers), "--url", server.url]
    done = subprocess.run([*command, "--rows", str(rows_to)], stdout=subprocess.PIPE, check=True)
    seen: dict[str, float] = json.loads(done.stdout)
    stats = json.loads(server.ask("/_stats"))
    if stats["done"] != load.requests or stats["events"] < load.requests * load.tokens:
        raise RuntimeError(f"the server answered {stats['done']} of {load.requests} requests")
    if not checked:
        return seen
    log, rows = server.sends(), json.loads(rows_to.read_text())
    offset = time.time_ns() - time.monotonic_ns()
    if {row[0] for row in rows} != set(log) or any(row[3] != len(log[row[0]][1]) for row in rows):
        raise RuntimeError("records and the server's log differ")
    late = sorted((first - offset - log[name][1][0]) / 1e6 for name, _, first, _ in rows)
    return seen | {"first_token_late_p99_ms": late[int(0.99 * (len(late) - 1))], "least_late_ms": late[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--counts", default="1,2,4")
    parser.add_argument("--only", default=",".join(LOADS))
    parser.add_argument("--repeat", type=int, default=1)
    for hidden in ("--client", "--url", "--rows"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        print(json.dumps(client(options.url, LOADS[options.client], options.workers, options.rows)))
        return 0
    server = NullServer.find(options.server)
    if server is None:
        return 0
    print(f"{os.cpu_count()} cores")
    with server:
        for name in options.only.split(","):
            load, base = LOADS[name], 0.0
            for workers in map(int, options.counts.split(",")):
                runs = [run(server, name, workers, name == "paced") for _ in range(options.repeat)]
                seen = {key: statistics.median(each[key] for each in runs) for key in runs[0]}
                unit, count = ("req", load.requests) if load.tokens == 1 else ("ev", load.requests * load.tokens)
                could = count / seen["busiest_cpu_s"]
                base = base or could
                print(
                    f"{name}, {workers} worker{'s' if workers > 1 else ''}: {count / seen['wall_s']:,.0f} {unit}/s, "
                    f"busiest process {could:,.0f} {unit}/s a core ({could / base:.2f} x), CPU-s driver "
                    f"{seen['driver_cpu_s']:.2f}, workers {seen['workers_cpu_s']:.2f}; send lag p99 "
                    f"{seen['lag_p99_ms']:.2f} ms"
                    + "".join(
                        f"; {key} {seen[key]:.2f}" for key in seen if key.endswith("late_p99_ms") or "least" in key
                    )
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
