"""What would stop the loop for milliseconds, and so make stamps late: slices, the collector, the kernel's table."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop
from hand_load import Prompts

from ridgeline.core.clock import ScaledClock
from ridgeline.core.record import Row
from ridgeline.replay import exchanges
from ridgeline.replay.collector import quiet_collector
from ridgeline.replay.connection import Exchange
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.exchanges import Exchanges

US = 1_000


class Deaf:
    """A listener that wants nothing."""

    def sent(self, send_id: int, at_ns: int) -> None: ...

    def ended(self, row: Row, unsent: bool) -> None: ...

    def turn(self) -> None: ...

    def broke(self, error: Exception) -> None:
        raise error


def reads_in_one_slice(monkeypatch: pytest.MonkeyPatch, streaming: bool, each_us: int) -> int:
    """Of a thousand answers to read, each taking `each_us`: how many before the sockets are polled again."""
    clock, done = iter(range(0, 10**12, 1)), 0
    at = 0

    def read(exchange: Exchange) -> None:
        nonlocal at, done
        at += each_us * US
        done += 1

    async def main() -> int:
        nonlocal done
        under_test = Exchanges(Prompts(), Endpoint(url="http://127.0.0.1:9"), ScaledClock.start(), "p", Deaf())
        waiting = Exchange(under_test)
        waiting.reads.append(b"data: ")  # in the middle of its answer
        under_test._under_way = {0: waiting} if streaming else {}
        under_test.pump()
        under_test._work()  # what was gathered is read: from now on only the sockets' answers
        done = 0
        for _ in range(1000):
            under_test.on_ready(Exchange(under_test))
        under_test._work()
        return done

    monkeypatch.setattr(exchanges, "now", lambda: at + next(clock))
    monkeypatch.setattr(exchanges, "_read", read)
    return uvloop.run(main())


def test_while_answers_stream_a_slice_is_a_quarter_of_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reads_in_one_slice(monkeypatch, streaming=True, each_us=20) == 16  # 250 us, looked at every fourth
    assert reads_in_one_slice(monkeypatch, streaming=True, each_us=1000) == 4  # a few, whatever the clock says


def test_where_every_answer_comes_in_one_read_a_slice_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reads_in_one_slice(monkeypatch, streaming=False, each_us=20) == 152  # 3 ms


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """The generations that the collector looks at."""
    seen: list[int] = []

    def count(phase: str, about: dict[str, int]) -> None:
        if phase == "start" and threading.current_thread() is threading.main_thread():
            seen.append(about["generation"])

    gc.callbacks.append(count)
    yield seen
    gc.callbacks.remove(count)


def test_the_collector_looks_at_little_and_never_at_what_is_old(looks: list[int]) -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.unfreeze()
    with quiet_collector():
        assert gc.get_freeze_count() > 0
        looks.clear()
        kept: list[list[int]] = [[number] for number in range(30_000)]
        assert set(looks) == {0} and len(looks) >= 25, "a thousand at a time, the young alone"
    after = gc.get_threshold(), gc.get_freeze_count(), len(kept)
    if frozen:
        gc.freeze()  # as the suite has it
    assert after == (before, 0, 30_000)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the size of the table is read from /proc")
def test_the_table_of_descriptors_is_large_before_the_first_connection() -> None:
    code = (
        "import os, asyncio\n"
        "from ridgeline.replay.http import Client\n"
        "from ridgeline.replay.endpoint import Endpoint\n"
        "async def main():\n"
        "    client = Client(Endpoint(url='http://127.0.0.1:9'), '/')\n"
        "    before = len(os.listdir('/proc/self/fd'))\n"
        "    await client.open()\n"
        "    assert len(os.listdir('/proc/self/fd')) == before\n"
        "    print(open('/proc/self/status').read())\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(re.findall(r"FDSize:\s*(\d+)", done.stdout)[0]) >= 1024
