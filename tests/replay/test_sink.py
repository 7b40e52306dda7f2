from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

import pytest

from ridgeline.core.record import Record
from ridgeline.replay.sink import BackgroundSink


def record(number: int) -> Record:
    return Record(
        request_id=number, phase="profiling", lane=0, tree=0, session_id="s", conversation_id="s", turn_index=0
    )


def test_all_records_are_written_in_order_and_elsewhere() -> None:
    seen: list[int] = []
    threads: set[int] = set()
    before = sys.getswitchinterval()

    def write(batch: Sequence[Record]) -> None:
        seen.extend(each.request_id for each in batch)
        threads.add(threading.get_ident())

    with BackgroundSink(write) as sink:
        for number in range(500):
            sink.take(record(number))
    assert seen == list(range(500)) and threading.get_ident() not in threads
    assert sys.getswitchinterval() == before


def test_a_full_disk_comes_back_to_the_replay() -> None:
    def full(batch: Sequence[Record]) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), BackgroundSink(full) as sink:
        sink.take(record(0))
    with pytest.raises(OSError, match="No space"), BackgroundSink(full) as sink:
        sink.take(record(0))
        while sink.error is None:
            threading.Event().wait(0.01)
        sink.take(record(1))
        pytest.fail("the second record was taken")
