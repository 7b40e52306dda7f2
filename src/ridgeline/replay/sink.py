"""Records and scrapes leave for the disk while a replay runs, without the measuring loop waiting for the disk.

Encoding a batch and the disk's own flush take milliseconds, which on the loop would be late stamps. A thread does both;
while it lives the interpreter switches threads five thousand times a second instead of two hundred, so that the loop
waits for it only as long as one column's encoding takes.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from ridgeline.core.record import Row

_SWITCH_S = 0.0002
_PAUSE_S = 0.2  # between batches
KEEP_S = 5.0  # of a killed replay no more than this is lost, however slowly its records come


class BackgroundSink:
    """`with BackgroundSink(write) as sink`: `sink.take` is an `on_rows`; `write` gets batches in a thread of its own.

    `flush` is called in the same thread, every `keep_s`. What either raises comes out of the next `take`, or of the end
    of the block. Every row taken before the end is written before the block is left.
    """

    def __init__(
        self, write: Callable[[Sequence[Row]], None], flush: Callable[[], None] | None = None, keep_s: float = KEEP_S
    ) -> None:
        self._write = write
        self._flush, self._keep_s = flush, keep_s
        self._queue: queue.SimpleQueue[Sequence[Row]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self.error: BaseException | None = None  # what `write` or `flush` raised
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
            last, kept_at = False, time.monotonic()
            while not last:
                last = self._ended.wait(_PAUSE_S)
                batch: list[Row] = []
                while not self._queue.empty():
                    batch.extend(self._queue.get())
                if batch:
                    self._write(batch)
                if self._flush is not None and time.monotonic() - kept_at >= self._keep_s:
                    self._flush()
                    kept_at = time.monotonic()
        except BaseException as error:  # carried to the thread that measures, which raises it
            self.error = error
