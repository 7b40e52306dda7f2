"""What would make a client's stamps late, each by itself: how long it holds the loop.

    python bench/stalls.py

- one more connection when the kernel doubles a process's table of descriptors, in a process with a second thread
- the garbage collector's look at its youngest objects, when they are finished rows: 10,000 and 1,000 of them, with
  arrivals as a tuple and packed
- the first Arrow table of rows, and the next one
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import threading
import time

ARRIVALS = 64


def descriptors() -> list[tuple[int, float]]:
    """(table size that was left, ms) of the slowest `dup` around each doubling."""
    wait = threading.Event()
    thread = threading.Thread(target=wait.wait, daemon=True)
    thread.start()
    took: dict[int, float] = {}
    held = []
    try:
        while not held or held[-1] < 600:
            began = time.perf_counter()
            held.append(os.dup(0))
            took[held[-1]] = (time.perf_counter() - began) * 1e3
    finally:
        for each in held:
            os.close(each)
        wait.set()
    return [(size, took[size]) for size in (64, 128, 256, 512) if size in took]


def collection(count: int, packed: bool) -> float:
    """ms, the median of five."""
    from ridgeline.core.record import packed as pack

    gc.disable()
    found = []
    for _ in range(5):
        gc.collect()
        gc.freeze()
        stamps = [list(range(k << 32, (k << 32) + ARRIVALS)) for k in range(count)]
        gc.freeze()
        rows = [(k, {}, pack(each) if packed else tuple(each)) for k, each in enumerate(stamps)]
        began = time.perf_counter()
        gc.collect(0)
        found.append((time.perf_counter() - began) * 1e3)
        del rows
        gc.unfreeze()
    gc.enable()
    return statistics.median(found)


def tables() -> tuple[float, float]:
    """ms of the first table that a process makes of rows, and of the second."""
    from ridgeline.core.record import Record
    from ridgeline.results.records import to_table

    row = Record(request_id=0, phase="", lane=0, tree=0, session_id="", conversation_id="", turn_index=0, chunk_ns=(1,))
    took = []
    for _ in range(2):
        began = time.perf_counter()
        to_table([row] * 250)
        took.append((time.perf_counter() - began) * 1e3)
    return took[0], took[1]


def main() -> int:
    if sys.argv[1:] == ["--tables"]:
        print("{:.1f} {:.1f}".format(*tables()))
        return 0
    for size, ms in descriptors():
        print(f"descriptor {size}: {ms:.2f} ms")
    for count in (10_000, 1_000):
        for packed in (False, True):
            kind = "packed" if packed else "a tuple"
            print(f"collector, {count} rows, arrivals {kind}: {collection(count, packed):.2f} ms")
    first, second = subprocess.check_output([sys.executable, __file__, "--tables"], text=True).split()
    print(f"Arrow: first table {first} ms, the next {second} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
