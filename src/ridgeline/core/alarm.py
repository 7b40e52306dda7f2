"""An alarm on the event loop that rings within microseconds.

libuv's timers count whole milliseconds, and so do uvloop's `call_at` and `call_later`: a send due in 0.4 ms would go
out at 1 ms. On Linux a timerfd on the monotonic clock wakes the loop's poll at the nanosecond asked for; Python has it
from 3.13 on, so older ones reach the same three calls through ctypes. Elsewhere the loop's own timers serve, with
their millisecond.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable

_MONOTONIC, _NONBLOCK_CLOEXEC, _ABSOLUTE = 1, 0o2004000, 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """Calls `ring` once at each monotonic nanosecond it is set to; setting it again replaces the earlier time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._at: int | None = None
        self._handle: asyncio.Handle | None = None
        self._fd = _timerfd()
        if self._fd is not None:
            loop.add_reader(self._fd, self._expired)

    def set(self, at_ns: int | None) -> None:
        """Ring at `at_ns` on the monotonic clock (soon, when that is past). None: do not ring."""
        if at_ns == self._at:
            return
        self._at = at_ns
        if self._fd is not None:
            _settime(self._fd, 0 if at_ns is None else max(1, at_ns))  # zero would disarm
            return
        if self._handle is not None:
            self._handle.cancel()
        if at_ns is not None:
            delay = max(0.0, (at_ns - time.monotonic_ns()) / 1e9)
            self._handle = self._loop.call_later(delay, self._due)

    def close(self) -> None:
        self.set(None)
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _expired(self) -> None:
        assert self._fd is not None
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set to another time between the poll and now
            return
        self._due()

    def _due(self) -> None:
        self._at = None
        self._ring()


def _timerfd() -> int | None:
    if not sys.platform.startswith("linux"):
        return None
    fd = int(_libc().timerfd_create(_MONOTONIC, _NONBLOCK_CLOEXEC))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def _settime(fd: int, at_ns: int) -> None:
    spec = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(at_ns, 10**9)))
    if _libc().timerfd_settime(fd, _ABSOLUTE, ctypes.byref(spec), None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _libc() -> ctypes.CDLL:
    global _LIBC
    if _LIBC is None:
        _LIBC = ctypes.CDLL(None, use_errno=True)
    return _LIBC


_LIBC: ctypes.CDLL | None = None
