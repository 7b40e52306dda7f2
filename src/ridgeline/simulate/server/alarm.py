"""An alarm on the event loop with less than a millisecond of slack.

Event loops count whole milliseconds, but under a speed factor a step may last a tenth of one. A timerfd on the
monotonic clock rings when it should; elsewhere than on Linux the loop's own timer serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable

_CLOCK_MONOTONIC, _TFD_TIMER_ABSTIME = 1, 1


class Alarm:
    """Calls `ring` at the monotonic nanosecond it was last set to; None: not at all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop, self._ring = loop, ring
        self._timer: asyncio.TimerHandle | None = None
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = -1
        if self._libc is not None:
            self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
            if self._fd >= 0:
                loop.add_reader(self._fd, self._expired)

    def set(self, at_ns: int | None) -> None:
        """Ring at `at_ns`, at once when that has passed."""
        if self._fd >= 0:
            assert self._libc is not None
            when = max(at_ns, 1) if at_ns is not None else 0  # zero disarms
            spec = (ctypes.c_long * 4)(0, 0, when // 10**9, when % 10**9)  # interval, then value
            self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, spec, None)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            self._timer = self._loop.call_later(max(0.0, (at_ns - time.monotonic_ns()) / 1e9), self._ring)

    def close(self) -> None:
        self.set(None)
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _expired(self) -> None:
        with contextlib.suppress(BlockingIOError):  # set anew between the poll and this read
            os.read(self._fd, 8)
        self._ring()
