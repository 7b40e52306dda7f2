"""Is the client's memory bounded and flat over a long replay?

    python bench/longrun.py [--hours 2] [--lanes 256] [--speed 20] [--trace PATH] [--max-context 32000] [--sessions 400]

A replay of agentic sessions against the emulated engine, both under the same speed; its metrics page is scraped. The
client's resident memory is sampled twice a second. There are more sessions than lanes, as in a real pool: the client
keeps the texts of those that lanes are on. (Where every session is always on some lane, memory grows until each of its
turns has been sent once, up to 256 MB.) Bounded: the peak stays under `--most` MB. Flat: from the third quarter of the
measured window to the last it grows by less than 5 % of the peak. Exit 1 when either does not hold.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

PROGRAM = str(Path(sys.executable).parent / "ridgeline")
FLAT = 0.05


def emulator(folder: Path, speed: float) -> tuple[subprocess.Popen[bytes], str]:
    port_file = folder / "port"
    command = [PROGRAM, "emulate", "--model", "qwen3-0.6b", "--gpu", "h200", "--served-model-name", "m", "--port", "0"]
    command += ["--kv-tokens", "8000000"]  # all lanes fit: a queue at the server would only thin the load
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([*command, "--port-file", str(port_file), "--speed", str(speed)], stderr=log)
    deadline = time.monotonic() + 120
    while not port_file.exists() or not port_file.read_text():
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((folder / "server.log").read_text()[-2000:])
        time.sleep(0.1)
    return server, f"http://127.0.0.1:{int(port_file.read_text())}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--lanes", type=int, default=256)
    parser.add_argument("--speed", type=float, default=20.0)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--max-context", type=int, default=32_000)
    parser.add_argument("--sessions", type=int, default=400)
    parser.add_argument("--most", type=float, default=700.0, help="MB")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        trace = given.trace or folder / "trace.jsonl.gz"
        if given.trace is None:
            synth = [PROGRAM, "trace", "synth", "-o", str(trace), "--sessions", str(given.sessions)]
            subprocess.run([*synth, "--max-context", str(given.max_context)], check=True, stderr=subprocess.DEVNULL)
        server, url = emulator(folder, given.speed)
        try:
            load = ["--concurrency", str(given.lanes), "--duration", str(given.hours * 3600), "--warmup", "1"]
            out = ["--out", str(folder / "out"), "--export", "none", "--max-context", str(given.max_context)]
            command = [PROGRAM, "replay", "--url", url, "--trace", str(trace), "--speed", str(given.speed)]
            command += ["--metrics-url", f"{url}/metrics"]
            with (folder / "replay.log").open("wb") as log:
                client = subprocess.Popen([*command, *load, *out], stdout=log, stderr=log)
            seen: list[tuple[float, float]] = []
            process = psutil.Process(client.pid)
            profiling = 0.0
            while client.poll() is None:
                profiling = profiling or (
                    time.monotonic() if b"profiling" in (folder / "replay.log").read_bytes() else 0
                )
                seen.append((time.monotonic(), process.memory_info().rss / 1e6))
                time.sleep(0.5)
        finally:
            server.terminate()
            server.wait(30)
        told = (folder / "replay.log").read_text()
    if client.returncode != 0 or not profiling:
        print(told[-3000:])
        return 1
    ends = profiling + given.hours * 3600 / given.speed
    window = [mb for at, mb in seen if profiling <= at <= ends]
    quarters = [
        statistics.median(part)
        for part in (window[k * len(window) // 4 : (k + 1) * len(window) // 4] for k in range(4))
    ]
    peak, grown = max(window), quarters[3] - quarters[2]
    print(told[told.rindex("TTFT p50") :] if "TTFT p50" in told else told[-2000:])
    print(
        f"{given.hours:g} h at {given.lanes} lanes, speed {given.speed:g}: client's memory by quarter of the window "
        f"{', '.join(f'{mb:.0f}' for mb in quarters)} MB, peak {peak:.0f} MB (at most {given.most:g}), "
        f"last quarter against the third {grown:+.1f} MB"
    )
    return 0 if peak < given.most and grown < FLAT * peak else 1


if __name__ == "__main__":
    sys.exit(main())
