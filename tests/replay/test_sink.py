from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

import pytest

from ridgeline.core.record import Record, Row, to_row
from ridgeline.replay.sink import BackgroundSink


def row(number: int) -> Row:
    return to_row(
        Record(request_id=number, phase="profiling", lane=0, tree=0, session_id="s", conversation_id="s", turn_index=0)
    )


def test_all_records_are_written_in_order_and_elsewhere() -> None:
    seen: list[int] = []
    threads: set[int] = set()
    before = sys.getswitchinterval()

    def write(batch: Sequence[Row]) -> None:
        seen.extend(each[0] for each in batch)
        threads.add(threading.get_ident())

    with BackgroundSink(write) as sink:
        for number in range(0, 500, 5):
            sink.take([row(n) for n in range(number, number + 5)])
    assert seen == list(range(500)) and threading.get_ident() not in threads
    assert sys.getswitchinterval() == before


def test_it_flushes_every_while_in_its_own_thread() -> None:
    done: list[str] = []
    threads: set[int] = set()
    flushed = threading.Event()

    def flush() -> None:
        done.append("flush")
        threads.add(threading.get_ident())
        flushed.set()

    with BackgroundSink(lambda batch: done.append("write"), flush, keep_s=0.0) as sink:
        sink.take([row(0)])
        assert flushed.wait(10)
    assert done[:2] == ["write", "flush"] and threading.get_ident() not in threads
    with BackgroundSink(lambda batch: done.append("again"), flush, keep_s=3600.0) as sink:
        sink.take([row(0)])
    assert done[-1] == "again", "the end of the block is the writer's business"


def test_a_full_disk_comes_back_to_the_replay() -> None:
    def full(batch: Sequence[Row]) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), BackgroundSink(full) as sink:
        sink.take([row(0)])
    with pytest.raises(OSError, match="No space"), BackgroundSink(full) as sink:
        sink.take([row(0)])
        while sink.error is None:
            threading.Event().wait(0.01)
        sink.take([row(1)])
        pytest.fail("the second record was taken")
