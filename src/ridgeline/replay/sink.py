"""Records leave for the disk while a replay runs, without the measuring loop waiting for the disk.

Encoding a batch and the disk's own flush take milliseconds, which on the loop would be late stamps. A thread does both;
while it lives the interpreter switches threads every half millisecond instead of five, so that the loop never waits
longer than that for it.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from ridgeline.core.record import Row

_SWITCH_S = 0.0005
_PAUSE_S = 0.2  # between batches


class BackgroundSink:
    """`with BackgroundSink(write) as sink`: `sink.take` is an `on_rows`; `write` gets batches in a thread of its own.

    What `write` raises comes out of the next `take`, or of the end of the block. Every row taken before the end is
    written before the block is left.
    """

    def __init__(self, write: Callable[[Sequence[Row]], None]) -> None:
        self._write = write
        self._queue: queue.SimpleQueue[Sequence[Row]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self.error: BaseException | None = None  # what `write` raised
        self._thread = threading.Thread(target=self._run, name="records", daemon=True)
        self._interval = sys.getswitchinterval()

    def take(self, rows: Sequence[Row]) -> None:
        """Queue rows to be written. The caller must not change the sequence afterwards."""
        if self.error is not None:
            raise self.error
        self._queue.put(rows)

    def __enter__(self) -> BackgroundSink:
        sys.setswitchinterval(_SWITCH_S)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        sys.setswitchinterval(self._interval)
        if self.error is not None and error is None:
            raise self.error

    def _run(self) -> None:
        try:
            last = False
            while not last:
                last = self._ended.wait(_PAUSE_S)
                batch: list[Row] = []
                while not self._queue.empty():
                    batch.extend(self._queue.get())
                if batch:
                    self._write(batch)
        except BaseException as error:  # carried to the thread that measures, which raises it
            self.error = error
