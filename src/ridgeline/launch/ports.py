"""Free ports of this machine, leased so that two runs on one machine do not pick the same one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType

from ridgeline.core.errors import EnvironmentFailed

ATTEMPTS = 200
LOOPBACK = "127.0.0.1"
LAST_PORT = 65535


class PortLeases:
    """Leases ports for as long as it is open. A lease is a locked file: the kernel drops it when we die."""

    def __init__(self, address: str = LOOPBACK) -> None:
        """`address`: where the servers will listen."""
        self._address = address
        self._folder = Path(tempfile.gettempdir()) / f"ridgeline-ports-{os.getuid()}"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._held: dict[int, TextIOWrapper] = {}

    def lease(self, count: int = 1) -> int:
        """The first of `count` neighbouring ports that are free now and that no other run holds. Raises
        EnvironmentFailed when none are found."""
        for _ in range(ATTEMPTS):
            first = _free_port(self._address)
            taken = {port: lock for port in range(first, first + count) if (lock := self._lock(port, known=first))}
            if len(taken) == count:
                self._held.update(taken)
                return first
            for lock in taken.values():
                lock.close()
        raise EnvironmentFailed(
            f"no free port was found at {self._address}", hint="look for servers left behind: `ss -ltnp`"
        )

    def _lock(self, port: int, *, known: int) -> TextIOWrapper | None:
        """The lock of a port, None when it is held or in use. `known` was just seen to be free."""
        if port in self._held or port > LAST_PORT or (port != known and not _is_free(self._address, port)):
            return None
        lock = (self._folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
        return lock

    def release(self, port: int) -> None:
        """Give one port back. The file stays: removing it would race with another run that locks it."""
        if lock := self._held.pop(port, None):
            lock.close()

    def close(self) -> None:
        for port in list(self._held):
            self.release(port)

    def __enter__(self) -> PortLeases:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _free_port(address: str) -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _is_free(address: str, port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True
